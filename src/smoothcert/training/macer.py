"""Recipe ``macer``: cross-entropy of the smoothed classifier, and a larger radius where it is right."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from smoothcert.registry import setting
from smoothcert.training.base import Recipe
from smoothcert.training.noising import Batch, logits_of
from smoothcert.training.smoothadv import mean_cross_entropy
from smoothcert.training.soft_radius import gap

CLAMP = 1e-5  # float32 tells 1 − 1e-5 from 1; the gap is then at most 8.53 for the Gaussian


@dataclass(frozen=True)
class Macer(Recipe):
    """−log(mean softmax) + strength·mean of scale/2·max(0, margin − gap) over the inputs that are right (Zhai et al. 2020).

    The gap F⁻¹(p_A) − F⁻¹(p_B) is of the mean softmax of logits times ``sharpness``, which is close to votes; scale/2
    times the gap is the soft radius. Published: 16 draws, strength 12 to 16, margin 8, sharpness 16, for hundreds of epochs;
    for short runs 4 draws see four times as many inputs, and the strength grows during the warm-up.
    """

    name = "macer"
    reads_noise = True

    draws: int = setting(4, "noisy copies of each input", least=1)
    strength: float = setting(12.0, "weight of the radius", least=0)
    margin: float = setting(8.0, "the gap beyond which nothing is gained", least=0)
    sharpness: float = setting(16.0, "what logits are multiplied by", least=0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch.noising.copies(batch.x, self.draws))
        votes = (self.sharpness * logits).softmax(-1).mean(0)
        right = votes.argmax(-1) == batch.y
        short = (self.margin - gap(batch.added.law, votes, CLAMP)).clamp_min(0.0)
        lost = 0.5 * batch.added.size(batch.x) * short * right
        return mean_cross_entropy(logits, batch.y).mean() + batch.warmth * self.strength * lost.mean()
