"""One coordinate of a symmetric law, known by its log density alone: tail, quantile, score, standard deviation.

Used for laws that bring no closed forms. Panels grow geometrically from zero, so that a cusp at zero and a heavy tail
are both resolved; each is integrated by Gauss and Legendre's rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.maths import Array, FloatArray

_SMALLEST, _MIDDLE, _LARGEST = 1e-9, 1e6, 1e290  # fine panels, then coarse ones for power tails, at unit scale
_PANELS, _FAR_PANELS = 2000, 800
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_UNIT_TOLERANCE = 1e-6  # how far from one the integral of a density may be
_HALVINGS = 100


def _check_values(log_prob: Callable[[Array], Array]) -> None:
    """Refuse a density that is NaN, infinite or not symmetric at a few points."""
    probe = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 5.0])
    with np.errstate(all="ignore"):
        right, left = np.exp(log_prob(probe)), np.exp(log_prob(-probe))
    if not (np.all(np.isfinite(right)) and np.all(np.isfinite(left))):
        raise SettingError("log_prob returns NaN or +inf; it must be the log density, -inf where the density is zero")
    if not np.allclose(left, right, rtol=1e-9, atol=1e-300):
        raise SettingError(
            f"the density is not symmetric: at 1 and -1 it is {right[3]:.6g} and {left[3]:.6g}; "
            "centre it, or declare independent = False and use the estimate"
        )
    if not right.any():
        raise SettingError(
            "the density is zero at every point tried from 0.001 to 5; a unit law has its mass near zero"
        )


class HalfLine:
    """The numeric side of a symmetric density, from its values on the positive half-line."""

    def __init__(self, log_prob: Callable[[Array], Array]) -> None:
        self.log_prob = log_prob
        _check_values(log_prob)
        edge = self._support()
        fine = np.geomspace(_SMALLEST * min(edge, 1.0), min(edge, _MIDDLE), _PANELS)
        coarse = np.geomspace(_MIDDLE, edge, _FAR_PANELS)[1:] if edge > _MIDDLE else np.empty(0)
        self.edges = np.concatenate([[0.0], fine, coarse])
        masses = self._integral(self.edges[:-1], self.edges[1:])
        self.beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)  # mass to the right of each edge
        self._check_total(2.0 * float(self.beyond[0]))

    def _support(self) -> float:
        """Where the positive half of the support ends: bisected to the last bit when it is bounded."""
        grid = np.geomspace(_SMALLEST, _LARGEST, 3000)
        with np.errstate(all="ignore"):
            inside = np.exp(self.log_prob(grid)) > 0.0
        if inside.all():
            return _LARGEST
        low, high = (float(grid[inside].max()) if inside.any() else 0.0), float(grid[~inside].max())
        above = grid[grid > low]
        high = float(above[0]) if above.size else high
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            with np.errstate(all="ignore"):
                alive = float(np.exp(self.log_prob(np.array(middle)))) > 0.0
            low, high = (middle, high) if alive else (low, middle)
        return low

    def _integral(self, start: FloatArray, stop: FloatArray) -> FloatArray:
        """The mass between start and stop, elementwise."""
        half, middle = 0.5 * (stop - start), 0.5 * (stop + start)
        with np.errstate(all="ignore"):
            density = np.exp(self.log_prob(middle[..., None] + half[..., None] * _NODES))
        return np.asarray(half * (density @ _WEIGHTS))

    def _check_total(self, total: float) -> None:
        """Refuse a density that is not normalised."""
        if not abs(total - 1.0) <= _UNIT_TOLERANCE:
            hint = f"subtract {math.log(total):.6g} in log_prob" if 0.0 < total < math.inf else "check log_prob"
            raise SettingError(f"the density integrates to {total:.6g}, not to 1; {hint}")

    def tail(self, z: Array) -> FloatArray:
        """P(Z > z), elementwise; right to about twelve digits also far out."""
        size = np.abs(np.asarray(z, dtype=float))
        inside = np.minimum(size, self.edges[-1])
        panel = np.minimum(np.searchsorted(self.edges, inside, side="right"), self.edges.size - 1)
        upper = self.beyond[panel] + self._integral(inside, self.edges[panel])
        return np.asarray(np.where(np.asarray(z) >= 0, upper, 1.0 - upper))

    def quantile(self, p: Array, tail: Callable[[Array], Array]) -> FloatArray:
        """The z with P(Z <= z) = p, by bisection on the logarithm of |z|, elementwise."""
        chance = np.asarray(p, dtype=float)
        small = np.minimum(chance, 1.0 - chance)
        low, high = np.full(chance.shape, math.log(1e-300)), np.full(chance.shape, math.log(self.edges[-1]))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            right = np.asarray(tail(np.exp(middle))) > small
            low, high = np.where(right, middle, low), np.where(right, high, middle)
        size = np.where(small >= 0.5, 0.0, np.where(small > 0.0, np.exp(0.5 * (low + high)), np.inf))
        return np.asarray(np.where(chance < 0.5, -size, size))

    def score(self, z: Array) -> FloatArray:
        """Minus the slope of the log density by a symmetric difference that never crosses zero."""
        where = np.asarray(z, dtype=float)
        step = np.maximum(1e-5 * np.abs(where), 1e-300)
        with np.errstate(all="ignore"):
            slope = (self.log_prob(where + step) - self.log_prob(where - step)) / (2.0 * step)
        return np.asarray(np.where(np.isfinite(slope), -slope, 0.0))

    @cached_property
    def std(self) -> float | None:
        """The standard deviation, or None when the second moment does not converge."""
        start, stop = self.edges[:-1], self.edges[1:]
        half, middle = 0.5 * (stop - start), 0.5 * (stop + start)
        place = middle[:, None] + half[:, None] * _NODES
        with np.errstate(all="ignore"):
            parts = half * (np.exp(np.asarray(self.log_prob(place)) + 2.0 * np.log(place)) @ _WEIGHTS)
        total = float(parts.sum())
        if not math.isfinite(total) or float(parts[_PANELS:].sum()) > 1e-3 * total:
            return None
        return math.sqrt(2.0 * total)
