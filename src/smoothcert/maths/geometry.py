"""Norms, the balls of any l_p, and the shapes made from them by a scale per coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from smoothcert.maths import FloatArray


def p_norm(vectors: ArrayLike, norm: float) -> FloatArray:
    """The l_p norm along the last axis, for any p > 0 (for p < 1 the usual quasi-norm), without overflow.

    >>> [round(float(p_norm([3.0, -4.0], p)), 3) for p in (0.5, 1, 2, math.inf)]
    [13.928, 7.0, 5.0, 4.0]
    """
    size = np.abs(np.asarray(vectors, dtype=float))
    if size.shape[-1] == 0:
        return np.zeros(size.shape[:-1])
    largest = size.max(axis=-1)
    if math.isinf(norm):
        return np.asarray(largest)
    unit = np.where(largest > 0, largest, 1.0)
    total = np.sum((size / unit[..., None]) ** norm, axis=-1)
    return np.asarray(largest * total ** (1.0 / norm))


def shrinkage(proved: float, asked: float, dim: int) -> float:
    """The factor c such that the l_asked ball of radius c·r lies inside the l_proved ball of radius r.

    Hölder: ‖δ‖_a <= d^(1/a - 1/p) ‖δ‖_p for p > a; for p <= a the l_p ball is inside as it is.

    >>> shrinkage(2, math.inf, 100), shrinkage(2, 1, 100)
    (0.1, 1.0)
    """
    return float(dim ** -max(0.0, 1.0 / proved - 1.0 / asked))


def geometric_mean(scale: ArrayLike) -> float:
    """The geometric mean through logs; exactly the common value when all are equal.

    >>> geometric_mean([0.3, 0.3, 0.3]), round(geometric_mean([1e-300, 1e300]), 9)
    (0.3, 1.0)
    """
    values = np.asarray(scale, dtype=float)
    least = float(values.min())
    return least * math.exp(float(np.mean(np.log(values) - math.log(least))))


def log_volume(scale: ArrayLike, radius: float, norm: float, dim: int) -> float:
    """Log-volume of {δ in R^dim : ‖δ/scale‖_norm <= radius}; minus infinity at radius zero.

    >>> round(math.exp(log_volume(1.0, 2.0, 2, 3)), 6) == round(4 / 3 * math.pi * 8, 6)
    True
    """
    if radius <= 0:
        return -math.inf
    inverse = 1.0 / norm
    ball = dim * math.log(2 * radius) + dim * float(gammaln(1 + inverse)) - float(gammaln(1 + dim * inverse))
    return ball + dim * float(np.mean(np.log(np.asarray(scale, dtype=float))))


def decimal_of(value: float) -> Decimal:
    """The shortest decimal that reads back as this float, which is what its writer meant: 0.29 is 0.29."""
    return Decimal(repr(float(value)))


def round_down(value: float, digits: int = 3) -> str:
    """A certified number as text, never above what was proved.

    >>> round_down(0.6549), round_down(0.29, 2), round_down(1.0, 2), round_down(-0.0004)
    ('0.654', '0.29', '1.00', '-0.001')
    """
    return _rounded(decimal_of(value), digits, ROUND_FLOOR)


def round_up(value: float, digits: int = 3) -> str:
    """What is at most so large as text, never below it.

    >>> round_up(0.6541), round_up(0.29, 2), round_up(0.0), round_up(math.inf)
    ('0.655', '0.29', '0.000', 'inf')
    """
    return _rounded(decimal_of(value), digits, ROUND_CEILING)


def digits_of(largest: float) -> int:
    """Decimals that show four digits of a radius below ten; 20 at most, which no radius of use needs.

    >>> digits_of(1.5), digits_of(0.015), digits_of(math.inf)
    (3, 5, 3)
    """
    return min(20, max(3, 3 - math.floor(math.log10(largest)))) if 0 < largest < math.inf else 3


def percent_down(share: float, digits: int = 1) -> str:
    """A share in percent, rounded down: exact for every k/n, where 100 · share in floating point may fall below it.

    >>> percent_down(0.814), 100 * 0.814, percent_down(2 / 3), percent_down(math.nan)
    ('81.4', 81.39999999999999, '66.6', 'nan')
    """
    return _rounded(decimal_of(share).scaleb(2), digits, ROUND_FLOOR)


def exact_mean(values: Sequence[float]) -> float:
    """The mean of numbers as they are written, rounded once: the mean of 1.81 and 1.81 and 1.81 is 1.81. NaN of none.

    >>> exact_mean([1.81] * 3), sum([1.81] * 3) / 3
    (1.81, 1.8099999999999998)
    """
    if not len(values):
        return math.nan
    with localcontext(prec=60):  # far more than floats of sizes that are added here can use
        return float(sum(map(decimal_of, values), Decimal()) / len(values))


def _rounded(value: Decimal, digits: int, towards: str) -> str:
    if not value.is_finite():
        return str(float(value))
    with localcontext(prec=400):  # as many digits as a float may have before and behind its point
        return str(value.quantize(Decimal(1).scaleb(-digits), rounding=towards))
