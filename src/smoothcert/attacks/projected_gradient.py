"""Projected gradient with expectation over noise: the strongest search where the classifier has gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.attacks.base import Attack, weakest
from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.projections import climb, to_boundary
from smoothcert.registry import setting

KEPT = 4  # points of each restart that are compared in the end
MOMENTUM = 0.75  # as in Auto-PGD (Croce and Hein 2020)


@dataclass(frozen=True)
class ProjectedGradient(Attack):
    """Climbs −log(mean probability of the label) over fresh draws at every step (Salman et al. 2019).

    In units of scale, where the region is a plain ball of its norm: steps have that norm, and shrink evenly from ``step``
    of the radius to nothing; every point is projected exactly. In l1 they begin spread over ``share`` of the coordinates,
    and end at one. The first restart begins at the input, the others at random points of the boundary.
    """

    name = "projected_gradient"
    needs_gradient = True

    restarts: int = setting(2, "climbs, the first from the input itself", least=1)
    draws: int = setting(16, "noisy copies per step", least=1)
    step: float = setting(0.5, "the first step, of the radius", above=0)
    share: float = setting(0.05, "of the coordinates that the first step changes in l1", above=0, most=1)

    def find(self, victim: Victim, budget: int) -> FloatArray:
        random = victim.begin(self.title)
        radius, norm = victim.region.radius, victim.region.norm
        units = to_boundary(
            random.standard_normal((self.restarts, victim.dim)), lambda rows: p_norm(rows, norm), radius
        )
        units[0] = 0.0
        steps = max(4, (budget - 64 * KEPT * self.restarts) // (3 * self.draws * self.restarts))
        speed, passed = np.zeros_like(units), [units]
        for number in range(steps):
            if number > 4 and victim.evaluations > budget:
                break
            left = 1 - number / steps
            _, slopes = victim.gradients(victim.inside(units * victim.scale), self.draws)
            speed = MOMENTUM * speed + climb(slopes * victim.scale, norm, self.share * left)
            # On the grid the climb goes on between its points, or short steps would lead nowhere.
            units = victim.nearest(units + self.step * left * radius * speed)
            passed.append(units)
        last = victim.inside(np.concatenate(passed[-KEPT:]) * victim.scale)
        return weakest(victim, np.concatenate([last, victim.stretched(units * victim.scale)]))
