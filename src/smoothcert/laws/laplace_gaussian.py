"""Laplace–Gaussian mixture noise (UniCR, Table 7). Not log-concave."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfc

from smoothcert.laws.base import Draws, Law
from smoothcert.maths import Array
from smoothcert.registry import setting


@dataclass(frozen=True)
class LaplaceGaussian(Law):
    """z with density proportional to beta·exp(-|z|) + (1 - beta)·exp(-z²).

    The parts are added as they stand, so a draw is Laplace with probability 2β/(2β + (1 − β)√π), not β.

    >>> round(LaplaceGaussian(beta=0.5).weight, 4)
    0.5302
    """

    name = "laplace_gaussian"

    beta: float = setting(0.5, "the part of the Laplace density: 0 is a Gaussian, 1 is Laplace", least=0, most=1)

    @cached_property
    def _total(self) -> float:
        return 2.0 * self.beta + (1.0 - self.beta) * math.sqrt(math.pi)

    @cached_property
    def weight(self) -> float:
        """The probability that a draw is Laplace."""
        return 2.0 * self.beta / self._total

    @property
    def log_concave(self) -> bool:
        return self.beta in (0.0, 1.0)

    @property
    def std(self) -> float:
        return math.sqrt(2.0 * self.weight + 0.5 * (1.0 - self.weight))

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        laplace = draws.uniform(shape) < self.weight
        z = draws.exponential(shape)
        z *= draws.signs(shape)
        z *= laplace
        normal = draws.normal(shape)
        normal *= math.sqrt(0.5)
        normal *= ~laplace
        z += normal
        return z

    def log_prob(self, z: Array) -> Array:
        size = np.abs(z)
        with np.errstate(divide="ignore", over="ignore"):
            parts = np.log(self.beta) - size, np.log1p(-self.beta) - np.square(size)
        return np.logaddexp(*parts) - math.log(self._total)

    def tail(self, z: Array) -> Array:
        size = np.abs(np.asarray(z, dtype=float))
        half = 0.5 * (self.weight * np.exp(-size) + (1.0 - self.weight) * erfc(size))
        return np.where(np.asarray(z) >= 0, half, 1.0 - half)

    def score(self, z: Array) -> Array:
        size = np.abs(np.asarray(z, dtype=float))
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            odds = np.exp(np.log1p(-self.beta) - np.log(self.beta) + size - np.square(size))  # Gaussian to Laplace
        share = np.where(np.isinf(odds), 1.0, odds / (1.0 + np.where(np.isinf(odds), 0.0, odds)))
        return np.sign(z) * ((1.0 - share) + share * 2.0 * size)

    def worst_log_ratio(self, shift: Array) -> Array:
        return np.abs(shift) if self.beta == 1.0 else super().worst_log_ratio(shift)
