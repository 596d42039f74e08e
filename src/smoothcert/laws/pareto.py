"""Symmetric Pareto noise of the second kind (Lomax): a power tail and a peak at zero (UniCR, Table 7)."""

from __future__ import annotations

import math

import numpy as np

from smoothcert.laws.base import Draws, Law, parameter, written
from smoothcert.maths import Array


class Pareto(Law):
    """z with density (beta/2)(1 + |z|)^(-beta-1).

    >>> str(Pareto(beta=3)), Pareto(beta=2).std
    ('pareto:beta=3', None)
    """

    name = "pareto"

    def __init__(self, beta: float) -> None:
        self.beta = parameter(self.name, "beta", beta, "a number from 0.1 to 1000, such as 3", 0.1 <= beta <= 1000.0)

    def __str__(self) -> str:
        return f"{self.name}:beta={written(self.beta)}"

    @property
    def std(self) -> float | None:
        if self.beta <= 2.0:
            return None
        return math.sqrt(2.0 / ((self.beta - 1.0) * (self.beta - 2.0)))

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        z = math.e ** (draws.exponential(shape) * (1.0 / self.beta))
        z -= 1.0
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
