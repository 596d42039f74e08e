"""Symmetric Pareto noise of the second kind (Lomax): a power tail and a peak at zero (UniCR, Table 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcert.laws.base import Draws, Law, in_place
from smoothcert.maths import Array
from smoothcert.registry import setting


@dataclass(frozen=True)
class Pareto(Law):
    """z with density (beta/2)(1 + |z|)^(-beta-1).

    >>> str(Pareto(beta=3)), Pareto(beta=2).std
    ('pareto:beta=3', None)
    """

    name = "pareto"

    # At 0.3 one number in 4e11 is beyond float32; at 0.1 it would be one in 7000.
    beta: float = setting(3.0, "the power of the tail: P(|z| > t) = (1 + t)^-beta", least=0.3, most=1000)

    @property
    def std(self) -> float | None:
        if self.beta <= 2.0:
            return None
        return math.sqrt(2.0 / ((self.beta - 1.0) * (self.beta - 2.0)))

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        z = draws.exponential(shape)
        z /= self.beta
        z = in_place(np.expm1, z)  # e^z − 1 would lose its digits where z is small
        z *= draws.signs(shape)
        return z

    def log_prob(self, z: Array) -> Array:
        return math.log(self.beta / 2.0) - (self.beta + 1.0) * np.log1p(np.abs(z))

    def tail(self, z: Array) -> Array:
        half = 0.5 * (1.0 + np.abs(z)) ** -self.beta
        return np.where(np.asarray(z) >= 0, half, 1.0 - half)

    def quantile(self, p: Array) -> Array:
        p = np.asarray(p, dtype=float)
        with np.errstate(divide="ignore"):
            size = np.expm1(-np.log(2.0 * np.minimum(p, 1.0 - p)) / self.beta)
        return np.where(p < 0.5, -size, size)

    def score(self, z: Array) -> Array:
        return np.sign(z) * (self.beta + 1.0) / (1.0 + np.abs(z))

    def worst_log_ratio(self, shift: Array) -> Array:
        """(1 + |z|)/(1 + |z − t|) is largest at z = t."""
        return (self.beta + 1.0) * np.log1p(np.abs(shift))
