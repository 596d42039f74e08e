"""The tuners as their papers print them: to compare with, and to reproduce. The better defaults are beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.noise import Noise
from smoothcert.tuners.base import Tuner, named, positive
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.subject import Phase, Subject, tuned

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

LEAST, LARGEST = 1 / 16, 4.0  # ours: where the clamp is active the scale of a sure input would grow for ever


class PublishedDataDependent(Tuner):
    """Gradient ascent on scale · gap of the mean softmax (Alfarra et al. 2022, Alg. 1).

    Published: step 1e-4, one draw a step, 900 steps, probabilities clamped to [0.02, 0.98].
    """

    name = "data_dependent_published"
    reads_input = True

    def __init__(self, *, steps: int = 900, draws: int = 1, step_size: float = 1e-4, clamp: float = 0.02) -> None:
        positive(steps=steps, draws=draws, step_size=step_size, clamp=clamp)
        self.steps, self.draws, self.step_size, self.clamp = steps, draws, step_size, clamp
        self.name = named(self, steps, draws, step_size, clamp)  # type: ignore[misc]

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


class PublishedAncer(Tuner):
    """Adam on gap·geomean(scale) + kappa·gap·min(scale), no scale below the isotropic one (Eiras et al. 2022, App. C).

    Published: 100 steps of 0.04, 100 draws each, kappa 2, probabilities clamped to [0.001, 0.999]. (The printed listing
    never clears the gradient; here it is cleared.)
    """

    name = "ancer_published"
    reads_input = True

    def __init__(
        self, *, steps: int = 100, draws: int = 100, step_size: float = 0.04, kappa: float = 2.0, clamp: float = 0.001
    ) -> None:
        positive(steps=steps, draws=draws, step_size=step_size, kappa=kappa, clamp=clamp)
        self.steps, self.draws, self.step_size, self.kappa, self.clamp = steps, draws, step_size, kappa, clamp
        self.isotropic = PublishedDataDependent()
        self.name = named(self, steps, draws, step_size, kappa, clamp)  # type: ignore[misc]

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
