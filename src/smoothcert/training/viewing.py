"""Views in place of noise in training: a fresh one of each example, so that any recipe trains for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.seeds import TorchDraws
from smoothcert.views import View


@dataclass(frozen=True, eq=False)
class Viewing:
    """What a recipe asks of a batch's noise, answered with views, each drawn from all of them."""

    view: View
    generator: torch.Generator

    def copies(self, x: Tensor, count: int) -> Tensor:
        """Views of the batch, (count, batch, *event)."""
        draws = TorchDraws(self.generator, torch.float64, x.device)
        lens = torch.as_tensor(self.view.drawn(tuple(x.shape[1:]), count * len(x), draws), device=x.device)
        grid = self.view.grid
        steps = x if grid is None else (x * grid).round().long()
        seen: Tensor = self.view.through(steps.repeat(count, *[1] * (x.dim() - 1)), lens)
        return seen.to(x.dtype).div_(self.view.unit).view(count, *x.shape)
