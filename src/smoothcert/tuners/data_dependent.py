"""Data-dependent smoothing: each input gets the factor of the noise at which its certificate is largest (DS)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from smoothcert.asks import tally
from smoothcert.echo import BOUND, HELP
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.smoother import Tuner
from smoothcert.tuners.echo import Quiet
from smoothcert.tuners.subject import Phase, Subject, tuned

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

STEP = 1.25  # of the search, refined once by its root
GAIN = 1.02  # the least that a step must promise: below it is chance
LEAST = -13  # steps from the start: the factor 1/18
USUAL = 400  # votes


@dataclass(frozen=True)
class DataDependent(Tuner):
    """One factor per input for the whole noise (Alfarra et al. 2022), found by votes instead of gradients.

    The radius that the certifying votes would prove, as far as ``votes`` tuning votes and their margins tell, is followed
    up or else down in steps of a quarter, then of an eighth, on the same draws at every step. The gradient form that was
    published is PublishedDataDependent; it moves too little, and its mean softmax is less sure than the votes are.

    largest: no factor above this one. echo: under much more noise than it was trained with a network answers one class
    whatever it is shown; inputs of that class would get any radius, and it would say nothing about them. So no factor is
    taken under which others are answered the same label more often than this.
    """

    name = "data_dependent"
    reads_input = True

    votes: int | None = setting(
        None, f"votes that compare one noise with another: {USUAL}, fewer above 3072 numbers", least=1
    )
    largest: float = setting(2.0, "the largest factor of the given noise", least=1)
    echo: float = setting(BOUND, HELP, least=0)

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return tuned(smoother, x, start, indices, lambda subject: self.tune(subject)[0])

    def tune(self, subject: Subject) -> tuple[Tensor, int]:
        """The scale of one input, and the label that it is tuned for: the one that leads under the noise it starts from."""
        votes = subject.budget(self.votes, USUAL)
        start, drawn = subject.start.scale, subject.mirrored(Phase.ISOTROPIC, 0, votes)
        at_start = subject.answers(start, drawn)
        label = int(tally(at_start)[:-1].argmax())
        quiet = Quiet.of(subject, label, [drawn], self.echo)

        def height(place: float) -> float:
            """The radius at so many steps from the start; where there is none, less noise is higher."""
            factor = math.pow(STEP, place)
            answers = at_start if place == 0 else subject.answers(factor * start, drawn)
            radius = factor * subject.promise(answers, label)
            return radius if radius > 0 and (place <= 0 or quiet.holds(factor * start)) else -factor

        place = climb(height, LEAST, math.log(self.largest, STEP))
        return start * math.pow(STEP, place), label


def climb(height: Callable[[float], float], least: float, largest: float) -> float:
    """The place of a peak, by whole steps from 0 and then by half a step to either side.

    >>> climb(lambda place: -abs(place - 2.4), -9, 9)
    2.5
    """
    here, top = 0.0, height(0.0)
    for direction in (1, -1):
        while least <= here + direction <= largest and (reached := height(here + direction)) > GAIN * top:
            here, top = here + direction, reached
        if here != 0:
            break
    for there in (here + 0.5, here - 0.5):
        if least <= there <= largest and height(there) > GAIN * top:
            return there
    return here
