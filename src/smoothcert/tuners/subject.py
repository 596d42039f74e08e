"""One input that is being tuned: its keyed draws, the network on its noisy copies, and what votes would prove of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.errors import ModelError
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.tail import chance_above_zero
from smoothcert.noise import Noise
from smoothcert.polling import in_blocks, rows_per_call
from smoothcert.seeds import Stage, draws_for
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.hill_climb import Separate

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


LARGE = (
    3072  # numbers of an input, as many as CIFAR-10 has; above, the network is asked less often while noise is chosen
)
FEWEST = 8


class Phase(IntEnum):
    """What tuning draws are for; the phases share none. The numbers are part of every run and never change."""

    ISOTROPIC = 1
    ANISOTROPIC = 2
    CHECK = 3


@dataclass(frozen=True, eq=False)
class Mirrored:
    """Draws and then their mirror images, ``number`` in all, of which one half is held in memory."""

    half: Tensor
    number: int

    def __len__(self) -> int:
        return self.number

    def split(self, size: int) -> Iterator[Tensor]:
        """Blocks of so many, the last of what is left, as a tensor of them all would be split."""
        known = len(self.half)
        for start in range(0, self.number, size):
            stop = min(start + size, self.number)
            yield torch.cat([self.half[start:stop], -self.half[max(start - known, 0) : max(stop - known, 0)]])


@dataclass(frozen=True, eq=False)
class Subject:
    """One input under the noise it starts from.

    Every call of the network is for a block of this input alone, or for all draws if they are fewer, and a key says what is drawn, so what is
    chosen for an input does not depend on the inputs beside it, on their number or on the workers.
    """

    smoother: Smoother
    index: int
    x: Tensor
    start: Noise
    gap: Gap

    def budget(self, asked: int | None, usual: int) -> int:
        """How many noisy copies: as many as asked for, else as usual, and of large inputs fewer, as one over the root of their size."""
        return asked or max(FEWEST, round(usual * math.sqrt(min(1.0, LARGE / self.x.numel()))))

    def draws(self, phase: Phase, step: int, number: int) -> Tensor:
        """A keyed block of draws of the unit law: (number, *event), never used to certify."""
        block = (int(phase) << 24) + step
        device = self.smoother.device
        keyed = draws_for(self.smoother.seed, self.index, Stage.TUNE, block, dtype=torch.float32, device=device)
        drawn: Tensor = self.start.law.sample((number, *self.x.shape), keyed)
        return drawn

    def mirrored(self, phase: Phase, step: int, number: int) -> Mirrored:
        """The same with every draw beside its mirror image, since laws are symmetric: means vary less."""
        return Mirrored(self.draws(phase, step, (number + 1) // 2), number)

    def logits(self, scale: Tensor, drawn: Tensor | Mirrored, at: Tensor | None = None) -> Tensor:
        """The network on noisy copies, block by block, of the input or of others by turns; off the pixel grid, whose
        rounding has no gradient."""

        def classify(block: Tensor, turns: Tensor) -> Tensor:
            x = self.x if at is None else at[turns % len(at)]
            answers: Tensor = self.smoother.model(x + self.start.loc.to(block) + scale.to(block) * block)
            return answers

        size = rows_per_call(len(drawn), self.smoother.plan.block)
        turns = torch.arange(len(drawn), device=self.x.device)
        logits = in_blocks(classify, zip(drawn.split(size), torch.split(turns, size), strict=True))
        if scale.requires_grad and torch.is_grad_enabled():
            check_differentiable(logits)
        return logits

    @torch.no_grad()
    def answers(self, scale: Tensor, drawn: Tensor | Mirrored, at: Tensor | None = None) -> Tensor:
        """The logits under a scale, without a gradient."""
        return self.logits(scale, drawn, at)

    def promise(self, answers: Tensor, label: int) -> float:
        """The radius at unit scale that the certifying votes would prove if margins went on as in these; 0 if none."""
        chance = chance_above_zero(margins_of(answers, label).double().cpu().numpy())
        plan = self.smoother.plan
        lower = float(lower_bound(round(chance * plan.trials), plan.trials, plan.alpha))
        return self.gap.factor * float(self.gap.rule.radius(lower, 1.0 - lower, self.gap.dim)) if lower > 0.5 else 0.0


def check_differentiable(logits: Tensor) -> None:
    """Refuse answers that lead to no gradient of the noise."""
    if not logits.requires_grad:
        raise ModelError(
            "the network's answers have no gradient with respect to its input, and tuning needs one; "
            "use --method hill_climb or data_dependent, which need votes only, or a differentiable network"
        )


def rivals_of(logits: Tensor, label: int) -> Tensor:
    """The logits of all other classes."""
    return torch.cat([logits[:, :label], logits[:, label + 1 :]], dim=1)


def margins_of(logits: Tensor, label: int) -> Tensor:
    """By how much the label leads each copy's strongest rival; -inf where an answer is not a number."""
    lead = logits[:, label] - rivals_of(logits, label).amax(dim=1)
    return lead.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)


def tuned(
    smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int], tune: Callable[[Subject], Tensor]
) -> Noise:
    """The noise with a row per input, of the scale that ``tune`` chooses; the workers take one input after another."""
    event = tuple(x.shape[1:])
    gap = Gap.of(start.law, smoother.norm, math.prod(event))
    if not len(x):
        return start
    subjects = [
        Subject(smoother, index, x[at].to(smoother.device), start.row(at, event, len(x)), gap)
        for at, index in enumerate(indices)
    ]
    rows = []
    with smoother.pollster.pool() as pool:
        for subject, scale in zip(subjects, pool.map(tune, subjects), strict=True):
            # Rounded to float32: half the bytes in the store.
            rows.append(subject.start.shaped(scale.detach().cpu().float()))
    return Separate(rows, len(event))
