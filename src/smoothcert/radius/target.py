"""What an estimator aims at: the radius of one law in one norm, under one noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.estimators.bounds import Bound
from smoothcert.laws import Law
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.radius.theorems import ProvedRadius, has_exact_rule, probability_for, proved_radius


@dataclass(frozen=True, eq=False)
class RadiusTarget:
    """From probabilities to plain radii, and back; scale is the least one, since radii of users are plain balls."""

    law: Law
    norm: float
    dim: int
    scale: float
    caps: FloatArray | None = None  # (dim,), in units of each coordinate's scale, where inputs are clipped to a box

    @classmethod
    def of(cls, law: Law, norm: float, dim: int, scale: FloatArray, box: Box | None) -> RadiusTarget:
        """The target of noise of this scale on inputs in this box."""
        caps = None if box is None else box.widths(scale, dim)
        return cls(law, norm, dim, float(np.min(scale)), caps)

    @property
    def two_classes(self) -> bool:
        """Does bounding the strongest rival too pay? Where no theorem is exact, tables for one class prove more."""
        return has_exact_rule(self.law, self.norm)

    def proved(self, bound: Bound) -> ProvedRadius:
        """What a bound proves at unit scale, and by which theorem."""
        return proved_radius(self.law, self.norm, self.dim, bound, self.caps)

    def radius(self, lower: float, upper: float | None = None) -> float:
        """The plain radius that a bound proves."""
        return self.scale * self.proved(Bound(lower, 0.5, 1, upper)).value

    def probability(self, radius: float) -> float:
        """The least probability of the class that proves this plain radius; one if none does."""
        return probability_for(self.law, self.norm, self.dim, radius / self.scale, self.caps)
