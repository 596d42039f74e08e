"""How much a matrix can stretch an l_p ball: the plain balls inside {δ : ‖Bδ‖_a <= r} have radius r/‖B‖_{p→a}.

Every value is rounded up. Exact (to rounding) for p <= 1, for p = a = 2 and for a = ∞; an upper bound elsewhere, since
the exact number is NP-hard already for p = ∞, a = 2 (the best of 2^d vectors of signs).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.overlap import dual

EPSILON = float(np.finfo(float).eps)
ENOUGH = 1e-3  # stop where the bound is within this share of what no choice of weights can go below
ROUNDS = (25, 50, 100, 200, 400)  # of the search for weights, after each of which the bound is computed


def operator_norm(matrix: ArrayLike, norm: float, to: float = 2.0) -> float:
    """‖Bδ‖_to <= this · ‖δ‖_norm for every δ; never below the largest such ratio.

    >>> blocks = np.kron(np.eye(4), np.full((1, 4), 0.5))  # sums of four numbers, divided by two: orthonormal rows
    >>> [round(operator_norm(blocks, p), 6) for p in (1, 2, math.inf)]
    [0.5, 1.0, 4.0]
    """
    b, unit = _scaled(matrix)
    if not (norm > 0 and to >= 1):
        raise SettingError(f"norm={norm} must be above 0 and to={to} at least 1; the usual ones are 1, 2 and inf")
    margin = unit * (1 + 4 * (sum(b.shape) + 16) * EPSILON)
    if norm <= 1:
        # The l_p ball, p <= 1, is inside the hull of its corners ±e_i, and a norm is largest at a corner.
        return margin * float(p_norm(b.T, to).max(initial=0.0))
    # By rows: |B_j·δ| <= ‖B_j‖_p* ‖δ‖_p (Hölder), attained for one row and so for a = ∞.
    by_rows = float(p_norm(p_norm(b, dual(norm)), to))
    if math.isinf(to):
        return margin * by_rows
    through_l2 = _to_l2(b, norm) * math.pow(b.shape[0], max(0.0, 1.0 / to - 0.5))
    return margin * min(by_rows, through_l2)


def _scaled(matrix: ArrayLike) -> tuple[FloatArray, float]:
    """The matrix without its zero columns and divided by a power of two, which is exact, and that power."""
    b = np.asarray(matrix, dtype=float)
    if b.ndim != 2 or not b.size or not np.all(np.isfinite(b)):
        raise SettingError(f"the matrix is {b.shape} or holds NaN or infinity; give finite numbers of shape (k, dim)")
    largest = float(np.abs(b).max())
    unit = math.ldexp(1.0, math.frexp(largest)[1])
    return np.asarray(b[:, b.any(axis=0)] / unit), unit


def _to_l2(b: FloatArray, norm: float) -> float:
    """‖B‖_{p→2} for p > 1, or a bound on it.

    1 < p < 2: Riesz–Thorin between the largest column and the largest singular value; its constant is one for real
    numbers because p is not above 2. p > 2: for any weights S > 0, ‖Bδ‖² <= λ_max(B diag(1/S) Bᵀ)·Σ S_i δ_i², and the
    sum is at most ‖S‖_{p/(p−2)} ‖δ‖_p² by Hölder.
    """
    if not b.size:
        return 0.0
    spectral = math.sqrt(_largest_eigenvalue(b, np.ones(b.shape[1])))
    if norm == 2:
        return spectral
    if norm < 2:
        share = 2.0 * (1.0 - 1.0 / norm)
        return math.pow(float(p_norm(b.T, 2).max()), 1 - share) * math.pow(spectral, share)
    power = 1.0 if math.isinf(norm) else norm / (norm - 2.0)
    square = spectral**2 * math.pow(b.shape[1], 1.0 / power)  # equal weights
    return math.sqrt(min(square, _by_weights(b, norm, power)))


def _by_weights(b: FloatArray, norm: float, power: float) -> float:
    """The least λ_max(B diag(1/S) Bᵀ)·‖S‖_power found; sound for whatever S the search stops at.

    The dual problem: the largest ‖YBᵀ‖² over columns y_i of Y with Σ‖y_i‖^p = 1 (one row: the norm itself; as many rows
    as √(2·dim): the best bound of this form, by Barvinok and Pataki). Climbed by y_i ∝ the slope, which never goes
    down, since a convex function is maximised; at its top the slopes are S_i y_i with S the best weights.
    """
    rows = min(b.shape[1], math.isqrt(2 * b.shape[1]) + 2)
    y = np.random.default_rng(0).normal(size=(rows, b.shape[1]))
    sizes = np.full(b.shape[1], b.shape[1] ** (-1.0 / norm))
    y *= sizes / np.linalg.norm(y, axis=0)
    best = math.inf
    for step in range(1, ROUNDS[-1] + 1):
        image = y @ b.T
        slopes = image @ b
        steep = np.maximum(np.linalg.norm(slopes, axis=0), 1e-150)
        if step in ROUNDS:
            weights = steep / sizes
            weights = np.maximum(weights, 1e-12 * weights.max())
            best = min(best, _largest_eigenvalue(b, weights) * float(p_norm(weights, power)))
            if best <= (1 + ENOUGH) ** 2 * float(np.sum(image**2)):
                break
        sizes = np.maximum((steep / steep.max()) ** (1.0 / (norm - 1.0)), 1e-150)
        sizes /= p_norm(sizes, norm)
        y = slopes * (sizes / steep)
    return best


def _largest_eigenvalue(b: FloatArray, weights: FloatArray) -> float:
    """λ_max(B diag(1/S) Bᵀ), rounded up: an inner product of n terms and the solver err by less than the trace allows."""
    half = b / np.sqrt(weights)
    gram = half @ half.T if b.shape[0] <= b.shape[1] else half.T @ half
    slack = float((max(b.shape) + 16 * len(gram) + 16) * EPSILON * np.trace(gram))
    return float(np.linalg.eigvalsh(gram)[-1]) + slack
