"""Laplace noise: the l1 certificate of Teng et al. (2020), tight by Yang et al. (2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcert.laws.base import Draws, Law, RadiusRule
from smoothcert.maths import Array


@dataclass(frozen=True)
class Laplace(Law):
    """z with density exp(-|z|)/2."""

    name = "laplace"
    inverts = True
    std = math.sqrt(2.0)
    log_concave = True

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        z = draws.exponential(shape)
        z *= draws.signs(shape)
        return z

    def log_prob(self, z: Array) -> Array:
        return -np.abs(z) - math.log(2.0)

    def tail(self, z: Array) -> Array:
        half = 0.5 * np.exp(-np.abs(z))
        return np.where(np.asarray(z) >= 0, half, 1.0 - half)

    def quantile(self, p: Array) -> Array:
        p = np.asarray(p, dtype=float)
        with np.errstate(divide="ignore"):
            return np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))

    def score(self, z: Array) -> Array:
        return np.sign(np.asarray(z, dtype=float))

    def worst_log_ratio(self, shift: Array) -> Array:
        return np.abs(shift)

    @property
    def radii(self) -> dict[float, RadiusRule]:
        """−log(2(1−p_A)) for one class: the law is log-concave."""
        return {1.0: RadiusRule("Laplace l1 (Teng et al. 2020; Yang et al. 2020)", self.half_gap, tight=(0.0, 1.0))}
