"""Recipe ``ucan``: cross-entropy over several draws; what a learned generator is rewarded for comes on top."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from smoothcert.registry import setting
from smoothcert.training.base import Recipe
from smoothcert.training.noising import Batch, logits_of


@dataclass(frozen=True)
class SeveralDraws(Recipe):
    """The mean cross-entropy of several noisy copies of each input (UCAN, Eq. 13; 5 as published)."""

    name = "ucan"
    draws: int = setting(5, "noisy copies of each input", least=1)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch.noising.copies(batch.x, self.draws))
        return functional.cross_entropy(logits.flatten(0, 1), batch.y.repeat(self.draws))
