"""Certified intervals for a number instead of a class: the median, or any quantile, of a function under noise.

h_τ(x) is the least v with P(f(x + ε) <= v) >= τ. Where a probability P at x is at most F(F⁻¹(P) + r) at distance r (F = Φ for
Gaussian noise in l2; the law's CDF for independent symmetric log-concave noise in l1, uniform noise too), the quantile
h_τ(x + δ), ‖δ/scale‖ <= r, lies between h_{τ−}(x) and h_{τ+}(x), τ± = F(F⁻¹(τ) ± r) (Chiang et al. 2020 for the Gaussian).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray

Real = Callable[[float], float]
ROUNDING = 1e-12  # of a level, absolute, outwards; a rank moves with it once in a billion


def shifted_levels(level: float, radius: float, cdf: Real, quantile: Real) -> tuple[float, float]:
    """τ− and τ+, rounded outwards: how far the level of a quantile can move within the radius at unit scale.

    >>> from scipy.special import ndtr, ndtri
    >>> [round(value, 6) for value in shifted_levels(0.5, 1.0, ndtr, ndtri)]
    [0.158655, 0.841345]
    """
    if not (0 < level < 1 and radius >= 0):
        raise SettingError(
            f"level={level} must lie strictly between 0 and 1 and radius={radius} be at least 0; try 0.5, 1"
        )
    at = float(quantile(level))
    down, up = float(cdf(at - radius)), float(cdf(at + radius))
    return max(0.0, down - ROUNDING), min(1.0, up + ROUNDING)


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


def certified_interval(
    draws: ArrayLike, radius: float, alpha: float, cdf: Real, quantile: Real, level: float = 0.5
) -> tuple[float, float]:
    """Every h_level(x + δ), ‖δ/scale‖ <= radius, lies in this interval, except with probability alpha.

    ``draws`` are f(x + ε) for independent ε, half of alpha for each end. One that is not a number counts as −∞ for the lower
    end and as +∞ for the upper. At radius 0 it is the confidence interval of the quantile itself.

    >>> from scipy.special import ndtr, ndtri
    >>> certified_interval(np.arange(1, 1001), 1.0, 0.001, ndtr, ndtri)
    (122.0, 879.0)
    """
    values = np.ravel(np.asarray(draws, dtype=float))
    down, up = shifted_levels(level, radius, cdf, quantile)
    low_rank, high_rank = lower_rank(len(values), down, alpha / 2), upper_rank(len(values), up, alpha / 2)
    low = _ordered(values, -math.inf)[low_rank - 1] if low_rank >= 1 else -math.inf
    high = _ordered(values, math.inf)[high_rank - 1] if high_rank <= len(values) else math.inf
    return float(low), float(high)


def _ordered(values: FloatArray, lost: float) -> FloatArray:
    """The draws in order, those that are no numbers at the end that claims less."""
    return np.sort(np.where(np.isnan(values), lost, values))
