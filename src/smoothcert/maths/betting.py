"""Bounds for votes that may stop at any time, and the interval that wastes nothing.

Two time-uniform lower bounds for p, the alternatives to fixed looks that Voráček (2024) compares, and Stevens'
randomized bound for a fixed number of votes. Letters: S successes in n votes. An upper bound on p is one minus the
lower bound of the failures.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.sequential import check_alpha

_HALVINGS = 60  # an interval of length one, down to the last bits of a float64
_ROUNDING = 1e-7  # the log-beta functions are right to about 1e-9 up to 1e7 votes


def union_lower_bound(
    successes: ArrayLike, trials: ArrayLike, alpha: float, first: int = 16, ratio: float = 1.25
) -> FloatArray:
    """At every n at once p is at least this, except with probability ``alpha``: a union over geometric times.

    Clopper–Pearson at t_1 = first, t_{k+1} = ceil(ratio · t_k) with alpha/(k(k+1)), which sums to alpha. Between two
    times the bound follows from either neighbour: votes still to come count as failures, votes too many as successes.

    >>> union_lower_bound([99, 990], [100, 1000], 0.001).round(4).tolist()
    [0.8664, 0.9648]
    """
    k, n = _checked(successes, trials, alpha)
    times = _schedule(int(n.max(initial=1)), first, ratio)
    after = np.searchsorted(times, n)  # the first time at or after n
    before = np.maximum(after - 1, 0)
    forward = _spent_bound(k, times[after], after, alpha)
    kept = np.maximum(k - (n - times[before]), 0)
    backward = np.where(after > 0, _spent_bound(np.minimum(kept, times[before]), times[before], before, alpha), 0.0)
    return np.asarray(np.maximum(forward, backward))


def _schedule(largest: int, first: int, ratio: float) -> IntArray:
    """The times from ``first`` on, each ``ratio`` times the last (at least one more), up to the first >= largest."""
    if first < 1 or not ratio > 1.0:
        raise SettingError(f"first is {first} and ratio {ratio}, but must be at least 1 and above 1; try 16 and 1.25")
    times = [first]
    while times[-1] < largest:
        times.append(max(times[-1] + 1, math.ceil(times[-1] * ratio)))
    return np.array(times, dtype=np.int64)


def _spent_bound(successes: IntArray, times: IntArray, position: IntArray, alpha: float) -> FloatArray:
    """Clopper–Pearson at the (position + 1)-th time, with the alpha of that time."""
    bounds = np.zeros(successes.shape)
    for each in np.unique(position):
        chosen = position == each
        share = alpha / ((each + 1.0) * (each + 2.0))
        bounds[chosen] = lower_bound(successes[chosen], times[chosen], float(share))
    return bounds


def log_capital(successes: ArrayLike, trials: ArrayLike, p: ArrayLike) -> FloatArray:
    """Log of the wealth of a bettor against "the probability is at most p": a supermartingale from 1 if that is true.

    The bettor mixes the bets of all q in (p, 1) by a Jeffreys prior cut at p: the mean over q of
    (q/p)^S ((1−q)/(1−p))^(n−S). (Waudby-Smith and Ramdas, 2024, for bets; Robbins, 1970, for mixtures.)
    """
    k, n, q = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in (successes, trials, p)))
    a, b = k + 0.5, n - k + 0.5
    with np.errstate(divide="ignore"):  # no mass above p: the wealth is gone, its log is minus infinity
        above = np.log(betaincc(a, b, q))
    prior = math.log(math.pi) + np.log(betaincc(0.5, 0.5, q))
    return np.asarray(betaln(a, b) + above - prior - xlogy(k, q) - xlog1py(n - k, -q))


def betting_lower_bound(successes: ArrayLike, trials: ArrayLike, alpha: float) -> FloatArray:
    """At every n at once p is at least this, except with probability ``alpha``: the smallest p not bet bankrupt.

    Ville (1939): under "the probability is at most p" the capital ever reaches 1/alpha with probability <= alpha.
    Capital falls with p while n·p < S − 1/2 and is at most 2 beyond, so for alpha <= 1/3 bisection finds the one
    crossing; the end returned is the one whose capital has reached 1/alpha.

    >>> betting_lower_bound([99, 990], [100, 1000], 0.001).round(4).tolist()
    [0.8921, 0.9712]
    """
    k, n = _checked(successes, trials, alpha)
    if alpha > 1.0 / 3.0:
        raise SettingError(f"alpha is {alpha}, but the betting bound needs at most 1/3; try 0.001")
    goal = math.log(1.0 / alpha) + _ROUNDING
    low = np.zeros(k.shape)
    high = k / np.maximum(n, 1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = np.clip(middle, 1e-300, 1.0 - 1e-16)
        rich = (log_capital(k, n, inside) >= goal) & (k > 0)
        low, high = np.where(rich, middle, low), np.where(rich, high, middle)
    return low


def randomized_lower_bound(successes: ArrayLike, trials: ArrayLike, alpha: float, uniform: ArrayLike) -> FloatArray:
    """p is at least this, except with probability exactly ``alpha`` (Stevens, 1950): Clopper–Pearson without slack.

    The p at which P(X > S) + uniform · P(X = S) = alpha, X ~ Binomial(n, p). ``uniform`` is one number per bound,
    drawn on [0, 1) independently of the votes and never drawn again. At 1 this is Clopper–Pearson; below alpha, with
    S = n, the bound is 1: a certainty that only the alpha pays for.

    >>> randomized_lower_bound([9, 9, 10], 10, 0.05, [1.0, 0.0, 0.5]).round(4).tolist()
    [0.6058, 0.7411, 0.7943]
    """
    k, n = _checked(successes, trials, alpha)
    k, n, share = np.broadcast_arrays(k, n, np.asarray(uniform, dtype=float))
    if not np.all((share >= 0.0) & (share <= 1.0)):
        raise SettingError("uniform lies outside 0..1; draw it once per bound with random()")
    low, high = np.zeros(k.shape), np.ones(k.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tail = share * _at_least(k, n, middle) + (1.0 - share) * _at_least(k + 1, n, middle)
        low, high = np.where(tail <= alpha, middle, low), np.where(tail <= alpha, high, middle)
    return low


def _at_least(k: IntArray, n: IntArray, p: FloatArray) -> FloatArray:
    """P(X >= k) for X ~ Binomial(n, p)."""
    inside = betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), p)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, inside))


def _checked(successes: ArrayLike, trials: ArrayLike, alpha: float) -> tuple[IntArray, IntArray]:
    """Counts broadcast together, refused unless 0 <= successes <= trials."""
    check_alpha(alpha)
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.int64), np.asarray(trials, dtype=np.int64))
    if np.any(k < 0) or np.any(k > n):
        raise SettingError("successes lie outside 0..trials; counts are whole numbers, never more than the votes")
    return k, n
