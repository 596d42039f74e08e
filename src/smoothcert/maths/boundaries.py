"""Exact group-sequential tests: is p above p0, asked at every look, with one alpha for all looks together.

The running count S_n is followed exactly under p = p0 (``sequential.Walk``). At each look the claim is made from the
smallest count at which all crossings so far stay within the alpha spent so far; what a look leaves over is carried on.
For p < p0 crossing is less likely (couple the votes), so the error at p0 is the largest under "p <= p0".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import SettingError
from smoothcert.maths import IntArray
from smoothcert.maths.sequential import Walk, check_alpha, check_looks, crossing_probability, late_spending


@dataclass(frozen=True, eq=False)
class Boundary:
    """Claim p > p0 once S_n >= upper at a look: false with probability ``error`` <= alpha if p <= p0.

    ``upper`` is looks + 1 where nothing can be claimed yet. Once S_n <= lower at a look the claim may be given up;
    ``error`` does not count on that, so going on all the same costs votes and no alpha.
    """

    p0: float
    looks: IntArray
    alpha: float
    upper: IntArray
    lower: IntArray
    error: float

    def __post_init__(self) -> None:
        for array in (self.looks, self.upper, self.lower):
            array.flags.writeable = False  # boundaries are shared through the cache


def boundary(p0: float, looks: ArrayLike, alpha: float) -> Boundary:
    """The exact group-sequential test of "p <= p0", wrong with probability at most ``alpha`` over all looks.

    Error spending after Lan and DeMets (1983), with ``late_spending``; binomial counts followed exactly, after
    Jennison and Turnbull (2000), chapter 12. Giving up is the mirrored test of "p >= p0".

    >>> test = boundary(0.5, [10, 20], 0.05)
    >>> test.upper.tolist(), test.lower.tolist(), round(test.error, 4)
    ([9, 15], [1, 5], 0.0271)
    """
    check_alpha(alpha)
    if not 0.0 < p0 < 1.0:
        raise SettingError(f"p0 is {p0}, but a test needs a probability strictly between 0 and 1")
    times = check_looks(looks)
    upper, error = _uppers(p0, times, alpha)
    failures, _ = _uppers(1.0 - p0, times, alpha)
    return Boundary(p0, times, alpha, upper, np.minimum(times - failures, upper - 1), error)


def _uppers(p0: float, times: IntArray, alpha: float) -> tuple[IntArray, float]:
    """The smallest count that claims at each look, and the probability under p0 that one of them is reached."""
    walk, uppers = Walk(p0), []
    # Followed probabilities are right to about 1e-12 of themselves; a part in 1e9 of alpha pays for that.
    spent = np.minimum(np.cumsum(late_spending(times, alpha)), alpha) * (1.0 - 1e-9)
    for trials, allowed in zip(times.tolist(), spent.tolist(), strict=True):
        walk = walk.grow(trials)
        uppers.append(walk.smallest_boundary(allowed))
        walk = walk.stop_at(uppers[-1])
    return np.array(uppers, dtype=np.int64), walk.error


def nested(boundaries: Iterable[Boundary]) -> tuple[Boundary, ...]:
    """The same tests by rising p0, each boundary at least that of any smaller p0, so that alpha serves them all.

    Where rounding to counts breaks the order the larger p0 is raised: its error only falls.
    """
    ordered: list[Boundary] = []
    for test in sorted(boundaries, key=lambda each: each.p0):
        if not ordered:
            ordered.append(test)
            continue
        below = ordered[-1]
        if test.alpha != below.alpha or not np.array_equal(test.looks, below.looks):
            raise SettingError("boundaries of different looks or alpha cannot be nested; compute them all alike")
        if np.any(test.upper < below.upper):
            upper = np.maximum(test.upper, below.upper)
            test = replace(test, upper=upper, error=crossing_probability(test.p0, test.looks, upper))
        ordered.append(replace(test, lower=np.maximum(test.lower, below.lower)))
    return tuple(ordered)


class Decision(NamedTuple):
    """For each input: the index of the largest p0 claimed (−1: none), and whether more votes are useless."""

    claimed: IntArray
    decided: NDArray[np.bool_]


def decide(counts: ArrayLike, boundaries: Sequence[Boundary]) -> Decision:
    """The largest p0 reached through all smaller ones; too large with probability at most alpha, over the whole grid.

    ``counts`` is cumulative, (inputs, looks so far). A wrong claim passes through the smallest wrong p0, whose test
    errs with probability at most alpha: the grid needs no correction. At the last look everything is decided.

    >>> tests = nested(boundary(p0, [10, 20], 0.05) for p0 in (0.5, 0.6, 0.7))
    >>> decide([[10, 20], [9, 16], [0, 9]], tests)
    Decision(claimed=array([ 2,  0, -1]), decided=array([ True,  True,  True]))
    >>> decide([[10], [9], [0]], tests).decided.tolist()
    [False, False, True]
    """
    table = np.asarray(counts, dtype=np.int64)
    _check_grid(table, boundaries)
    seen = table.shape[1]
    uppers = np.stack([test.upper[:seen] for test in boundaries])
    lowers = np.stack([test.lower[:seen] for test in boundaries])
    reached = np.any(table[:, None, :] >= uppers, axis=2)
    dropped = np.any(table[:, None, :] <= lowers, axis=2)
    claimed = np.logical_and.accumulate(reached, axis=1)
    # What lies above a p0 that was given up can no longer be reached through it.
    decided = np.all(claimed | np.logical_or.accumulate(dropped, axis=1), axis=1)
    if seen == boundaries[0].looks.size:
        decided = np.ones_like(decided)
    return Decision(claimed.sum(axis=1) - 1, decided)


def _check_grid(table: IntArray, boundaries: Sequence[Boundary]) -> None:
    if not boundaries:
        raise SettingError("no boundary is given; give at least one, from nested(...)")
    first = boundaries[0]
    if any(test.alpha != first.alpha or not np.array_equal(test.looks, first.looks) for test in boundaries):
        raise SettingError("boundaries differ in looks or alpha; compute them all alike")
    if np.any(np.diff([test.p0 for test in boundaries]) <= 0):
        raise SettingError("the p0 of the boundaries do not rise; order them with nested(...)")
    if table.ndim != 2 or table.shape[1] > first.looks.size:
        raise SettingError(f"counts are {table.shape}, but must be (inputs, looks so far), {first.looks.size} at most")
