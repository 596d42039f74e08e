"""Wasserstein-style perturbations: mass that moves between neighbouring pixels, and is neither made nor lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.attacks.base import Attack, plane, weakest
from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray
from smoothcert.registry import setting


@dataclass(frozen=True)
class Wasserstein(Attack):
    """Climbs the loss over flows between neighbours (the local transport plans of Wong et al. 2019), then rescales.

    The perturbation is what flows in less what flows out, so it sums to zero in every channel. As in UniCR 2022, D.2, it is
    rescaled to the region; there is no bound on the Wasserstein distance itself.
    """

    name = "wasserstein"
    needs_gradient = True

    draws: int = setting(16, "noisy copies per step", least=1)

    def find(self, victim: Victim, budget: int) -> FloatArray:
        random = victim.begin(self.title)
        channels, height, width = plane(victim.shape)
        down = 1e-3 * random.standard_normal((channels, height - 1, width))
        right = 1e-3 * random.standard_normal((channels, height, width - 1))
        steps = max(4, (budget - 6 * 64) // (3 * self.draws))
        passed = []
        for number in range(steps):
            offset = victim.stretched(moved(down, right).reshape(1, -1))
            passed.append(offset[0])
            if number > 3 and victim.evaluations > budget - 6 * 64:
                break
            _, slope = victim.gradients(offset, self.draws)
            climb = slope.reshape(channels, height, width)
            length = 2.0 / (number + 2)  # flows average over the steps, as in Frank and Wolfe (1956)
            down = (1 - length) * down + length * _unit(np.diff(climb, axis=1))
            right = (1 - length) * right + length * _unit(np.diff(climb, axis=2))
        return weakest(victim, np.stack(passed[-6:]))


def moved(down: FloatArray, right: FloatArray) -> FloatArray:
    """What each pixel gains when this much flows to its lower and its right neighbour: (channels, height, width).

    >>> moved(np.zeros((1, 0, 3)), np.array([[[1.0, -2.0]]])).tolist()
    [[[-1.0, 3.0, -2.0]]]
    """
    channels, height, width = right.shape[0], right.shape[1], down.shape[2]
    gain = np.zeros((channels, height, width))
    gain[:, 1:] += down
    gain[:, :-1] -= down
    gain[:, :, 1:] += right
    gain[:, :, :-1] -= right
    return gain


def _unit(flow: FloatArray) -> FloatArray:
    """The flow with root mean square one; zero stays zero."""
    size = float(np.sqrt(np.mean(flow**2))) if flow.size else 0.0
    return flow / size if size > 0 else flow
