"""The tuners as their papers print them: to compare with, and to reproduce. The better defaults are beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.smoother import Tuner
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.subject import Phase, Subject, tuned

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

LEAST, LARGEST = 1 / 16, 4.0  # ours: where the clamp is active the scale of a sure input would grow for ever


@dataclass(frozen=True)
class PublishedDataDependent(Tuner):
    """Gradient ascent on scale · gap of the mean softmax (Alfarra et al. 2022, Alg. 1).

    Published: step 1e-4, one draw a step, 900 steps, probabilities clamped to [0.02, 0.98].
    """

    name = "data_dependent_published"
    reads_input = True

    steps: int = setting(900, "steps of the ascent", least=1)
    draws: int = setting(1, "noisy copies per step", least=1)
    step_size: float = setting(1e-4, "size of a step", above=0)
    clamp: float = setting(0.02, "no probability nearer than this to 0 or 1", above=0, below=0.5)

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return tuned(smoother, x, start, indices, self.tune)

    def tune(self, subject: Subject) -> Tensor:
        """The scale of one input."""
        start = subject.start.scale
        factor = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        least = float(start.min())  # the step is in units of the scale itself
        for step in range(self.steps):
            logits = subject.logits(factor * start, subject.draws(Phase.ISOTROPIC, step, self.draws))
            (slope,) = torch.autograd.grad(factor * least * soft_gap(subject.gap, logits, self.clamp), [factor])
            with torch.no_grad():
                factor.add_(self.step_size / least**2 * slope).clamp_(LEAST, LARGEST)
        return factor.detach() * start


@dataclass(frozen=True)
class PublishedAncer(Tuner):
    """Adam on gap·geomean(scale) + kappa·gap·min(scale), no scale below the isotropic one (Eiras et al. 2022, App. C).

    Published: 100 steps of 0.04, 100 draws each, kappa 2, probabilities clamped to [0.001, 0.999]. (The printed listing
    never clears the gradient; here it is cleared.)
    """

    name = "ancer_published"
    reads_input = True

    steps: int = setting(100, "steps of the ascent", least=1)
    draws: int = setting(100, "noisy copies per step", least=1)
    step_size: float = setting(0.04, "size of a step", above=0)
    kappa: float = setting(2.0, "weight of the inner radius beside the volume", above=0)
    clamp: float = setting(0.001, "no probability nearer than this to 0 or 1", above=0, below=0.5)
    isotropic_steps: int = setting(900, "steps of the isotropic ascent before it", least=1)

    @property
    def isotropic(self) -> PublishedDataDependent:
        """Who finds the scale that this one starts from."""
        return PublishedDataDependent(steps=self.isotropic_steps)

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return tuned(smoother, x, start, indices, self.tune)

    def tune(self, subject: Subject) -> Tensor:
        """The scale of one input, (*event)."""
        least = torch.broadcast_to(self.isotropic.tune(subject).to(subject.x.device), subject.x.shape)
        scale = least.clone().requires_grad_()
        optimizer = torch.optim.Adam([scale], lr=self.step_size)
        for step in range(self.steps):
            logits = subject.logits(scale, subject.draws(Phase.ANISOTROPIC, step, self.draws))
            gap = soft_gap(subject.gap, logits, self.clamp)
            (scale.grad,) = torch.autograd.grad(-gap * (scale.log().mean().exp() + self.kappa * scale.min()), [scale])
            optimizer.step()
            with torch.no_grad():
                torch.maximum(scale, least, out=scale)
        return scale.detach()


def soft_gap(gap: Gap, logits: Tensor, clamp: float) -> Tensor:
    """The gap between the two largest mean softmax probabilities."""
    first, second = logits.softmax(dim=1).double().mean(dim=0).topk(2).values.clamp(clamp, 1 - clamp)
    return gap(first, second)
