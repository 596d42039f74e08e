"""A multi-layer perceptron, d-256-256-K with ReLU: for small flat inputs and for quick tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from smoothcert.errors import ModelError

HIDDEN = 256


def mlp(shape: Sequence[int], classes: int) -> nn.Module:
    """A fresh perceptron from inputs of ``shape`` to ``classes`` logits.

    >>> import torch
    >>> mlp((1, 8, 8), classes=10)(torch.zeros(5, 1, 8, 8)).shape
    torch.Size([5, 10])
    """
    if not shape or min(shape) < 1:
        raise ModelError(f"mlp needs an input shape of positive sizes, such as (1, 28, 28); got {tuple(shape)}")
    if classes < 2:
        raise ModelError(f"a classifier needs 2 classes or more; got {classes}")
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, classes),
    )
