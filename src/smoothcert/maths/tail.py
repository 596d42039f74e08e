"""The chance that a margin is above zero, from far fewer draws than a count of votes would need."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from smoothcert.maths import FloatArray
from smoothcert.maths.intervals import lower_bound, upper_bound

SHARE = 2  # the line goes through the lower half
DOUBT = 0.025  # on either side


def chance_above_zero(margins: FloatArray) -> float:
    """P(margin > 0) where the straight line through the lower half of the margins on a normal plot says it is.

    The margin of a nearly linear classifier under Gaussian noise is nearly Gaussian, so the line can be followed beyond the
    draws, where votes all agree and tell no difference. It stays within what the count of votes allows, which is all
    that is left where margins say nothing (equal, or not a number). A guess for choosing noise: it proves nothing.

    >>> half = ndtri((np.arange(200) + 0.5) / 400)
    >>> margins = 3.0 + np.concatenate([half, -half])  # none of them below zero
    >>> round(chance_above_zero(margins), 6), round(float(ndtr(3.0)), 6)
    (0.99865, 0.99865)
    """
    trials, wins = len(margins), int(np.count_nonzero(margins > 0))
    lowest = np.sort(margins)[: max(2, trials // SHARE)]
    chance = (wins + 0.5) / (trials + 1)
    if np.isfinite(lowest).all() and lowest[-1] > lowest[0]:
        slope, height = np.polyfit(ndtri((np.arange(len(lowest)) + 0.5) / trials), lowest, 1)
        chance = float(ndtr(height / slope))
    return float(np.clip(chance, lower_bound(wins, trials, DOUBT), upper_bound(wins, trials, DOUBT)))
