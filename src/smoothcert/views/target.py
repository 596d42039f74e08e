"""What an estimator aims at when views are sampled: the size of a threat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from smoothcert.maths.counting import rounded_down, sampled_reach
from smoothcert.threats import Threat
from smoothcert.views.base import View


@dataclass(frozen=True)
class ViewTarget:
    """From probabilities to sizes that are certified, and back: the view changes with probability touched/views at most."""

    view: View
    threat: Threat | float
    shape: tuple[int, ...]

    two_classes: ClassVar[bool] = False  # a rival is bounded if it is asked for

    def reach(self, lower: float, rival: float) -> int:
        """How many of all views may change; −1 if the class is not known to lead."""
        return sampled_reach(lower, rival, self.view.count(self.shape))

    def radius(self, lower: float, upper: float | None = None) -> float:
        """The size, or in a norm the plain radius, that a bound proves."""
        reach = self.reach(lower, 1.0 - lower if upper is None else upper)
        return self.view.region(np.zeros(self.shape), self.threat, max(reach, 0)).inner_radius

    def probability(self, radius: float) -> float:
        """The least probability of the class that proves this size; one if none does."""
        if not isinstance(self.threat, Threat) or radius > self.threat.most(self.shape):
            return 1.0
        touched = self.view.touched(self.threat.resized(math.ceil(radius)), self.shape)
        least = Fraction(1, 2) + Fraction(touched, self.view.count(self.shape))
        return min(1.0, math.nextafter(rounded_down(least), math.inf))
