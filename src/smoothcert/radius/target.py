"""What an estimator aims at: the radius of one law in one norm, at one scale."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.estimators.bounds import Bound
from smoothcert.laws import Law
from smoothcert.radius.theorems import probability_for, proved_radius


@dataclass(frozen=True)
class RadiusTarget:
    """From probabilities to plain radii, and back; scale is the least one, since radii of users are plain balls."""

    law: Law
    norm: float
    dim: int
    scale: float

    def radius(self, lower: float, upper: float | None = None) -> float:
        """The plain radius that a bound proves."""
        return self.scale * proved_radius(self.law, self.norm, self.dim, Bound(lower, 0.5, 1, upper)).value

    def probability(self, radius: float) -> float:
        """The least probability of the class that proves this plain radius; one if none does."""
        return probability_for(self.law, self.norm, self.dim, radius / self.scale)
