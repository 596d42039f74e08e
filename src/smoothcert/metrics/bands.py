"""How far a measured accuracy may lie from the true one: exact binomial confidence bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.maths import FloatArray
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.metrics.curves import certified_accuracy
from smoothcert.records.record import Record

CONFIDENCE = 0.95


def binomial_band(successes: ArrayLike, trials: int, confidence: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
    """Below and above the true share, each except with probability (1 - confidence)/2 (Clopper and Pearson, 1934).

    The share is that of all inputs like these, of which the certified ones are a sample.

    >>> low, high = binomial_band(250, 500)
    >>> round(float(low), 3), round(float(high), 3)
    (0.455, 0.545)
    """
    if trials == 0:
        nothing = np.full(np.shape(successes), np.nan)
        return nothing, nothing
    tail = (1.0 - confidence) / 2.0
    return lower_bound(successes, trials, tail), upper_bound(successes, trials, tail)


def accuracy_band(records: Sequence[Record], radii: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """The band of the certified accuracy at each radius, one radius at a time."""
    shares = certified_accuracy(records, radii)
    return binomial_band(np.rint(shares * len(records)) if records else shares, len(records))
