"""Procedural noise: patterns that fool many networks on many inputs, and know nothing of either."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.attacks.base import SCREEN, Attack, plane, weakest
from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray
from smoothcert.seeds import Stage, entropy_for


@dataclass(frozen=True)
class Procedural(Attack):
    """Perlin noise folded by a sine (Co et al. 2019), the same patterns for every input, rescaled to the region."""

    name = "procedural"

    def find(self, victim: Victim, budget: int) -> FloatArray:
        victim.begin(self.title)
        universal = np.random.default_rng(entropy_for(victim.smoother.seed, 0, Stage.ATTACK, 0))
        channels, height, width = plane(victim.shape)
        number = max(2, budget // (2 * SCREEN))
        patterns = [_pattern(height, width, universal) for _ in range(number)]
        flat = np.stack([np.broadcast_to(pattern, (channels, height, width)).ravel() for pattern in patterns])
        both = np.concatenate([flat, -flat])
        return weakest(victim, victim.stretched(both * victim.scale), SCREEN)


def _pattern(height: int, width: int, random: np.random.Generator) -> FloatArray:
    """sin(2π·fold·Perlin noise of several octaves), values in [-1, 1]."""
    period = random.uniform(2.0, max(3.0, max(height, width) / 1.5))
    octaves, fold = int(random.integers(1, 5)), random.uniform(1.0, 8.0)
    total = sum(perlin(height, width, period / 2**level, random) / 2**level for level in range(octaves))
    return np.asarray(np.sin(2 * np.pi * fold * np.asarray(total)))


def perlin(height: int, width: int, period: float, random: np.random.Generator) -> FloatArray:
    """Gradient noise (Perlin 2002): random slopes at lattice points ``period`` pixels apart, blended smoothly.

    >>> perlin(4, 5, 2.0, np.random.default_rng(0)).shape
    (4, 5)
    """
    rows, columns = np.arange(height) / period, np.arange(width) / period
    angles = random.uniform(0, 2 * np.pi, size=(int(rows[-1]) + 2, int(columns[-1]) + 2))
    row, column = np.meshgrid(rows, columns, indexing="ij")
    top, left = row.astype(int), column.astype(int)
    down, right = row - top, column - left
    fade_down, fade_right = (t**3 * (t * (6 * t - 15) + 10) for t in (down, right))

    def corner(below: int, beside: int) -> FloatArray:
        angle = angles[top + below, left + beside]
        return np.asarray(np.sin(angle) * (down - below) + np.cos(angle) * (right - beside))

    above = (1 - fade_right) * corner(0, 0) + fade_right * corner(0, 1)
    under = (1 - fade_right) * corner(1, 0) + fade_right * corner(1, 1)
    return np.asarray((1 - fade_down) * above + fade_down * under)
