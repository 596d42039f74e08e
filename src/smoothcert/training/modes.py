"""Questions asked of a model in the middle of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def answering(model: nn.Module) -> Iterator[None]:
    """The model as it would answer (eval mode), put back after: looking at it must not move its batch norm."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)
