"""Recipe ``smoothadv``: cross-entropy on noisy copies of inputs that attack the smoothed classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothcert.registry import setting
from smoothcert.training.base import Recipe
from smoothcert.training.modes import answering
from smoothcert.training.noising import Batch, logits_of


@dataclass(frozen=True)
class SmoothAdv(Recipe):
    """Adversarial training of the smoothed classifier (Salman et al. 2019).

    Steps of projected gradient ascent in the l2 ball of the radius climb −log(mean softmax) over the draws of noise; the
    loss is the cross-entropy of the same draws around the point that was reached. The ball grows during the warm-up.
    Published: 2 to 10 steps, 1 to 8 draws, radius 0.25 to 2, 10 epochs of warm-up.
    """

    name = "smoothadv"
    attacks = True
    reads_noise = True

    draws: int = setting(2, "noisy copies of each input", least=1)
    steps: int = setting(2, "steps of the attack", least=1)
    radius: float = setting(0.5, "radius of the attack", least=0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        noise = batch.added.draw(batch.x, self.draws)
        attacked = batch.x + self.attack(model, batch.x, batch.y, noise.detach(), self.radius * batch.warmth)
        logits = logits_of(model, attacked + noise)
        return functional.cross_entropy(logits.flatten(0, 1), batch.y.repeat(self.draws))

    def attack(self, model: nn.Module, x: Tensor, y: Tensor, noise: Tensor, radius: float) -> Tensor:
        """The perturbation of each input, of l2 length at most ``radius``, that raises the loss of its mean softmax."""
        shift = torch.zeros_like(x)
        if radius == 0:
            return shift
        with answering(model):
            for _ in range(self.steps):
                shift.requires_grad_()
                loss = mean_cross_entropy(logits_of(model, x + shift + noise), y).sum()
                (slope,) = torch.autograd.grad(loss, shift)
                length = slope.flatten(1).norm(dim=1).clamp_min(1e-12)
                shift = shift.detach() + 2 * radius / self.steps * slope / _like(length, x)
                shift *= _like((radius / shift.flatten(1).norm(dim=1).clamp_min(1e-12)).clamp_max(1.0), x)
        return shift


def mean_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """−log of the mean over draws of the softmax at the label, (batch,), from logits (draws, batch, classes)."""
    mean = logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
    return -mean.gather(-1, y[:, None])[:, 0]


def _like(values: Tensor, x: Tensor) -> Tensor:
    """(batch,) as (batch, 1, …, 1)."""
    return values.view(-1, *[1] * (x.dim() - 1))
