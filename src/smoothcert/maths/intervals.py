"""Exact confidence bounds for the probability behind a count of successes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from smoothcert.maths import FloatArray


def lower_bound(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """The probability of success is at least this, except with probability alpha (Clopper and Pearson, 1934).

    >>> float(lower_bound(100_000, 100_000, 0.001))
    0.99993092483...
    """
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(trials, dtype=float))
    inner = betaincinv(np.maximum(k, 1), n - np.maximum(k, 1) + 1, alpha)
    return np.where(k > 0, inner, 0.0)


def upper_bound(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """The probability of success is at most this, except with probability alpha (Clopper and Pearson, 1934).

    >>> float(upper_bound(0, 10, 0.05)) == 1 - float(lower_bound(10, 10, 0.05))
    True
    """
    k = np.asarray(successes, dtype=float)
    return np.asarray(1.0 - lower_bound(np.asarray(trials, dtype=float) - k, trials, alpha))
