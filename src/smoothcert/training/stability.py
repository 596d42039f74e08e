"""Recipe ``stability``: be right on the input, and answer alike under noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothcert.registry import setting
from smoothcert.training.base import Recipe
from smoothcert.training.noising import Batch, logits_of


@dataclass(frozen=True)
class Stability(Recipe):
    """CE(x) + strength·KL(f(x) ‖ f(x + noise)) (Li et al. 2019; strength 6 as in Yang et al. 2020).

    Both go through the network as one batch, so that batch norm trains on the mixture it keeps.
    """

    name = "stability"

    strength: float = setting(6.0, "weight of the divergence", least=0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        both = torch.cat([batch.x, batch.noising.copies(batch.x, 1)[0]])
        clean, noisy = logits_of(model, both[None])[0].log_softmax(-1).chunk(2)
        divergence = (clean.exp() * (clean - noisy)).sum(-1).mean()
        return functional.nll_loss(clean, batch.y) + self.strength * divergence
