"""Step 5: the certified region. Ball, ellipsoid, generalised cross-polytope, box: one object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import geometric_mean, log_volume, p_norm


@dataclass(frozen=True, eq=False)
class Region:
    """All y with ‖(y - center)/scale‖_norm <= radius.

    scale has the center's shape, or broadcasts to it (a scalar is a plain ball).

    >>> region = Region(center=np.zeros(2), scale=np.array([1.0, 4.0]), radius=0.5, norm=2)
    >>> region.inner_radius, region.proxy_radius, region.contains([0.0, 1.9]), region.contains([0.6, 0.0])
    (0.5, 1.0, True, False)
    """

    center: FloatArray
    scale: FloatArray
    radius: float
    norm: float

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(np.size(self.center))

    @property
    def full_scale(self) -> FloatArray:
        """The scale of every coordinate, in the center's shape."""
        return np.broadcast_to(np.asarray(self.scale, dtype=float), np.shape(self.center))

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

        >>> Region(np.zeros(4), np.ones(4), 1.0, norm=2).inner_radius_in(math.inf)
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

    @property
    def log_volume(self) -> float:
        """The logarithm of the volume."""
        return log_volume(self.full_scale, self.radius, self.norm, self.dim)
