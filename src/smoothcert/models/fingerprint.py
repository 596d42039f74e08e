"""The fingerprint of a model: equal layers and equal weights, equal fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from smoothcert.models.adapters import Classifier

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of a function among a layer's settings: another in every process


def fingerprint(model: Callable[[Tensor], Any]) -> str:
    """SHA-256 over the layers as torch prints them and the sorted (name, dtype, shape, bytes) of the state dict.

    A model without parameters is told apart by the name of its class or function alone: it cannot show its
    numbers. Nor can plain Python attributes that a module computes with, unless it prints them (extra_repr). A Classifier
    has the fingerprint of what it wraps.

    >>> layer = nn.Linear(2, 2)
    >>> before = fingerprint(layer)
    >>> _ = layer.bias.data.add_(1)
    >>> fingerprint(layer) == before
    False
    >>> fingerprint(nn.Sequential(layer, nn.ReLU())) == fingerprint(nn.Sequential(layer, nn.Tanh()))
    False
    """
    if isinstance(model, Classifier):
        return fingerprint(model.model)
    digest = hashlib.sha256()
    parameters = 0
    if isinstance(model, nn.Module):
        parameters = sum(1 for _ in model.parameters())
        digest.update(ADDRESS.sub("", repr(model)).encode())
        for module in model.modules():
            if isinstance(module, fx.GraphModule):  # torch prints its layers, not what it does with them
                digest.update(module.code.encode())
        for name, value in sorted(model.state_dict().items()):
            if isinstance(value, Tensor):
                digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
                digest.update(_bytes(value))
    if not parameters:
        digest.update(_qualified_name(model).encode())
    return digest.hexdigest()


def _bytes(value: Tensor) -> bytes:
    """The memory of a tensor; through uint8, since numpy knows no bfloat16."""
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _qualified_name(model: object) -> str:
    """Where the class of the model, or the function itself, is defined."""
    named = model if isinstance(getattr(model, "__qualname__", None), str) else type(model)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
