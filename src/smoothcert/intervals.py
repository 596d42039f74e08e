"""Step 6 for a number instead of a class: between which two it stays, within each radius."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.certificates import Certificate
from smoothcert.errors import SettingError
from smoothcert.estimators.base import Target
from smoothcert.maths import FloatArray
from smoothcert.maths.quantiles import ROUNDING, certified_interval, upper_rank

EVERYTHING = (-math.inf, math.inf)


@dataclass(frozen=True)
class Interval:
    """The smoothed number is from ``low`` to ``high`` wherever the input moves by at most ``radius``."""

    radius: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The distance of its ends."""
        return self.high - self.low

    def contains(self, number: float) -> bool:
        """Does the number lie in it?"""
        return self.low <= number <= self.high

    def farthest(self, number: float) -> float:
        """How far from this number the smoothed one may be."""
        return max(self.high - number, number - self.low)


@dataclass(frozen=True)
class IntervalCertificate(Certificate):
    """The median of the model's answers under noise lies in each of ``intervals``, all together except with probability alpha.

    It has no label; ``region`` is that of the largest radius. ``value`` is the median of the votes: an estimate of the number
    at the input itself, about which nothing is claimed but the intervals.
    """

    value: float = math.nan
    intervals: tuple[Interval, ...] = ()

    def __repr__(self) -> str:
        told = ", ".join(f"within {one.radius:g}: [{one.low:.4g}, {one.high:.4g}]" for one in self.intervals)
        return f"IntervalCertificate({self.value:.4g}; {told}; {self.soundness.value}, alpha {self.bound.alpha:g})"

    def _repr_html_(self) -> str:
        return f"<code>{self!r}</code>"


def enclosed(
    draws: FloatArray, target: Target, radii: Sequence[float], alpha: float, bounds: tuple[float, float] | None
) -> tuple[Interval, ...]:
    """The interval of each radius, each with its share of alpha; where no rank is sure enough, the end of the bounds."""
    least, most = bounds or EVERYTHING
    found = []
    for radius in radii:
        low, high = certified_interval(draws, target.probability(radius), alpha / len(radii))
        found.append(Interval(radius, max(low, least), min(high, most)))
    return tuple(found)


def check_reach(target: Target, radii: Sequence[float], trials: int, share: float) -> None:
    """Refuse radii at which an end, sure but for its share of alpha, is infinite: ranks are known before the first vote."""
    beyond = [r for r in radii if upper_rank(trials, min(1.0, target.probability(r) + ROUNDING), share) > trials]
    if beyond:
        largest = target.radius(share ** (1.0 / trials))
        raise SettingError(
            f"no interval within the radius {beyond[0]:g} has an end from {trials:,} votes: the largest radius is "
            f"{math.floor(1e3 * largest) / 1e3:g}; give smaller radii, more votes or more noise, or bounds=(low, high) that the model's "
            "answers are clipped to (--set task.bounds=LOW..HIGH)"
        )
