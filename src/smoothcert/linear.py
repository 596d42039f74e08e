"""Step 5 behind a linear front end: the certified region is {y : ‖B(y − center)‖ <= radius}, without end where B is blind."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.front_rounding import reduced_radius, rounding_loss
from smoothcert.maths.geometry import log_volume, p_norm, round_down
from smoothcert.maths.operator_norms import EPSILON, operator_norm
from smoothcert.maths.projections import project


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A matrix B, (k, dim), and what is computed of it once and shared by all regions that it shapes."""

    matrix: FloatArray
    _norms: dict[tuple[float, float], float] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_covariance(cls, deviations: ArrayLike, factors: ArrayLike | None = None) -> LinearMap:
        """Σ^(−½) for noise of covariance Σ = diag(deviations²) + WWᵀ, with factors W of shape (dim, m); or of Σ itself, (dim, dim).

        >>> LinearMap.of_covariance([1.0, 0.5]).matrix.round(6).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
        """
        axes = np.asarray(deviations, dtype=float)
        wide = np.zeros((len(axes), 0)) if factors is None else np.asarray(factors, dtype=float)
        if axes.ndim == 1 and wide.ndim == 2 and wide.shape[:1] == axes.shape and np.all(axes > 0):
            axes = np.diag(axes**2) + wide @ wide.T
        square = axes.ndim == 2 and axes.shape[0] == axes.shape[1] and bool(np.all(np.isfinite(axes)))
        values, vectors = np.linalg.eigh(axes) if square and np.allclose(axes, axes.T) else (np.zeros(1), axes)
        if not values[0] > EPSILON * values[-1]:
            raise SettingError(
                f"deviations of shape {np.shape(deviations)} and factors of shape {wide.shape} make no covariance; give dim deviations "
                "above 0, with factors (dim, m) if there are any, or one symmetric matrix (dim, dim) with eigenvalues above 0, all finite"
            )
        return cls((vectors / np.sqrt(values)) @ vectors.T)

    def norm(self, norm: float, to: float) -> float:
        """‖B‖ from l_norm to l_to, never below it."""
        if (norm, to) not in self._norms:
            self._norms[norm, to] = operator_norm(self.matrix, norm, to)
        return self._norms[norm, to]

    @cached_property
    def inverse(self) -> FloatArray:
        """The pseudo-inverse, (dim, k): the shortest way to change B(y − x)."""
        return np.asarray(np.linalg.pinv(self.matrix))

    @cached_property
    def log_determinant(self) -> float | None:
        """log |det B|, where B loses nothing; None where it is blind in some direction."""
        if self.matrix.shape[0] != self.matrix.shape[1]:
            return None
        sign, value = np.linalg.slogdet(self.matrix)
        return float(value) if sign else None


@dataclass(frozen=True, eq=False)
class LinearRegion:
    """All y with ‖B(y − center)‖_norm <= radius; with radius 0 the center alone.

    ``map`` is B, (k, dim), an array or a LinearMap that regions share: a projection (k < dim), or Σ^(−½) of noise with covariance Σ.

    >>> sums = LinearRegion(np.zeros(4), np.array([[0.5, 0.5, 0.5, 0.5]]), 1.0, norm=2)
    >>> sums.contains([9.0, -9.0, 0.0, 1.0]), sums.contains([1.0, 1.0, 1.0, 0.0])
    (True, False)
    >>> [round(sums.inner_radius_in(p), 6) for p in (1, 2, math.inf)], sums.proxy_radius
    ([2.0, 1.0, 0.5], None)
    """

    center: FloatArray
    map: LinearMap
    radius: float
    norm: float

    def __init__(self, center: FloatArray, map: LinearMap | ArrayLike, radius: float, norm: float) -> None:
        shape = map if isinstance(map, LinearMap) else LinearMap(np.asarray(map, dtype=float))
        for name, value in {"center": center, "map": shape, "radius": radius, "norm": norm}.items():
            object.__setattr__(self, name, value)
        if shape.matrix.ndim != 2 or shape.matrix.shape[1] != self.dim or not np.all(np.isfinite(shape.matrix)):
            raise SettingError(
                f"the map is {shape.matrix.shape} and the center has {self.dim} coordinates; give finite numbers of shape "
                f"(k, {self.dim})"
            )

    @classmethod
    def behind(
        cls, center: FloatArray, matrix: FloatArray, scale: FloatArray, radius: float, norm: float, slack: float = 0.0
    ) -> LinearRegion:
        """What {‖(z' − z)/scale‖ <= radius} says of inputs, where z = matrix·(x − μ).

        slack: by how much rounding may set the numbers of two inputs apart; what that takes off the radius is taken off.
        """
        axes = np.broadcast_to(np.asarray(scale, dtype=float).ravel(), matrix.shape[:1])
        loss = rounding_loss(axes, slack, 0.0, norm)
        return cls(center, _stretched(matrix, axes), reduced_radius(radius, loss) if loss > 0 else radius, norm)

    def __repr__(self) -> str:
        rows = self.map.matrix.shape[0]
        return f"LinearRegion(radius={round_down(self.radius)}, norm={self.norm:g}, numbers={rows}, shape={np.shape(self.center)})"

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(np.size(self.center))

    def gauges(self, offsets: FloatArray) -> FloatArray:
        """‖B·offset‖ of each row, (points, dim)."""
        return np.asarray(p_norm(offsets @ self.map.matrix.T, self.norm))

    def gauge(self, point: ArrayLike) -> float:
        """‖B(point − center)‖: the point is inside while this is at most radius, if that is above 0."""
        return float(self.gauges((np.asarray(point, dtype=float) - self.center).reshape(1, -1))[0])

    def contains(self, point: ArrayLike) -> bool:
        """Is the point certified?"""
        if self.radius <= 0:  # rounding may set apart even what B does not
            return bool(np.array_equal(np.asarray(point, dtype=float), self.center))
        return self.gauge(point) <= self.radius

    @property
    def inner_radius(self) -> float:
        """Radius of the largest plain l_norm ball inside, or of one that is proved to be: the usual certified radius."""
        return self.inner_radius_in(self.norm)

    def inner_radius_in(self, norm: float) -> float:
        """Radius of a plain ball of any norm inside, rounded down: radius/‖B‖ (exact up to l1, and in l2 for l2)."""
        largest = self.map.norm(norm, self.norm)
        return math.nextafter(self.radius / largest, 0.0) if largest > 0 else math.inf

    @property
    def proxy_radius(self) -> float | None:
        """Radius of the ball of the same volume; None for a region without end."""
        stretch = self.map.log_determinant
        return None if stretch is None else self.radius * math.exp(-stretch / self.dim)

    @property
    def log_volume(self) -> float | None:
        """The logarithm of the volume; None where there is none."""
        stretch = self.map.log_determinant
        if stretch is None or self.radius <= 0:
            return None
        return log_volume(1.0, self.radius, self.norm, self.dim) - stretch

    def resized(self, radius: float) -> LinearRegion:
        """The copy with the same center and shape, and another radius."""
        return LinearRegion(self.center, self.map, radius, self.norm)

    def project(self, offsets: FloatArray) -> FloatArray:
        """Offsets moved into the region, (points, dim): Bδ to its nearest point there, by the shortest change of δ."""
        seen = offsets @ self.map.matrix.T
        excess = seen - project(seen, 1.0, self.radius, self.norm)
        return np.asarray(offsets - excess @ self.map.inverse.T)


def _stretched(matrix: FloatArray, scale: FloatArray) -> LinearMap:
    """diag(1/scale)·U: one for all inputs under one noise, since its norms take a while to find."""
    return _shared(np.ascontiguousarray(matrix).tobytes(), scale.tobytes(), matrix.shape[1])


@lru_cache(maxsize=8)
def _shared(matrix: bytes, scale: bytes, dim: int) -> LinearMap:
    return LinearMap(np.frombuffer(matrix).reshape(-1, dim) / np.frombuffer(scale)[:, None])
