"""Cauchy noise: no variance, so it takes a scale and never a sigma (UniCR, Table 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcert.laws.base import Draws, Law
from smoothcert.maths import Array


@dataclass(frozen=True)
class Cauchy(Law):
    """z with density 1/(π(1 + z²))."""

    name = "cauchy"
    std = None

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        z = draws.normal(shape)
        z /= draws.normal(shape)
        return z

    def log_prob(self, z: Array) -> Array:
        return -math.log(math.pi) - np.log1p(np.square(z))

    def tail(self, z: Array) -> Array:
        return np.arctan2(1.0, np.asarray(z, dtype=float)) / math.pi

    def quantile(self, p: Array) -> Array:
        p = np.asarray(p, dtype=float)
        with np.errstate(divide="ignore"):
            return np.where(p == 0.5, 0.0, np.where(p < 0.5, -1.0, 1.0) / np.tan(math.pi * np.minimum(p, 1.0 - p)))

    def score(self, z: Array) -> Array:
        z = np.asarray(z, dtype=float)
        return 2.0 * z / (1.0 + np.square(z))

    def worst_log_ratio(self, shift: Array) -> Array:
        """(1 + z²)/(1 + (z − t)²) is largest at z = (t + √(t² + 4))/2, where it is z²."""
        return 2.0 * np.arcsinh(np.abs(shift) / 2.0)
