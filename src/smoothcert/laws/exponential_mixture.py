"""Exponential mixture noise: the product of a Laplace and a Gaussian density (UniCR, Table 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri_exp

from smoothcert.laws.base import Draws, Law
from smoothcert.maths import Array
from smoothcert.registry import setting


@dataclass(frozen=True)
class ExponentialMixture(Law):
    """z with density proportional to exp(-beta·|z| - (1 - beta)·z²); log-concave.

    Letters: c = 1 − beta; |z| is s·(Y − a), Y a standard normal number above a, a = beta·s, s² = 1/(2c).
    """

    name = "exponential_mixture"
    log_concave = True

    beta: float = setting(0.5, "the part of |z|: 0 is a Gaussian; at 1 it would be the laplace law", least=0, most=0.99)

    @cached_property
    def _c(self) -> float:
        return 1.0 - self.beta

    @cached_property
    def _s(self) -> float:
        return math.sqrt(0.5 / self._c)

    @cached_property
    def _a(self) -> float:
        return self.beta * self._s

    @cached_property
    def _erfcx(self) -> float:
        return float(erfcx(self._a / math.sqrt(2.0)))

    @property
    def std(self) -> float:
        hazard = math.sqrt(2.0 / math.pi) / self._erfcx  # density over tail of the standard normal law at a
        return self._s * math.sqrt(1.0 - self._a * hazard + self._a**2)

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        """Exact, by rejection: the Gaussian factor is drawn and the Laplace factor accepted, or the other way round."""
        z = self._proposal(shape, draws)
        rejected = draws.exponential(shape) < self._cost(z)
        while number := int(rejected.sum()):
            again = self._proposal((number,), draws)
            z[rejected] = again
            renewed = draws.exponential((number,)) < self._cost(again)
            still = rejected.reshape(-1).nonzero()
            index = (still[0] if isinstance(still, tuple) else still[:, 0])[~renewed]
            rejected.reshape(-1)[index] = False
        z *= draws.signs(shape)
        return z

    def _proposal(self, shape: tuple[int, ...], draws: Draws) -> Array:
        if self.beta <= 0.7:
            return abs(draws.normal(shape)) * self._s
        return draws.exponential(shape) * (1.0 / self.beta)

    def _cost(self, size: Array) -> Array:
        return size * self.beta if self.beta <= 0.7 else size**2 * self._c

    def log_prob(self, z: Array) -> Array:
        size = np.abs(z)
        with np.errstate(over="ignore"):
            shape = -self.beta * size - self._c * np.square(size)
        return shape - math.log(math.sqrt(math.pi / self._c) * self._erfcx)

    def tail(self, z: Array) -> Array:
        size = np.abs(np.asarray(z, dtype=float))
        with np.errstate(over="ignore", under="ignore"):
            decay = np.exp(-self.beta * size - self._c * np.square(size))
        half = 0.5 * decay * erfcx((self._a + size / self._s) / math.sqrt(2.0)) / self._erfcx
        return np.where(np.asarray(z) >= 0, half, 1.0 - half)

    def quantile(self, p: Array) -> Array:
        p = np.asarray(p, dtype=float)
        with np.errstate(divide="ignore"):
            log_tail = np.log(2.0 * np.minimum(p, 1.0 - p)) + log_ndtr(-self._a)
        size = np.maximum(self._s * (-ndtri_exp(log_tail) - self._a), 0.0)
        return np.where(p < 0.5, -size, size)

    def score(self, z: Array) -> Array:
        return np.sign(z) * self.beta + 2.0 * self._c * np.asarray(z, dtype=float)
