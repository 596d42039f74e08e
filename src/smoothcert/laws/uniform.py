"""Uniform noise on a cube: the l1 certificate of Lee et al. (2019) and the l∞ certificate of Yang et al. (2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcert.laws.base import BoxedRule, Draws, Law, RadiusRule
from smoothcert.maths import Array
from smoothcert.maths.boxed import boxed_radius


def _l1(lower: Array, upper: Array, dim: int) -> Array:
    """p_A − p_B: moving by δ, ‖δ‖₁ <= r, changes a probability by at most r/2."""
    return np.asarray(lower) - np.asarray(upper)


def _linf(lower: Array, upper: Array, dim: int) -> Array:
    """2(1 − (1 − (p_A − p_B)/2)^(1/d)): the two cubes share (1 − r/2)^d of their volume."""
    gap = np.asarray(lower) - np.asarray(upper)
    return -2.0 * np.expm1(np.log1p(-gap / 2.0) / dim)


@dataclass(frozen=True)
class Uniform(Law):
    """z uniform on [-1, 1]."""

    name = "uniform"
    std = 1.0 / math.sqrt(3.0)
    log_concave = True
    radii = {  # noqa: RUF012
        1.0: RadiusRule("uniform l1 (Lee et al. 2019; Yang et al. 2020)", _l1, tight=(0.0, 1.0)),
        math.inf: RadiusRule("uniform l∞ (Yang et al. 2020)", _linf, tight=(math.inf, math.inf)),
    }

    boxed_radii = {1.0: BoxedRule("uniform l1 in a box (Voráček and Hein 2023)", boxed_radius)}  # noqa: RUF012

    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        return draws.symmetric(shape)

    def log_prob(self, z: Array) -> Array:
        return np.where(np.abs(z) <= 1.0, -math.log(2.0), -np.inf)

    def tail(self, z: Array) -> Array:
        return np.clip(0.5 - 0.5 * np.asarray(z, dtype=float), 0.0, 1.0)

    def quantile(self, p: Array) -> Array:
        return 2.0 * np.asarray(p, dtype=float) - 1.0

    def score(self, z: Array) -> Array:
        return np.zeros(np.shape(z))
