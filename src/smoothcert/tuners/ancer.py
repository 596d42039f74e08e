"""ANCER: each input gets its own scale in every coordinate, so that its certified region is as large as can be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.echo import BOUND, HELP, NUMBER, VOTES
from smoothcert.maths.intervals import lower_bound
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.smoother import Tuner
from smoothcert.tuners.data_dependent import USUAL, DataDependent
from smoothcert.tuners.echo import Quiet
from smoothcert.tuners.subject import Mirrored, Phase, Subject, rivals_of, tuned

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

SIZES = (1.1, 1.0, 0.9)  # copies of the shape that was found, compared by votes
ROOM = math.log(20.0)  # no coordinate above 20 times the least: where nothing matters it would grow for ever
DRAWS, COMPARED = 64, 1000  # of inputs that are not large
LOUD = 5.0  # the price of echo beyond its bound; on digits 20 left smaller regions, 2 much the same


@dataclass(frozen=True)
class Ancer(Tuner):
    """A scale per coordinate, by ascent on log inner radius + log proxy radius / kappa (after Eiras et al. 2022).

    The scale is base·exp(excess), excess >= 0: the base is the least scale, which alone makes the inner radius with the gap,
    and it starts, as published, from the isotropic solution (DataDependent) and stays above it. The gap is the law's radius
    at Φ(mean/deviation) of the margin over the draws, never above what all certifying votes together could prove; votes
    that agree would leave no gradient, margins do. At the end ``votes`` fresh tuning votes and their margins compare the
    shape, at several sizes, with the isotropic noise: a shape whose inner radius they call smaller is not taken. largest: as
    in DataDependent, of the least scale. echo: as there; the ascent pays for what is beyond it on a quarter of the
    draws, and of a shape that echoes even so as much of the way is gone as does not.
    """

    name = "ancer"
    reads_input = True

    steps: int = setting(100, "steps of the ascent", least=1)
    draws: int | None = setting(None, f"noisy copies per step: {DRAWS}, fewer above 3072 numbers", least=2)
    step_size: float = setting(0.25, "size of the first step", above=0)
    kappa: float = setting(1.5, "weight of the inner radius beside the volume", above=0)
    votes: int | None = setting(
        None, f"votes that compare one noise with another: {COMPARED}, fewer above 3072 numbers", least=1
    )
    largest: float = setting(2.0, "the largest factor of the given noise, of the least scale", least=1)
    echo: float = setting(BOUND, HELP, least=0)

    @property
    def isotropic(self) -> DataDependent:
        """Who finds the noise that the ascent starts from, with no more votes than were asked for."""
        votes = None if self.votes is None else min(self.votes, USUAL)
        return DataDependent(votes=votes, largest=self.largest, echo=self.echo)

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return tuned(smoother, x, start, indices, self.tune)

    def tune(self, subject: Subject) -> Tensor:
        """The scale of one input, (*event)."""
        isotropic, label = self.isotropic.tune(subject)
        drawn = self.checks(subject)
        first = list(islice(drawn, math.ceil(NUMBER * VOTES / subject.smoother.plan.block)))
        quiet = Quiet.of(subject, label, first, self.echo)
        shape = quiet.towards(isotropic, self.ascend(subject, isotropic, label, quiet))
        most = self.isotropic.largest * float(subject.start.scale.min()) / float(shape.min())
        sizes = [min(size, most) * shape for size in SIZES]
        return self.best(subject, [isotropic, *filter(quiet.holds, sizes)], label, chain(first, drawn))

    def checks(self, subject: Subject) -> Iterator[Mirrored]:
        """The fresh draws that compare scales, block by block: all of them may be more than memory holds."""
        block = subject.smoother.plan.block
        for step in range(math.ceil(subject.budget(self.votes, COMPARED) / block)):
            yield subject.mirrored(Phase.CHECK, step, block)

    def ascend(self, subject: Subject, isotropic: Tensor, label: int, quiet: Quiet) -> Tensor:
        """The shape at the end of the ascent, by Adam with steps that fall to nothing along a cosine."""
        least = float(isotropic.min())
        room = max(0.0, math.log(self.isotropic.largest * float(subject.start.scale.min()) / least))
        isotropic = isotropic.to(subject.x)
        base = torch.zeros((), device=subject.x.device, requires_grad=True)
        excess = torch.zeros_like(subject.x, requires_grad=True)
        groups = [{"params": [excess], "lr": self.step_size}, {"params": [base], "lr": self.step_size / 4}]
        optimizer = torch.optim.Adam(groups)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        draws = subject.budget(self.draws, DRAWS)
        for step in range(self.steps):
            drawn = subject.mirrored(Phase.ANISOTROPIC, step, draws)
            scale = isotropic * (base + excess).exp()
            log_inner = base + margin_gap(subject, subject.logits(scale, drawn), label).log()
            loss = -log_inner - (log_inner + excess.mean()) / self.kappa
            if quiet.allowed < 1:
                loss = loss + LOUD * quiet.beyond(scale, drawn.half[::2])
            base.grad, excess.grad = torch.autograd.grad(loss, [base, excess])
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                base.clamp_(0.0, room)
                excess.clamp_(0.0, ROOM)
        return (isotropic * (base + excess).exp()).detach().double()

    def best(self, subject: Subject, scales: Sequence[Tensor], label: int, drawn: Iterable[Mirrored]) -> Tensor:
        """The scale with the best objective by fresh votes, among those whose inner radius is at least the first's."""
        answers = zip(*([subject.answers(scale, each) for scale in scales] for each in drawn), strict=True)
        promises = [subject.promise(torch.cat(own), label) for own in answers]
        inner = [float(scale.min()) * promise for scale, promise in zip(scales, promises, strict=True)]

        def objective(at: int) -> float:
            if not inner[at] >= inner[0] > 0:
                return -math.inf
            return (
                math.log(inner[at]) + math.log(promises[at]) / self.kappa + float(scales[at].log().mean()) / self.kappa
            )

        return scales[max(range(len(scales)), key=objective)]


def margin_gap(subject: Subject, logits: Tensor, label: int) -> Tensor:
    """The radius at unit scale that the label's margins promise, and no more than the certifying votes could prove."""
    plan = subject.smoother.plan
    margins = logits[:, label] - rivals_of(logits, label).logsumexp(dim=1)
    most = float(lower_bound(plan.trials, plan.trials, plan.alpha))
    # A thousand rivals together outweigh a class that wins every vote.
    return subject.gap.of_margins(margins, most, lost=True)
