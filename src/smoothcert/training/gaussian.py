"""Recipe ``gaussian``: cross-entropy on noisy inputs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from smoothcert.training.base import Recipe
from smoothcert.training.noising import Batch, logits_of


@dataclass(frozen=True)
class Gaussian(Recipe):
    """The cross-entropy of one noisy copy of each input, under whichever law (Cohen et al. 2019, section 3.3)."""

    name = "gaussian"

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        copies = batch.noising.copies(batch.x, 1)
        return functional.cross_entropy(logits_of(model, copies)[0], batch.y)
