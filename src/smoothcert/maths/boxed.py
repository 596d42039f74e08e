"""Uniform noise on inputs that lie in a box: more than p − q, from the same votes.

The noise is uniform on ∏[−s_i, s_i]. Its cubes around x and x + δ share ∏(1 − e_i/2)₊ of their volume, e = |δ|/s, and
outside the share the class loses, and a rival gains, at most all of it: the answer is constant while the share stays
above t = 1 − (p − q)/2. With no box the cheapest way out is one coordinate, which gives Σe < p − q; a box caps what one
coordinate can do, and the rest must be spread over others, where it hurts less (Voráček and Hein 2023, any scale here).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import InputError, SettingError
from smoothcert.maths import FloatArray

EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Box:
    """Every coordinate of an input lies from low to high.

    >>> print(Box(0, 1), Box.read("-0.5..1"))
    0..1 -0.5..1
    >>> Box(0, 1).widths(0.5, 3).round(9), Box(0, 1).widths(np.array([0.5, 2.0]), 2).round(9)
    (array([2., 2., 2.]), array([2. , 0.5]))
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SettingError(
                f"the box {self.low}..{self.high} must run from one finite number up to a larger one; for pixels it is 0..1"
            )

    def __str__(self) -> str:
        """The ends, as ``read`` takes them."""
        return f"{self.low!r}..{self.high!r}".replace(".0..", "..").removesuffix(".0")

    @classmethod
    def read(cls, text: str) -> Box:
        """The box written as LOW..HIGH."""
        low, _, high = text.partition("..")
        try:
            return cls(float(low), float(high))
        except ValueError:
            raise SettingError(f"the box {text!r} must be written LOW..HIGH; for pixels it is 0..1") from None

    def holds(self, x: ArrayLike) -> bool:
        """Are all of these numbers inside? Not one of them that is NaN is."""
        values = np.asarray(x)
        return bool(np.all((values >= self.low) & (values <= self.high)))

    def widths(self, scale: ArrayLike, dim: int) -> FloatArray:
        """How far two points of the box can be apart in each coordinate, in units of scale, (dim,); rounded up.

        Caps that hold at every input: those at one center are no larger, and prove next to nothing more, since a picture
        has black or white pixels enough (CIFAR-10: .1 to 1.2 % of the radius).
        """
        axes = np.ravel(np.asarray(scale, dtype=float))
        return np.broadcast_to(box_caps(np.full(axes.shape, self.low), self.low, self.high, axes), dim)


def box_caps(center: ArrayLike, low: ArrayLike, high: ArrayLike, scale: ArrayLike) -> FloatArray:
    """How far a point of the box can be from the center in each coordinate, in units of scale; rounded up.

    ``center`` is (..., dim); the box and the scale broadcast to it. A larger cap never proves more, so rounding up is safe.

    >>> box_caps([0.25, 0.5], 0.0, 1.0, 0.5).round(9)
    array([1.5, 1. ])
    """
    x, bottom, top, s = (np.asarray(value, dtype=float) for value in (center, low, high, scale))
    if not (np.all(np.isfinite(s)) and np.all(s > 0)):
        raise SettingError(
            "a scale is not a number above 0; uniform noise has a half-width above 0 in every coordinate"
        )
    if not (np.all(x >= bottom) and np.all(x <= top)):  # also where one of them is NaN
        raise InputError(
            "the input lies outside the box; a radius that relies on the box holds for inputs inside only: clip the input "
            "before the noise, or name a box that holds all of them"
        )
    return np.asarray(np.nextafter(np.maximum(x - bottom, top - x) / s * (1 + 2 * EPSILON), np.inf))


def boxed_radius(lower: ArrayLike, upper: ArrayLike, caps: ArrayLike) -> FloatArray:
    """The answer is constant at all points of the box with ‖δ/s‖₁ at most this, by the exact overlap of the cubes.

    ``lower`` and ``upper`` (...) bound the class from below and every rival from above; ``caps`` (..., dim) are those of
    ``box_caps``. −Σ log(1 − e_i/2) is Schur-convex, and among the e with one sum and 0 <= e <= caps the one filled from
    the largest cap down majorises every other: the first sum at which that one reaches t is the radius. Where it never
    does, the whole box is certified and the sum of the caps is given. Never below p − q, which holds without a box;
    zero where the class does not lead. Rounded down throughout.

    The classifier that clips its input to the box before the noise has this radius at every point of space: clipping
    brings no two points farther apart in any coordinate. For independent coordinates only: splitting noise with one
    draw shared by all coordinates is not covered.

    >>> [round(float(boxed_radius(0.9, 0.1, np.full(100, cap))), 6) for cap in (1 / 3, 2.0)]
    [0.938667, 0.8]
    """
    p, q, cap = (np.asarray(value, dtype=float) for value in (lower, upper, caps))
    if not (np.all((p >= 0) & (p <= 1)) and np.all((q >= 0) & (q <= 1)) and np.all(cap >= 0)):
        raise SettingError(
            "probabilities lie in 0..1 and caps are at least 0; a bound or a cap is outside, or not a number"
        )
    gap = _difference_down(p, q)
    ordered = -np.sort(-cap, axis=-1)
    share, total = _filled(ordered)
    # Any number of filled coordinates is sound: what is left of the share pays for the next one, up to its cap.
    spare = ((gap[..., None] - 2.0 * (1.0 - share)) - 8 * EPSILON) / share * (1 - 2 * EPSILON)
    reached = np.where(spare >= 0, total + np.minimum(spare, ordered), 0.0) * (1 - 2 * EPSILON)
    best = np.maximum(reached.max(axis=-1, initial=0.0), gap)
    return np.asarray(np.where(gap > 0, best, 0.0))


def _filled(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The share of volume left, and the sum, when the coordinates before each one are filled; both rounded down."""
    before = np.concatenate([np.zeros((*ordered.shape[:-1], 1)), ordered[..., :-1]], axis=-1)
    number = np.arange(ordered.shape[-1])
    share = np.cumprod(np.maximum(1.0 - before / 2.0, 0.0), axis=-1) * (1 - 2 * EPSILON * number)
    total = np.cumsum(before, axis=-1) * (1 - 2 * EPSILON * number)
    return np.maximum(share, EPSILON), total


def _difference_down(p: FloatArray, q: FloatArray) -> FloatArray:
    """The largest float that is not above p − q (Knuth's exact error of a sum)."""
    difference = np.asarray(p - q)
    back = difference - p
    error = (p - (difference - back)) + (-q - back)
    return np.asarray(np.where(error < 0, np.nextafter(difference, -np.inf), difference))
