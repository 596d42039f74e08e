"""Before the first vote: what a run may cost, and the most that it can prove."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from smoothcert.asks import Ask, Noisy
from smoothcert.cascade import Cascade
from smoothcert.estimators import Judge, estimator_of
from smoothcert.plan import Plan
from smoothcert.radius import RadiusTarget
from smoothcert.regions import Region
from smoothcert.registry import written
from smoothcert.regressor import SmoothedRegressor
from smoothcert.seeds import Stage
from smoothcert.sight import Sight
from smoothcert.smoother import Smoother
from smoothcert.votes import Votes

STEPS = (1.0, 2.5, 5.0)  # of round radii, times a power of ten
RECORD_BYTES, COUNT_BYTES = 900, 6  # of a record without its counts, and of a count, about


@dataclass(frozen=True)
class Forecast:
    """At most so many votes, seconds and bytes for all inputs; radii in the units of the inputs, for the noise as it was given."""

    inputs: int
    votes: int
    seconds: float
    size: int
    largest: float  # what a certificate can reach if all votes agree
    agreed: int  # votes on an input whose votes all agree
    radii: tuple[float, ...]  # round ones below the largest; none if some were asked for
    agreed_by_radii: int
    tuned: bool

    def __str__(self) -> str:
        rate = self.votes / max(self.seconds, 1e-9)
        chosen = ", and the work of choosing the noise" if self.tuned else ""
        text = (
            f"{self.inputs} inputs: at most {self.votes:,} votes, {self.seconds:,.0f} s at {rate:,.0f} votes/s{chosen}, "
            f"{self.size / 1e3:,.0f} kB; the largest radius that they can prove is {self.largest:.3g}"
        )
        if self.radii and self.agreed_by_radii < self.agreed:
            text += (
                f"; an input whose votes all agree takes {self.agreed:,}, with --radii {written(self.radii)} it takes "
                f"{self.agreed_by_radii:,}"
            )
        return text


def forecast(smoother: Smoother, x: Tensor, index: int, inputs: int) -> Forecast:
    """What certifying so many inputs like this one, (\\*event), may cost; a block of votes is timed, and none is counted."""
    stages = list(smoother) if isinstance(smoother, Cascade) else [smoother]
    votes = inputs * sum(stage.plan.trials + stage.select for stage in stages)
    seconds, classes = _seconds_of_block(smoother, x, index)
    plan, dim = smoother.plan, math.prod(x.shape)
    largest = largest_radius(smoother, x.shape)
    radii = () if plan.radii or smoother.front is not None else round_radii(largest)
    arrays = 16 * dim if smoother.tuner.reads_input else 0
    return Forecast(
        inputs=inputs,
        votes=votes,
        seconds=votes / plan.block * seconds / smoother.pollster.workers,
        size=inputs * (RECORD_BYTES + COUNT_BYTES * len(plan.looks) * (classes + 1) + dim + arrays),
        largest=largest,
        agreed=_agreed(smoother, x.shape, plan.radii),
        radii=radii,
        agreed_by_radii=_agreed(smoother, x.shape, radii or plan.radii),
        tuned=smoother.tuner.reads_input,
    )


def largest_radius(smoother: Smoother, shape: Sequence[int]) -> float:
    """The radius of an input whose votes all agree, under the noise as it was given.

    >>> from torch import nn
    >>> from smoothcert.noise import Noise
    >>> smoothed = Smoother(nn.Linear(4, 2).eval(), Noise.isotropic("gaussian", 0.25), estimate=1_000, estimator="fixed")
    >>> round(largest_radius(smoothed, (4,)), 3)
    0.614
    """
    plan = smoother.plan
    if isinstance(smoother, SmoothedRegressor):  # where an end of an interval is the last of all answers
        plan = replace(plan, alpha=smoother.share)
    judge = _judge(smoother, shape, plan)
    bound = judge.bound(_agreeing(smoother.plan, len(smoother.plan.looks)), 0)
    radius = judge.target.radius(bound.lower, bound.upper)
    front, scale = smoother.front, smoother.noise.scale.cpu().numpy()
    if front is None:
        return radius
    seen = Region(np.zeros(front.seen), scale, radius / float(scale.min()), smoother.norm)
    return front.pulled_back(seen, np.zeros(front.shape)).inner_radius


def warn_of_reach(smoother: Smoother, shape: Sequence[int]) -> None:
    """Say if radii were asked for that no number of agreeing votes proves; of numbers, refuse them: nothing would be proved."""
    if isinstance(smoother, SmoothedRegressor):
        smoother.reach(shape)
        return
    if not smoother.plan.radii or smoother.tuner.reads_input or isinstance(smoother.noise, Sight):
        return
    largest = largest_radius(smoother, shape)
    beyond = [radius for radius in smoother.plan.radii if radius > largest]
    if beyond:
        warnings.warn(
            f"radii {written(beyond)} cannot be proved by {smoother.plan.trials} votes under this noise, where the largest radius is "
            f"{largest:.3g}; leave them out, give more votes, or more noise",
            stacklevel=3,
        )


def round_radii(largest: float) -> tuple[float, ...]:
    """Up to four round radii, evenly spaced, below this one.

    >>> round_radii(0.97), round_radii(3.8)
    ((0.25, 0.5, 0.75), (1.0, 2.0, 3.0))
    """
    if not 0 < largest < math.inf:
        return ()
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(s for s in (step * scale for scale in (power / 10, power) for step in STEPS) if largest / s < 5)
    return tuple(float(f"{step * k:.3g}") for k in range(1, 5) if step * k < largest)


def _agreed(smoother: Smoother, shape: Sequence[int], radii: tuple[float, ...]) -> int:
    """After how many votes an input is decided whose votes all agree."""
    plan = replace(smoother.plan, radii=radii)
    judge = _judge(smoother, shape, plan)
    for number, cast in enumerate(plan.looks[:-1], start=1):
        if judge.stops(_agreeing(plan, number), 0):
            return int(cast)
    return plan.trials


def _agreeing(plan: Plan, looks: int) -> Votes:
    """The table of so many looks, all votes for the first of two classes."""
    counts = np.stack([plan.looks[:looks], np.zeros(looks, dtype=np.int64)], axis=1)
    return Votes(counts[None], np.zeros((1, looks), dtype=np.int64))


def _judge(smoother: Smoother, shape: Sequence[int], plan: Plan) -> Judge:
    noise = smoother.noise
    target = RadiusTarget.of(noise.law, smoother.norm, math.prod(shape), noise.scale.cpu().numpy(), noise.box)
    return estimator_of(plan).judge(plan, target)


def _seconds_of_block(smoother: Smoother, x: Tensor, index: int) -> tuple[float, int]:
    """How long a worker takes for a block of votes, the second time, and how many classes there are."""
    noise = smoother.noise.row(0, tuple(x.shape), 1)
    ask = Ask(index, Stage.SELECT, Noisy(x.to(smoother.device), noise), 0, 1, smoother.plan.block)
    with smoother.pollster.pool() as pool:
        pool.submit(smoother.pollster.cast, ask).result()
        began = time.perf_counter()
        [tally] = pool.submit(smoother.pollster.cast, ask).result()
    return time.perf_counter() - began, len(tally) - 1
