"""Attacks that need nothing but the region: random directions, and its own extreme points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.attacks.base import SCREEN, Attack, weakest
from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray


@dataclass(frozen=True)
class RandomDirections(Attack):
    """Gaussian directions, in units of scale and plain, rescaled to the boundary (Gaussian* of UniCR 2022, Table 6).

    A third of them end somewhere inside instead: where the noise is chosen from the input, the weakest point need not
    lie on the boundary.
    """

    name = "random"

    def find(self, victim: Victim, budget: int) -> FloatArray:
        random = victim.begin(self.title)
        number = max(2, budget // SCREEN)
        directions = random.standard_normal((number, victim.dim))
        directions[::2] *= victim.scale
        reach = np.where(np.arange(number) % 3 == 0, random.random(number), 1.0)
        return weakest(victim, victim.inside(victim.stretched(directions) * reach[:, None]), SCREEN)


@dataclass(frozen=True)
class ExtremeAxes(Attack):
    """The tips of the region: both ends of its longest axes, of random ones, and corners with all coordinates equal.

    In a box a tip is cut off at the wall, and goes on along others, one after the other, each to its far wall.
    """

    name = "axes"

    def find(self, victim: Victim, budget: int) -> FloatArray:
        random = victim.begin(self.title)
        number = max(4, budget // SCREEN)
        axes = min(victim.dim, number // 4)
        longest = np.argsort(-victim.scale, kind="stable")[: (axes + 1) // 2]
        others = random.permutation(np.setdiff1d(np.arange(victim.dim), longest))[: axes - len(longest)]
        tips = np.zeros((axes, victim.dim))
        tips[np.arange(axes), np.concatenate([longest, others])] = 1.0
        corners = random.choice([-1.0, 1.0], size=(max(1, number // 2 - axes), victim.dim))
        corners[0] = 1.0
        if victim.walls is not None:
            tips = np.concatenate([tips, _filled(victim.walls, axes, random)])
        ends = np.concatenate([tips, -tips, corners * victim.scale, -corners * victim.scale])
        return weakest(victim, victim.stretched(ends), SCREEN)


def _filled(walls: tuple[FloatArray, FloatArray], number: int, random: np.random.Generator) -> FloatArray:
    """Directions that fill random coordinates one by one, each towards its far wall: the worst ones of a cube."""
    low, high = walls
    far = np.where(-low > high, low, high)
    ranks = random.permuted(np.tile(np.arange(len(far)), (number, 1)), axis=1)
    return np.asarray(np.sign(far) * 10.0 ** np.maximum(-3.0 * ranks, -300.0))
