"""A decision-based attack: it sees the predictor's answers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.attacks.base import Attack
from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray

VOTES = 32  # per decision
PROBES = 32  # decisions per estimate of the boundary's normal
ROUNDS = 50
FARTHEST = 64.0  # multiples of the radius searched for another answer


@dataclass(frozen=True)
class Decision(Attack):
    """Walks along the decision boundary towards the input, then rescales to the region (HopSkipJump, Chen et al. 2020).

    In units of scale: a direction with another answer somewhere on its ray; bisection to the boundary; the boundary's
    normal from the answers around that point; a step along it; again. What it found outside the region is rescaled to
    its boundary (as in UniCR 2022, Table 6); a boundary crossed inside the region ends the walk.
    """

    name = "decision"

    def find(self, victim: Victim, budget: int) -> FloatArray:
        random = victim.begin(self.title)
        directions = victim.stretched(random.standard_normal((4, victim.dim)) * victim.scale)
        here = _least(victim, directions, VOTES)
        reach, passed = _crossing(victim, here, FARTHEST), [here]
        for number in range(1, ROUNDS):
            if reach < 1 or victim.evaluations > budget - 8 * 64:
                break
            at = here * reach
            probes = random.standard_normal((PROBES, victim.dim))
            spread = 0.1 * reach * victim.region.radius / np.sqrt(victim.dim)
            answers = _decided(victim, at + spread * victim.scale * probes, 8)
            normal = ((answers - answers.mean())[:, None] * probes).mean(axis=0)
            if not normal.any():  # all answers agree
                normal = random.standard_normal(victim.dim)
            step = normal / np.linalg.norm(normal) * np.linalg.norm(at / victim.scale) / np.sqrt(number)
            proposal = victim.stretched((at + step * victim.scale)[None])[0]
            crossing = _crossing(victim, proposal, 1.5 * reach)
            if crossing <= reach:
                here, reach = proposal, crossing
                passed.append(here)
        return _least(victim, np.stack(passed[-8:]), 64)


def _least(victim: Victim, offsets: FloatArray, votes: int) -> FloatArray:
    """The offset at which the label gets the fewest votes over its rival."""
    return np.asarray(offsets[int(np.argmin(victim.leads(offsets, votes)[:, 1]))])


def _decided(victim: Victim, offsets: FloatArray, votes: int) -> FloatArray:
    """+1 where the predictor answers otherwise, -1 where it answers the label; by majority. Offsets may be anywhere."""
    grid = offsets if victim.levels is None else np.rint(offsets * victim.levels) / victim.levels
    return np.where(victim.leads(grid, votes)[:, 1] < 0, 1.0, -1.0)


def _crossing(victim: Victim, offset: FloatArray, farthest: float) -> float:
    """The least multiple of the offset, found by doubling and halving, where the answer changes; else the farthest."""
    near, far = 0.0, 1.0
    while far < farthest and _decided(victim, offset[None] * far, VOTES)[0] < 0:
        near, far = far, 2 * far
    if far >= farthest:
        return farthest
    for _ in range(5):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if _decided(victim, offset[None] * middle, VOTES)[0] > 0 else (middle, far)
    return far
