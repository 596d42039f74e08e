"""A multi-layer perceptron with ReLU: for small flat inputs and for quick tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from smoothcert.errors import ModelError


def mlp(shape: Sequence[int], classes: int, widths: Sequence[int] = (256, 256)) -> nn.Module:
    """A fresh perceptron from inputs of ``shape`` over hidden layers of these widths to ``classes`` logits.

    >>> import torch
    >>> mlp((1, 8, 8), classes=10)(torch.zeros(5, 1, 8, 8)).shape
    torch.Size([5, 10])
    """
    if not shape or min(shape) < 1:
        raise ModelError(f"mlp needs an input shape of positive sizes, such as (1, 28, 28); got {tuple(shape)}")
    if classes < 2:
        raise ModelError(f"a classifier needs 2 classes or more; got {classes}")
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in zip((math.prod(shape), *widths), widths, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))
