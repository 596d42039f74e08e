"""Lower radii in any l_p, p > 0, from the Rényi divergence of shifted from clean noise.

Letters: h_a(t) = (a − 1)⁻¹ log ∫ φ(y − t)^a φ(y)^{1−a} dy, the divergence of one shifted coordinate; T_a the divergence
below which the label cannot flip (Li, Chen, Wang and Carin 2019, Theorem 2). For independent coordinates the divergence
of a shift δ is Σ h_a(|δ_i|), and for every λ >= 0

    sup_{‖δ‖_p <= R} Σ h_a(|δ_i|)  <=  λ R^p + d · max_{0 <= t <= R} (H(t) − λ t^p),

H the running maximum of h_a: the least over λ is d times the concave envelope of u ↦ H(u^{1/p}) at R^p/d. Between grid
points H is taken at the next one and t^p at the last one, so the envelope is never underestimated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.maths import Array, FloatArray
from smoothcert.maths.cells import Coordinate

ORDERS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0, 50.0, 100.0, math.inf)
_SHIFTS, _KNOTS = 3000, 300  # grid points, even in log t, and those where the integral is computed
_SLOPES = 300
_MARGIN = 3e-5  # relative error of the quadrature and of the interpolation in log t, charged to h
_DOUBT = 1e-5  # relative difference between all nodes and every other one above which neither is believed
_LARGEST_EXPONENT = 690.0
_FAR, _NEAR = 181, 121  # nodes on each half-line and between zero and the shift
_ALTERNATE = np.concatenate([np.resize([2.0, 0.0], number) for number in (_FAR, _NEAR, _FAR)])
_PAIR = np.stack([np.ones(_ALTERNATE.size), _ALTERNATE], axis=1)


class ShiftedCoordinate(Coordinate, Protocol):
    """A coordinate that also knows its divergence of infinite order."""

    def worst_log_ratio(self, shift: Array) -> Array:
        """The supremum over z of log φ(z - shift)/φ(z), elementwise; infinite where none is known."""


def threshold(order: float, lower: ArrayLike, upper: ArrayLike) -> FloatArray:
    """T_a: below this divergence of order a the label keeps its lead over every rival (Li et al. 2019, Theorem 2).

    >>> round(float(threshold(math.inf, 0.9, 0.1)), 6) == round(-math.log(2 * 0.1), 6)
    True
    """
    first, second = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    with np.errstate(divide="ignore", over="ignore"):
        if math.isinf(order):
            mean = np.minimum(first, second)
        else:
            power = 1.0 - order
            log_mean = np.logaddexp(power * np.log(first), power * np.log(second)) - math.log(2.0)
            mean = np.exp(log_mean / power)
        return np.asarray(-np.log(1.0 - first - second + 2.0 * mean))


def _nodes(count: int, width: float) -> tuple[FloatArray, FloatArray]:
    """Double exponential nodes and weights on the positive half-line: they stand a cusp at zero and a heavy tail."""
    x = np.linspace(-width, width, count)
    y = np.exp(0.5 * math.pi * np.sinh(x))
    return y, y * 0.5 * math.pi * np.cosh(x) * (x[1] - x[0])


def _unit_nodes(count: int, width: float) -> tuple[FloatArray, FloatArray]:
    """Double exponential nodes and weights on (0, 1)."""
    x = np.linspace(-width, width, count)
    y = 1.0 / (1.0 + np.exp(-math.pi * np.sinh(x)))
    return y, math.pi * np.cosh(x) * y * (1.0 - y) * (x[1] - x[0])


def _divergence(order: float, ratio: FloatArray, measure: FloatArray) -> FloatArray:
    """h_a by row from log ratios and the log clean measure at the nodes, rounded up.

    Integrates φ·(r^a − 1 − a(r − 1)), which is nowhere negative and vanishes far out, so that neither a small divergence
    nor a heavy tail is lost. Every other node alone gives a second value; their difference is added, and a large one
    makes the divergence infinite, so that a peak between nodes is never missed.
    """
    possible = np.isfinite(ratio.max(axis=1))
    ratio = np.where(possible[:, None], ratio, 0.0)
    exponent = order * ratio + measure
    possible &= exponent.max(axis=1) < _LARGEST_EXPONENT
    near = np.minimum(ratio, 30.0 / order)
    low = np.exp(measure) * (np.expm1(order * near) - order * np.expm1(near))
    # Beyond r^a = e^30 only r^a itself counts.
    terms = np.where(near < ratio, np.exp(np.minimum(exponent, _LARGEST_EXPONENT)), low)
    whole, half = (terms @ _PAIR).T
    possible &= np.abs(whole - half) <= _DOUBT * whole
    return np.where(possible, np.log1p(whole + np.abs(whole - half)), np.inf) / (order - 1.0)


def _slopes(height: FloatArray, last: FloatArray) -> FloatArray:
    """The λ to try, any of which is valid: slopes of lines through zero and through neighbouring grid points."""
    number = int(np.isfinite(height).sum())
    if number < 3:
        return np.empty(0)
    at = np.unique(np.linspace(1, number - 2, _SLOPES // 2).astype(int))
    through_zero = height[at] / last[at]
    neighbours = (height[at + 1] - height[at]) / (last[at + 1] - last[at])
    return np.unique(np.concatenate([through_zero, neighbours]))


@dataclass(frozen=True, eq=False)
class Divergences:
    """H, the running maximum of h_a, for every order on one grid of shifts."""

    law: ShiftedCoordinate
    shifts: FloatArray
    orders: tuple[float, ...] = ORDERS

    @classmethod
    def of(cls, law: ShiftedCoordinate, dim: int, longest: float) -> Divergences:
        """On shifts up to ``longest``, and down to where dim of them no longer count."""
        return cls(law, np.geomspace(1e-4 * longest / math.sqrt(dim), longest, _SHIFTS))

    @cached_property
    def heights(self) -> FloatArray:
        """H: (orders, shifts), rounded up; infinite where the quadrature is in doubt."""
        knots = np.geomspace(self.shifts[0], self.shifts[-1], _KNOTS)
        shifted, clean, weights = self._at_nodes(knots)
        rows = [self._height(order, knots, shifted, clean, weights) for order in self.orders if not math.isinf(order)]
        if math.inf in self.orders:
            rows.append(np.asarray(self.law.worst_log_ratio(self.shifts), dtype=float))
        return np.maximum.accumulate(np.stack(rows), axis=1)

    def _height(
        self, order: float, knots: FloatArray, shifted: FloatArray, clean: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """h_a on the grid: computed at the knots, a cubic of logarithms in between."""
        inside = ~np.isneginf(clean)
        # Where both densities vanish there is nothing to integrate.
        ratio = np.where(inside, shifted - np.where(inside, clean, 0.0), np.where(np.isneginf(shifted), 0.0, np.inf))
        at_knots = _divergence(order, ratio, clean + weights)
        number = int(np.argmax(~np.isfinite(at_knots))) if not np.isfinite(at_knots).all() else _KNOTS
        height = np.full(self.shifts.shape, np.inf)
        if number >= 4:
            from scipy.interpolate import CubicSpline  # 0.2 s to import

            known = self.shifts <= knots[number - 1]
            curve = CubicSpline(np.log(knots[:number]), np.log(np.maximum(at_knots[:number], 1e-300)))
            height[known] = np.exp(curve(np.log(self.shifts[known]))) * (1.0 + _MARGIN)
        return height

    def _at_nodes(self, knots: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """log φ(y − t), log φ(y) and log weights at the nodes left of 0, between 0 and t, and right of t."""
        far, far_weights = _nodes(_FAR, 3.3)
        near, near_weights = _unit_nodes(_NEAR, 3.0)
        t = knots[:, None]
        shifted = np.concatenate([-far - t, near * t - t, far + 0 * t], axis=1)
        clean = np.concatenate([-far + 0 * t, near * t, far + t], axis=1)
        weights = np.concatenate([far_weights + 0 * t, near_weights * t, far_weights + 0 * t], axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(self.law.log_prob(shifted)), np.asarray(self.law.log_prob(clean)), np.log(weights)

    def bounds(self, norm: float, dim: int) -> FloatArray:
        """An upper bound on the divergence of every shift in the l_norm ball, (orders, shifts) by its radius."""
        if math.isinf(norm) or dim == 1:
            return dim * self.heights
        # The ball also lies in the balls of larger norms, whose bound is sometimes the smaller one.
        larger = [self._bounds(wider, dim) for wider in (1.0, 2.0) if wider > norm]
        return np.asarray(np.minimum.reduce([self._bounds(norm, dim), *larger]))

    def _bounds(self, norm: float, dim: int) -> FloatArray:
        """The bound of the module's docstring in this norm, the least over λ."""
        found = np.full(self.heights.shape, np.inf)
        powers = self.shifts**norm
        last = np.append(0.0, powers[:-1])  # between two grid points: H at the next, t^p at the last
        for row, height in enumerate(self.heights):
            for slope in _slopes(height, last):
                kept = np.maximum.accumulate(height - slope * last)
                np.minimum(found[row], slope * powers + dim * kept, out=found[row])
        return found

    def radius(self, norm: float, dim: int, lower: ArrayLike, upper: ArrayLike | None = None) -> FloatArray:
        """The largest radius of the grid, over all orders, in which the label cannot flip, elementwise.

        >>> from smoothcert.laws import law_named
        >>> found = Divergences.of(law_named("laplace"), 10, 4.0).radius(1, 10, 0.9)
        >>> 1.60 < float(found) <= 1.609438
        True
        """
        first = np.asarray(lower, dtype=float)
        second = 1.0 - first if upper is None else np.asarray(upper, dtype=float)
        best = np.zeros(np.broadcast(first, second).shape)
        for order, bound in zip(self.orders, self.bounds(norm, dim), strict=True):
            rising = np.maximum.accumulate(bound)
            inside = np.searchsorted(rising, threshold(order, first, second), side="left")
            best = np.maximum(best, np.where(inside > 0, self.shifts[np.maximum(inside - 1, 0)], 0.0))
        return best
