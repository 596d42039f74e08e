"""Recipe ``gaussian``: cross-entropy on noisy inputs (Cohen, Rosenfeld and Kolter, 2019, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional


def loss(model: nn.Module, x: Tensor, y: Tensor, noise_draw: Callable[[Tensor], Tensor]) -> Tensor:
    """The mean cross-entropy of one noisy copy of each input.

    >>> import torch
    >>> round(loss(nn.Flatten(), torch.zeros(4, 2), torch.zeros(4, dtype=torch.long), lambda x: x).item(), 4)
    0.6931
    """
    return functional.cross_entropy(model(noise_draw(x)), y)
