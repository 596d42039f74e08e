"""Normalisation as the first layer of a model, so that noise and radii stay in input space."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError


class Normalize(nn.Module):
    """(x - mean) / std, per channel; one value serves every channel.

    >>> Normalize([0.5], [0.25])(torch.ones(1, 3, 2, 2)).unique()
    tensor([2.])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        check_normalisation(mean, std)
        self.register_buffer("mean", torch.tensor(list(mean), dtype=torch.float32))
        self.register_buffer("std", torch.tensor(list(std), dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a batch (batch, channels, ...)."""
        if x.dim() < 2 or len(self.mean) not in (1, x.shape[1]):
            raise ModelError(
                f"normalisation has {len(self.mean)} channels, the batch has shape {tuple(x.shape)}; "
                "give mean and std one value, or one per channel"
            )
        trailing = (-1,) + (1,) * (x.dim() - 2)
        return (x - self.mean.view(trailing)) / self.std.view(trailing)


def check_normalisation(mean: Sequence[float], std: Sequence[float], channels: int | None = None) -> None:
    """Raise ModelError unless mean and std are finite, std > 0, and both fit the channels, if known.

    >>> check_normalisation([0.5, 0.5], [0.2, 0.2], channels=3)
    Traceback (most recent call last):
    smoothcert.errors.ModelError: mean and std have 2 values, the input has 3 channels; give 1 or 3
    """
    if len(mean) != len(std) or not mean:
        raise ModelError(f"mean has {len(mean)} values and std {len(std)}; give both as many, one or one per channel")
    if not all(math.isfinite(value) for value in mean):
        raise ModelError(f"every mean must be a finite number; got {list(mean)}")
    if not all(math.isfinite(value) and value > 0 for value in std):
        raise ModelError(f"every std must be a finite number above 0; got {list(std)}")
    if channels is not None and len(mean) not in (1, channels):
        allowed = "1" if channels == 1 else f"1 or {channels}"
        raise ModelError(f"mean and std have {len(mean)} values, the input has {channels} channels; give {allowed}")


def with_normalisation(model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> nn.Module:
    """``model`` with normalisation in front: it takes raw inputs, so noise is laid in input space.

    >>> with_normalisation(nn.Flatten(), [0.5], [0.5])(torch.ones(1, 1, 2))
    tensor([[1., 1.]])
    """
    return nn.Sequential(OrderedDict(normalize=Normalize(mean, std), model=model))
