"""Square-style random search: for classifiers whose scores are known and whose gradients are not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcert.attacks.base import SCREEN, Attack, plane, weakest
from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray

PROPOSALS = 8  # compared at a time, all on the same draws


@dataclass(frozen=True)
class Square(Attack):
    """Repaints random squares of the perturbation and keeps what hurts more (Andriushchenko et al. 2020).

    In units of scale, so that any region is a plain ball: a square gets one sign per channel at the size of the whole,
    and the result is rescaled to the boundary. Squares shrink from half of the picture to one pixel; inputs without
    height and width are repainted in runs of coordinates.
    """

    name = "square"

    def find(self, victim: Victim, budget: int) -> FloatArray:
        random = victim.begin(self.title)
        starts = np.concatenate([_stripes(victim, random, PROPOSALS // 2), random.choice([-1.0, 1.0], (4, victim.dim))])
        best = weakest(victim, victim.stretched(starts * victim.scale), SCREEN)
        rounds = max(1, (budget - victim.evaluations) // (SCREEN * (PROPOSALS + 1)))
        for number in range(rounds):
            if victim.evaluations > budget and number > 1:
                break
            share = 0.5 * (1 - number / rounds) ** 2
            unit = best / victim.scale
            painted = [_repainted(unit, victim.shape, share, random) for _ in range(PROPOSALS)]
            tried = np.concatenate([best[None], victim.stretched(np.stack(painted) * victim.scale)])
            best = weakest(victim, tried, SCREEN)
        return best


def _stripes(victim: Victim, random: np.random.Generator, number: int) -> FloatArray:
    """Vertical stripes of random signs, the start of the published attack."""
    channels, height, width = plane(victim.shape)
    signs = random.choice([-1.0, 1.0], size=(number, channels, 1, width))
    return np.broadcast_to(signs, (number, channels, height, width)).reshape(number, -1)


def _repainted(unit: FloatArray, shape: tuple[int, ...], share: float, random: np.random.Generator) -> FloatArray:
    """A copy with one square, of this share of the area, repainted."""
    channels, height, width = plane(shape)
    side = math.sqrt(share)
    tall, wide = (max(1, round(side * size)) if height > 1 else 1 for size in (height, width))
    wide = wide if height > 1 else max(1, round(share * width))
    top, left = int(random.integers(height - tall + 1)), int(random.integers(width - wide + 1))
    picture = unit.reshape(channels, height, width).copy()
    level = max(float(np.abs(unit).max()), 1e-12)
    signs = random.choice([-1.0, 1.0], size=(channels, 1, 1))
    picture[:, top : top + tall, left : left + wide] = signs * level
    return picture.ravel()
