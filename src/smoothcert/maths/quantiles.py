"""Certified intervals for a number instead of a class: a quantile of a function under noise, from its draws.

h_τ(x) is the least v with P(f(x + ε) <= v) >= τ; τ = ½ is the median. Where a set of probability p at x keeps half of it within
the radius (the theorem of a law for one class), so does {f <= v} for v = h_p(x), and {f > v} for v < h_{1−p}(x): the median at
every point within the radius lies between h_{1−p}(x) and h_p(x) (Chiang et al. 2020 for the Gaussian).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray

ROUNDING = 1e-12  # of a level, absolute, outwards; a rank moves with it once in a billion


def lower_rank(trials: int, level: float, alpha: float) -> int:
    """The j-th smallest of the draws is at most h_level, except with probability alpha; 0 where none is.

    The largest j with P(Bin(trials, level) <= j − 1) <= alpha: X_(j) is above h only if fewer than j draws are at most h,
    and each is with probability at least level, atoms or not.

    >>> lower_rank(1000, 0.158655, 0.0005)
    122
    """
    return trials + 1 - upper_rank(trials, 1.0 - level, alpha)


def upper_rank(trials: int, level: float, alpha: float) -> int:
    """The k-th smallest of the draws is at least h_level, except with probability alpha; trials + 1 where none is.

    The least k with P(Bin(trials, level) >= k) <= alpha: X_(k) is below h only if k draws are, and each is with
    probability at most level.

    >>> upper_rank(1000, 0.841345, 0.0005)
    879
    """
    if not (trials >= 1 and 0 <= level <= 1 and 0 < alpha < 1):
        raise SettingError(
            f"trials={trials}, level={level}, alpha={alpha}: at least one draw, a level in 0..1, alpha in (0, 1)"
        )
    few, many = 0, trials + 1  # P(Bin >= 0) is one, P(Bin >= trials + 1) is zero
    while many - few > 1:
        middle = (few + many) // 2
        tail = float(betainc(middle, trials - middle + 1, level))
        few, many = (few, middle) if tail <= alpha * (1 - 1e-9) else (middle, many)
    return many


def certified_interval(draws: ArrayLike, level: float, alpha: float) -> tuple[float, float]:
    """h_{1−level} is at least the first number and h_level at most the second, except with probability alpha.

    ``draws`` are f(x + ε) for independent ε, half of alpha for each end. One that is not a number counts as −∞ for the lower
    end and as +∞ for the upper.

    >>> certified_interval(np.arange(1, 1001), 0.841345, 0.001)
    (122.0, 879.0)
    """
    values, up = np.ravel(np.asarray(draws, dtype=float)), min(1.0, level + ROUNDING)
    low_rank, high_rank = lower_rank(len(values), 1.0 - up, alpha / 2), upper_rank(len(values), up, alpha / 2)
    low = _ordered(values, -math.inf)[low_rank - 1] if low_rank >= 1 else -math.inf
    high = _ordered(values, math.inf)[high_rank - 1] if high_rank <= len(values) else math.inf
    return float(low), float(high)


def _ordered(values: FloatArray, lost: float) -> FloatArray:
    """The draws in order, those that are no numbers at the end that claims less."""
    return np.sort(np.where(np.isnan(values), lost, values))
