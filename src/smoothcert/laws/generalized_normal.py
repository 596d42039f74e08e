"""Generalised normal noise: Laplace at beta = 1, Gaussian shape at beta = 2 (UniCR, Table 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln

from smoothcert.laws.base import Draws, Law, RadiusRule
from smoothcert.laws.gaussian import Gaussian
from smoothcert.maths import Array
from smoothcert.registry import setting


@dataclass(frozen=True)
class GeneralizedNormal(Law):
    """z with density proportional to exp(-|z|^beta).

    >>> str(GeneralizedNormal(beta=1.5))
    'generalized_normal:beta=1.5'
    """

    name = "generalized_normal"

    beta: float = setting(
        1.5, "1 is Laplace, 2 has the Gaussian shape, the larger the nearer to uniform", least=0.25, most=20
    )

    @property
    def log_concave(self) -> bool:
        return self.beta >= 1.0

    @property
    def std(self) -> float:
        return math.exp(0.5 * float(gammaln(3.0 / self.beta) - gammaln(1.0 / self.beta)))

    @property
    def radii(self) -> Mapping[float, RadiusRule]:
        """At beta = 2 this is the Gaussian of another scale, whose rule it takes.

        >>> float(GeneralizedNormal(beta=2).radii[2.0].radius(0.9, 0.1, 784)) / GeneralizedNormal(beta=2).std
        1.281551565544...
        """
        if self.beta != 2.0:
            return super().radii
        return {2.0: replace(Gaussian.radii[2.0], radius=self.half_gap)}

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        """±G^(1/β)·U, G ~ gamma(1 + 1/β): |z|^β ~ gamma(1/β) is G·U^β, which for large β would underflow."""
        z = draws.gamma(shape, 1.0 + 1.0 / self.beta)
        z **= 1.0 / self.beta
        z *= draws.symmetric(shape)
        return z

    def log_prob(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            return math.log(self.beta / 2.0) - float(gammaln(1.0 / self.beta)) - np.abs(z) ** self.beta

    def tail(self, z: Array) -> Array:
        z = np.asarray(z, dtype=float)
        with np.errstate(over="ignore"):
            half = 0.5 * gammaincc(1.0 / self.beta, np.abs(z) ** self.beta)
        return np.where(z >= 0, half, 1.0 - half)

    def quantile(self, p: Array) -> Array:
        p = np.asarray(p, dtype=float)
        size = gammainccinv(1.0 / self.beta, 2.0 * np.minimum(p, 1.0 - p)) ** (1.0 / self.beta)
        return np.where(p < 0.5, -size, size)

    def score(self, z: Array) -> Array:
        z = np.asarray(z, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            return np.sign(z) * self.beta * np.where(z == 0, 0.0, np.abs(z) ** (self.beta - 1.0))

    def worst_log_ratio(self, shift: Array) -> Array:
        """|z|^β − |z − t|^β <= |t|^β for β <= 1; unbounded for β > 1."""
        if self.beta > 1.0:
            return super().worst_log_ratio(shift)
        return np.abs(shift) ** self.beta
