"""Hyperbolic secant noise: smooth near zero like the Gaussian, with the tail of the Laplace (UniCR, Table 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcert.laws.base import Draws, Law, in_place
from smoothcert.maths import Array


@dataclass(frozen=True)
class HyperbolicSecant(Law):
    """z with density sech(z)/π."""

    name = "hyperbolic_secant"
    inverts = True
    std = math.pi / 2.0
    log_concave = True

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        """arcsinh of a Cauchy number. (log|Cauchy| has this law too, and is coarse near 0, as numbers near 1 are.)"""
        z = draws.normal(shape)
        z /= draws.normal(shape)
        return in_place(np.arcsinh, z)

    def log_prob(self, z: Array) -> Array:
        size = np.abs(z)
        return math.log(2.0 / math.pi) - size - np.log1p(np.exp(-2.0 * size))

    def tail(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.arctan(np.exp(-np.asarray(z, dtype=float))) * (2.0 / math.pi)

    def quantile(self, p: Array) -> Array:
        p = np.asarray(p, dtype=float)
        small = np.minimum(p, 1.0 - p)
        with np.errstate(divide="ignore"):
            size = -np.log(np.tan(small * (math.pi / 2.0)))
        return np.where(p < 0.5, -size, size)

    def score(self, z: Array) -> Array:
        return np.tanh(z)

    def worst_log_ratio(self, shift: Array) -> Array:
        """log cosh(z) − log cosh(z − t) rises with z towards |t|."""
        return np.abs(shift)
