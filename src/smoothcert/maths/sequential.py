"""Looking at the votes as they come: when to look, what each look may spend, and what the looks cost in error.

Looks and their alpha are fixed before the first vote and never extended. Letters: S_n is the count of successes
after n votes, p the probability of a success, J the number of looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.intervals import lower_bound, upper_bound

# Probabilities below exp(-75) = 3e-33 are not followed but charged: see Walk.neglected.
_TAIL_EXPONENT = 75.0


def looks(trials: int, first: int = 100, number: int = 25, multiple: int = 1) -> IntArray:
    """After how many votes to look: at most ``number`` log-spaced counts from ``first`` to exactly ``trials``.

    All but the last are rounded up to a multiple of ``multiple`` (the size of a polled block).

    >>> looks(1000, number=5).tolist(), looks(1000, number=5, multiple=64).tolist(), looks(80).tolist()
    ([100, 178, 317, 563, 1000], [128, 192, 320, 576, 1000], [80])
    """
    for name, value in {"trials": trials, "first": first, "number": number, "multiple": multiple}.items():
        if value < 1:
            raise SettingError(f"{name} is {value}, but looks need at least 1; give a whole number from 1 up")
    if trials <= first or number == 1:
        return np.array([trials], dtype=np.int64)
    # Rounded to 1e-6 first, so that the last bit of a logarithm never moves a look.
    even = np.round(np.geomspace(first, trials, number), 6)
    early = np.ceil(even[:-1] / multiple).astype(np.int64) * multiple
    return np.append(np.unique(early[early < trials]), trials).astype(np.int64)


def late_spending(looks: ArrayLike, alpha: float) -> FloatArray:
    """The alpha spent at each look, in all at most ``alpha``: half evenly before the last look, half on the last.

    >>> late_spending([100, 200, 400], 0.001).round(6).tolist(), late_spending([400], 0.001).tolist()
    ([0.00025, 0.00025, 0.0005], [0.001])
    """
    check_alpha(alpha)
    early = check_looks(looks).size - 1
    if early == 0:
        return np.array([alpha])
    # One step down, so that the rounded parts never add up to more than alpha.
    return np.append(np.full(early, np.nextafter(alpha / 2 / early, 0.0)), alpha / 2)


def check_looks(looks: ArrayLike) -> IntArray:
    """The looks as whole numbers, refused unless they rise strictly from at least one vote."""
    values = np.asarray(looks)
    if values.ndim != 1 or values.size == 0 or values[0] < 1 or np.any(np.diff(values) <= 0):
        raise SettingError(f"looks are {values.tolist()}, but must rise strictly from 1 up; use looks(trials)")
    if np.any(values != np.floor(values)):
        raise SettingError(f"looks are {values.tolist()}, but votes are counted in whole numbers; use looks(trials)")
    return values.astype(np.int64)


def check_alpha(alpha: float) -> None:
    """Refuse an alpha that is not a probability strictly between 0 and 1."""
    if not 0.0 < alpha < 1.0:
        raise SettingError(f"alpha is {alpha}, but an error probability lies strictly between 0 and 1; try 0.001")


def _check_counts(counts: ArrayLike, looks: ArrayLike, spending: ArrayLike) -> tuple[IntArray, IntArray, FloatArray]:
    """Cumulative counts (inputs, looks so far) with the looks and the alphas that belong to them."""
    table, times, alphas = np.asarray(counts, dtype=np.int64), check_looks(looks), np.asarray(spending, dtype=float)
    if table.ndim != 2 or table.shape[1] > times.size or alphas.shape != times.shape:
        raise SettingError(
            f"counts {table.shape}, looks {times.shape} and spending {alphas.shape} do not fit; "
            "counts are (inputs, looks so far), with one alpha per look"
        )
    seen = table.shape[1]
    return table, times[:seen], alphas[:seen]


def running_lower(counts: ArrayLike, looks: ArrayLike, spending: ArrayLike) -> FloatArray:
    """At every look p is at least this, at all looks together except with probability ``sum(spending)``.

    Clopper–Pearson at each look with that look's alpha, and the best so far (a union bound over the looks).
    ``counts`` is cumulative, (inputs, looks so far), as is the answer.

    >>> running_lower([[99, 150]], [100, 200], [0.0005, 0.0005]).round(3).tolist()
    [[0.904, 0.904]]
    """
    table, times, alphas = _check_counts(counts, looks, spending)
    return np.asarray(np.maximum.accumulate(lower_bound(table, times, alphas), axis=1))


def running_upper(counts: ArrayLike, looks: ArrayLike, spending: ArrayLike) -> FloatArray:
    """At every look p is at most this, at all looks together except with probability ``sum(spending)``.

    Used only to stop it costs no alpha, since stopping never changes what ``running_lower`` claims at a look;
    reported, it does: its ``spending`` must then be paid beside the lower bound's.

    >>> running_upper([[99, 150]], [100, 200], [0.0005, 0.0005]).round(3).tolist()
    [[1.0, 0.842]]
    """
    table, times, alphas = _check_counts(counts, looks, spending)
    return np.asarray(np.minimum.accumulate(upper_bound(table, times, alphas), axis=1))


def projected_lower(counts: ArrayLike, looks: ArrayLike, spending: ArrayLike, doubt: float = 0.05) -> FloatArray:
    """What the last look would bound p by if p were as large as it may be with probability ``doubt``: no claim.

    For ``undecided``: whether the votes still to come would gain more than the tolerance. It stops sooner than
    ``running_upper``, which asks how large p itself might be. ``counts``, looks and spending as there.

    >>> projected_lower([[99, 150]], [100, 200], [0.0005, 0.0005]).round(3).tolist()
    [[0.951, 0.688]]
    """
    table, times, _ = _check_counts(counts, looks, spending)
    check_alpha(doubt)
    trials, alpha = int(check_looks(looks)[-1]), float(np.asarray(spending, dtype=float)[-1])
    likely = upper_bound(table, times, doubt)
    return lower_bound(np.floor(likely * trials), trials, alpha)


def undecided(
    lower_radius: ArrayLike, upper_radius: ArrayLike, *, grid: ArrayLike | None = None, tolerance: float | None = None
) -> np.typing.NDArray[np.bool_]:
    """Which inputs need more votes: a stopping rule, which may use the running bounds freely and claims nothing.

    ``grid``: while a radius of it lies in (lower, upper]. ``tolerance``: while upper − lower > tolerance · upper,
    where negative radii count as zero. With both, an input stops as soon as one of them is content.

    >>> undecided([0.3, 0.3], [0.45, 0.6], grid=[0.25, 0.5]).tolist()
    [False, True]
    >>> undecided([0.98, 0.97, 0.9], [1.0, 1.0, np.inf], tolerance=0.02).tolist()
    [False, True, True]
    """
    low, high = np.broadcast_arrays(np.asarray(lower_radius, dtype=float), np.asarray(upper_radius, dtype=float))
    if grid is None and tolerance is None:
        raise SettingError("neither grid nor tolerance is given, so nothing says when to stop; give one of them")
    going = np.ones(low.shape, dtype=bool)
    if grid is not None:
        radii = np.asarray(grid, dtype=float).reshape(-1)
        going &= np.any((radii > low[..., None]) & (radii <= high[..., None]), axis=-1)
    if tolerance is not None:
        # Written so that an infinite upper radius never counts as close.
        going &= np.maximum(low, 0.0) < (1.0 - tolerance) * np.maximum(high, 0.0)
    return going


@dataclass(frozen=True, eq=False)
class Walk:
    """The exact law of S_n among the runs that have not crossed: ``mass[i]`` is P(S_n = start + i, not crossed).

    ``neglected`` bounds all probability that was not followed; it is counted as crossed, so errors only look larger.
    """

    p: float
    trials: int = 0
    start: int = 0
    mass: FloatArray = field(default_factory=lambda: np.ones(1))
    crossed: float = 0.0
    neglected: float = 0.0

    def grow(self, trials: int) -> Walk:
        """The walk at ``trials`` votes: mass convolved with a Binomial(trials − n, p), with no FFT.

        Sums of products of positive numbers keep their relative precision, which an FFT loses in the tails.
        """
        start, steps, outside = binomial_window(trials - self.trials, self.p)
        mass = np.convolve(self.mass, steps)
        below = int(np.searchsorted(np.cumsum(mass), math.exp(-_TAIL_EXPONENT)))
        lost = float(mass[:below].sum()) + outside
        return replace(
            self, trials=trials, start=self.start + start + below, mass=mass[below:], neglected=self.neglected + lost
        )

    def smallest_boundary(self, spent: float) -> int:
        """The smallest count that may be made a boundary here with crossings and neglect within ``spent``."""
        room = spent - self.crossed - self.neglected
        tails = np.cumsum(self.mass[::-1])[::-1]
        return min(self.start + int(np.count_nonzero(tails > room)), self.trials + 1)

    def stop_at(self, boundary: int) -> Walk:
        """The walk after every run with S_n >= boundary has crossed."""
        keep = max(0, boundary - self.start)
        return replace(self, mass=self.mass[:keep], crossed=self.crossed + float(self.mass[keep:].sum()))

    @property
    def error(self) -> float:
        """An upper bound, tight to about 1e-30, on the probability of having crossed."""
        return self.crossed + self.neglected


def binomial_window(trials: int, p: float) -> tuple[int, FloatArray, float]:
    """Binomial(trials, p) on a window: its first count, the probabilities, and a bound on those left out.

    Bernstein (1924): P(|X − E X| >= t) <= 2 exp(−t² / (2 (V + t/3))), V the variance.

    >>> binomial_window(2, 0.5)
    (0, array([0.25, 0.5 , 0.25]), 0.0)
    """
    variance, third = trials * p * (1.0 - p), _TAIL_EXPONENT / 3.0
    reach = third + math.sqrt(third**2 + 2.0 * _TAIL_EXPONENT * variance)
    low, high = max(0, math.floor(trials * p - reach)), min(trials, math.ceil(trials * p + reach))
    outside = 0.0 if (low, high) == (0, trials) else 2.0 * math.exp(-_TAIL_EXPONENT)
    mode, odds = min(max(int((trials + 1) * p), low), high), p / (1.0 - p)
    above, below = np.arange(mode, high), np.arange(mode, low, -1)
    # Ratios of neighbours, then one normalisation: relative error near 1e-13, where log-gamma would leave 1e-10.
    right = np.cumprod((trials - above) / (above + 1.0) * odds)
    left = np.cumprod(below / (trials - below + 1.0) / odds)
    weights = np.concatenate([left[::-1], [1.0], right])
    return low, weights / weights.sum(), outside


def crossing_probability(p: float, looks: ArrayLike, upper: ArrayLike) -> float:
    """The probability that S_n >= upper at one of the looks, exact up to rounding, for any such rule.

    >>> crossing_probability(0.5, [1, 2], [1, 2]), crossing_probability(0.5, [2, 4], [3, 4])
    (0.5, 0.0625)
    """
    times, heights = check_looks(looks), np.asarray(upper, dtype=np.int64)
    if heights.shape != times.shape:
        raise SettingError(f"{heights.size} boundaries for {times.size} looks; give one boundary per look")
    if not 0.0 <= p <= 1.0:
        raise SettingError(f"p is {p}, but a probability lies between 0 and 1")
    if p in (0.0, 1.0):
        return float(np.any(heights <= times * int(p)))
    walk = Walk(p)
    for trials, boundary in zip(times.tolist(), heights.tolist(), strict=True):
        walk = walk.grow(trials).stop_at(boundary)
        if walk.mass.size == 0:
            break
    return min(1.0, walk.error)
