"""Gaussian noise: the l2 certificate of Cohen, Rosenfeld and Kolter (2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from smoothcert.laws.base import Draws, Law, RadiusRule
from smoothcert.maths import Array


def _l2(lower: Array, upper: Array, dim: int) -> Array:
    """½(Φ⁻¹(p_A) − Φ⁻¹(p_B)) (Cohen et al. 2019, Theorem 1)."""
    return 0.5 * (ndtri(lower) - ndtri(upper))


@dataclass(frozen=True)
class Gaussian(Law):
    """z ~ N(0, 1)."""

    name = "gaussian"
    inverts = True
    std = 1.0
    log_concave = True
    # Half-spaces flip at this radius: along one coordinate for p <= 2, along the diagonal for p >= 2.
    radii = {2.0: RadiusRule("Gaussian l2 (Cohen et al. 2019, Thm 1)", _l2, tight=(0.0, math.inf))}  # noqa: RUF012

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        return draws.normal(shape)

    def log_prob(self, z: Array) -> Array:
        return -0.5 * np.square(z) - 0.5 * math.log(2 * math.pi)

    def tail(self, z: Array) -> Array:
        return ndtr(-np.asarray(z, dtype=float))

    def quantile(self, p: Array) -> Array:
        return ndtri(p)

    def score(self, z: Array) -> Array:
        return np.asarray(z, dtype=float)
