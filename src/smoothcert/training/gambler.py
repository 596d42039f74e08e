"""Recipe ``gambler``: a network with one more class, "pass", for inputs that it had better leave to the next stage."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from smoothcert.registry import setting
from smoothcert.training.base import Recipe
from smoothcert.training.noising import Batch, logits_of


@dataclass(frozen=True)
class Gambler(Recipe):
    """−log(p_label + p_pass/odds) on a noisy copy of each input (Liu et al. 2019); cross-entropy until it is warm.

    The last class of the network is "pass", for ``sc.Cascade``: data have one class fewer.
    """

    name = "gambler"
    passes = True

    odds: float = setting(
        3.0, "What a right answer pays beside passing: the lower, the more is passed on.", above=1, most=1000
    )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch.noising.copies(batch.x, 1))[0]
        if batch.warmth < 1.0:
            return functional.cross_entropy(logits, batch.y)
        chances = logits.softmax(dim=1)
        won = chances.gather(1, batch.y[:, None])[:, 0] + chances[:, -1] / self.odds
        return -won.clamp_min(1e-30).log().mean()
