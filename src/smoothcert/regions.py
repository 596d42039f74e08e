"""Step 5: the certified region. Ball, ellipsoid, generalised cross-polytope, box: one object."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import InputError
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.boxed_volume import boxed_log_volume
from smoothcert.maths.geometry import geometric_mean, log_volume, p_norm, round_down
from smoothcert.maths.inside import room_inside
from smoothcert.maths.overlap import clear_radius, largest_gauge

ROUNDING = 1e-9  # of a radius: more than any gauge is off


@dataclass(frozen=True, eq=False)
class Region:
    """All y with ‖(y - center)/scale‖_norm <= radius.

    scale has the center's shape, or broadcasts to it (a scalar is a plain ball). radius counts in multiples of scale; the
    radius in the units of the input, which a certificate calls its own, is inner_radius = radius times the least scale.

    >>> region = Region(center=np.zeros(2), scale=np.array([1.0, 4.0]), radius=0.5, norm=2)
    >>> region.inner_radius, region.proxy_radius, region.contains([0.0, 1.9]), region.contains([0.6, 0.0])
    (0.5, 1.0, True, False)
    """

    center: FloatArray
    scale: FloatArray
    radius: float
    norm: float

    def __eq__(self, other: object) -> bool:
        """Is it the same set, written with the same radius?"""
        if not isinstance(other, Region):
            return NotImplemented
        return (
            (self.radius, self.norm) == (other.radius, other.norm)
            and np.array_equal(self.center, other.center)
            and np.array_equal(self.full_scale, other.full_scale)
        )

    def __hash__(self) -> int:
        return hash((self.radius, self.norm, np.shape(self.center)))

    def __repr__(self) -> str:
        low, high = float(np.min(self.scale)), float(np.max(self.scale))
        scale = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"Region(radius={round_down(self.radius)}, norm={self.norm:g}, scale={scale}, shape={np.shape(self.center)})"

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(np.size(self.center))

    @property
    def full_scale(self) -> FloatArray:
        """The scale of every coordinate, in the center's shape."""
        return np.broadcast_to(np.asarray(self.scale, dtype=float), np.shape(self.center))

    def gauges(self, offsets: FloatArray) -> FloatArray:
        """‖offset/scale‖ of each row, (points, dim)."""
        return np.asarray(p_norm(offsets / self.full_scale.ravel(), self.norm))

    def gauge(self, point: ArrayLike) -> float:
        """‖(point - center)/scale‖: the point is inside while this is at most radius."""
        offset = (np.asarray(point, dtype=float) - self.center) / self.full_scale
        return float(p_norm(offset.ravel(), self.norm))

    def contains(self, point: ArrayLike) -> bool:
        """Is the point certified?"""
        return self.gauge(point) <= self.radius

    @property
    def inner_radius(self) -> float:
        """Radius of the largest plain l_norm ball inside: the usual certified radius."""
        return self.radius * float(np.min(self.scale))

    def inner_radius_in(self, norm: float) -> float:
        """Radius of the largest plain ball of another norm inside.

        >>> Region(np.zeros(4), np.ones(4), 1.0, norm=2).inner_radius_in(float("inf"))
        0.5
        """
        excess = 1.0 / self.norm - 1.0 / norm
        if excess <= 0:
            return self.inner_radius
        return self.radius / float(p_norm(1.0 / self.full_scale.ravel(), 1.0 / excess))

    @property
    def proxy_radius(self) -> float:
        """Radius of the ball of the same volume (ANCER's proxy radius, UCAN's ALM)."""
        return self.radius * geometric_mean(self.scale)

    def boxed_proxy_radius(self, box: Box) -> float:
        """Radius of the ball of the volume of the region's part in a box that holds the center, by a saddle point.

        Close from about 100 dimensions on (in 20 unlike ones 1 % off), and never above the proxy radius: an estimate to compare volumes
        by, since an input that could not be counts for nothing.

        >>> flat = Region(np.full(100, 0.5), np.r_[np.full(50, 1.0), np.full(50, 9.0)], 1.0, norm=2)
        >>> round(flat.proxy_radius, 6), round(flat.boxed_proxy_radius(Box(0, 1)), 2)
        (3.0, 1.83)
        """
        if not self.radius > 0:
            return 0.0
        center, scale = np.ravel(self.center), self.full_scale.ravel()
        low, high = np.minimum(box.low - center, 0.0), np.maximum(box.high - center, 0.0)
        inside = boxed_log_volume(self.radius, scale, low, high, self.norm)
        return min(self.proxy_radius, inside.proxy_radius(self.norm, self.dim))

    @property
    def log_volume(self) -> float:
        """The logarithm of the volume."""
        return log_volume(self.full_scale, self.radius, self.norm, self.dim)

    def resized(self, radius: float) -> Region:
        """The copy with the same center and shape, and another radius."""
        return replace(self, radius=radius)

    def around(self, point: ArrayLike) -> Region:
        """The largest copy of this region around a point of it that lies inside it: its radius is what the gauge leaves, rounded
        down; norms >= 1, by the triangle inequality.

        >>> around = Region(np.zeros(2), np.array([1.0, 4.0]), 1.0, norm=2).around([0.0, 2.0])
        >>> round(around.radius, 6), round(around.inner_radius, 6)
        (0.5, 0.5)
        """
        center = np.asarray(point, dtype=float).reshape(np.shape(self.center))
        gauge = self.gauge(center)
        left = self.radius if gauge == 0 else max(0.0, self.radius - gauge - ROUNDING * self.radius)
        return replace(self, center=center, radius=left)

    def clearance(self, other: Region) -> float:
        """The radius at which a copy of this region would first touch the other: exact, rounded down; norms >= 1.

        >>> small = Region(np.zeros(2), np.ones(2), 1.0, norm=2)
        >>> round(small.clearance(Region(np.array([3.0, 0.0]), np.array([1.0, 2.0]), 1.0, norm=2)), 6)
        2.0
        """
        offset, axes = self._seen_from(other)
        return float(clear_radius(offset, self.full_scale.ravel(), self.norm, axes, other.norm)[0])

    def room_inside(self, other: Region) -> float:
        """The largest radius of a copy of this region inside the other: rounded down, exact as ``maths.inside`` says.

        >>> small = Region(np.array([0.5, 0.0]), np.ones(2), 1.0, norm=2)
        >>> round(small.room_inside(Region(np.zeros(2), np.array([1.0, 2.0]), 1.0, norm=2)), 6)
        0.5
        """
        offset, axes = self._seen_from(other)
        return float(room_inside(offset, self.full_scale.ravel(), self.norm, axes, other.norm)[0])

    def superset_of(self, other: Region) -> bool:
        """Is the other region inside this one (ANCER Definition 1)? Both have one center; exact for any two norms > 0.

        >>> box = Region(np.zeros(2), np.ones(2), 1.0, norm=float("inf"))
        >>> ball = Region(np.zeros(2), np.ones(2), 1.0, norm=2)
        >>> box.superset_of(ball), ball.superset_of(box), ball.superset_of(ball)
        (True, False, True)
        """
        if np.shape(self.center) != np.shape(other.center) or not np.array_equal(self.center, other.center):
            raise InputError(
                "the two regions have different centers; supersets are counted between certificates of one input: "
                "compare regions of the same index, or use room_inside"
            )
        scale, inner = self.full_scale.ravel(), other.full_scale.ravel()
        return other.radius * float(largest_gauge(inner, other.norm, scale, self.norm)) <= self.radius

    def _seen_from(self, other: Region) -> tuple[FloatArray, FloatArray]:
        """The other's center as seen from here, and its semi-axes, each (1, dim)."""
        if self.dim != other.dim:
            raise InputError(f"one region has dimension {self.dim}, the other {other.dim}; give two of one input space")
        here, there = (np.asarray(region.center, dtype=float).reshape(1, -1) for region in (self, other))
        return there - here, other.radius * other.full_scale.reshape(1, -1)
