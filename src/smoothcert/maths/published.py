"""Radii published before the tight ones: sound, and looser; kept to be compared with, never to certify.

p_A is the label's probability, at least ``lower``; p_B any rival's, at most ``upper``. All at unit scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import hyp2f1

from smoothcert.maths import FloatArray
from smoothcert.maths.renyi import threshold

_BUDGETS = 4000  # of ε, and of the Rényi order: each alone is a proof, so a grid only misses a little of the best
_LARGEST_EPSILON = 1.0  # the Gaussian mechanism is proved for ε below one (Dwork and Roth 2014, Theorem A.1)


def pixeldp_gaussian(lower: ArrayLike, upper: ArrayLike) -> FloatArray:
    """The l2 radius of PixelDP under Gaussian noise (Lecuyer et al. 2019, Proposition 1, with their Gaussian mechanism).

    Noise of deviation one is (ε, δ)-private within ε / √(2 log(1.25/δ)), and the label holds while
    p_A > e^{2ε} p_B + (1 + e^ε) δ. For each ε the largest δ allowed; then the best ε, as Cohen et al. (2019) compare it.

    >>> 0.5 * 1.2815 > float(pixeldp_gaussian(0.9, 0.1)) > 0.2
    True
    """
    first, second = _columns(lower, upper)
    with np.errstate(divide="ignore"):
        most = np.minimum(_LARGEST_EPSILON, 0.5 * np.log(first / second))
    epsilon = most * np.linspace(0.0, 1.0, _BUDGETS + 1)[1:]
    delta = (first - np.exp(2.0 * epsilon) * second) / (1.0 + np.exp(epsilon))
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = epsilon / np.sqrt(2.0 * np.log(1.25 / delta))
    return np.asarray(np.where(delta > 0, radius, 0.0).max(axis=-1))


def pixeldp_laplace(lower: ArrayLike, upper: ArrayLike) -> FloatArray:
    """The l1 radius of PixelDP under Laplace noise, ½ log(p_A/p_B) (Lecuyer et al. 2019, Proposition 1, with δ = 0).

    >>> round(float(pixeldp_laplace(0.9, 0.1)), 4)
    1.0986
    """
    return np.asarray(0.5 * np.log(np.asarray(lower, dtype=float) / np.asarray(upper, dtype=float)))


def renyi_gaussian(lower: ArrayLike, upper: ArrayLike) -> FloatArray:
    """The l2 radius under Gaussian noise from the Rényi divergence, max_a √(2 T_a / a) (Li et al. 2019, Theorem 2).

    >>> round(float(renyi_gaussian(0.8, 0.2)), 3), round(float(renyi_gaussian(0.99, 0.01)), 3)
    (0.674, 1.908)
    """
    first, second = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    best = np.zeros(np.broadcast_shapes(first.shape, second.shape))
    for order in 1.0 + np.geomspace(1e-3, 1e3, _BUDGETS // 10):
        best = np.maximum(best, np.sqrt(2.0 * np.maximum(threshold(float(order), first, second), 0.0) / order))
    return best


def yang_pareto(beta: float, lower: ArrayLike) -> FloatArray:
    """The l1 radius of Yang et al. (2020) under Pareto noise ∝ (1 + |z|)^(−β−1), one class bounded.

    Their differential method: (1/β) ∫_0^x du / (1 − u^c) with x = 2p − 1 and c = 1 + 1/β, a hypergeometric function.

    >>> round(float(yang_pareto(1.0, 0.9) - 0.5 * np.log(9.0)), 12)
    0.0
    """
    x, c = 2.0 * np.asarray(lower, dtype=float) - 1.0, 1.0 + 1.0 / beta
    return np.asarray(x / beta * hyp2f1(1.0, 1.0 / c, 1.0 + 1.0 / c, x**c))


def _columns(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    return np.asarray(lower, dtype=float)[..., None], np.asarray(upper, dtype=float)[..., None]
