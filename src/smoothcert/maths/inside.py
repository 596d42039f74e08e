"""How large a copy of a shape fits inside another: sound always, exact for the shapes in use."""

from __future__ import annotations

import math

import numpy as np

from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.overlap import ROUNDING, check_convex, largest_gauge

HALVINGS = 64


def room_inside(offset: FloatArray, new_axes: FloatArray, new_norm: float, axes: FloatArray, norm: float) -> FloatArray:
    """The largest factor at which the new shape lies inside each stored shape; zero when its centre is outside.

    Arrays as in ``overlap.clear_radius``. Never above the true value. Exact (to 1e-9) when the new shape is of norm 1
    or ∞, when the stored one is a box, and for two ellipsoids; otherwise the triangle inequality's, which is exact for
    shapes with one centre.

    >>> float(room_inside(np.array([[0.5, 0.0]]), np.array([1.0, 2.0]), 1, np.array([[1.0, 1.0]]), 1)[0].round(9))
    0.25
    """
    check_convex(new_norm)
    check_convex(norm)
    if len(offset) == 0 or not axes.any():
        return np.zeros(len(offset))
    with np.errstate(all="ignore"):
        distance, a = np.abs(offset), np.broadcast_to(new_axes, axes.shape)
        gauge = p_norm(distance / axes, norm)
        sound = (1 - gauge - ROUNDING) / largest_gauge(a, new_norm, axes, norm)
        exact = _exact(distance, a, new_norm, axes, norm)
        found = np.fmax(sound, exact) * (1 - ROUNDING)
    return np.where((gauge < 1) & np.isfinite(found), np.maximum(found, 0.0), 0.0)


def _exact(distance: FloatArray, a: FloatArray, p: float, b: FloatArray, q: float) -> FloatArray:
    """The exact factor, rounded down, where a formula is known; else minus infinity."""
    if math.isinf(q):
        return np.asarray(np.min((b * (1 - ROUNDING) - distance) / a, axis=-1))
    if p == 1:
        return _from_corners(distance, a, b, q)
    if math.isinf(p):
        return _from_far_corner(distance, a, b, q)
    if p == q == 2:
        return _ellipsoids(distance, a, b)
    return np.full(len(b), -math.inf)


def _from_corners(distance: FloatArray, a: FloatArray, b: FloatArray, q: float) -> FloatArray:
    """A cross-polytope is inside when its 2d corners x ± t·a_i are: what the other coordinates leave to each."""
    power = (distance / b) ** q
    others = np.sum(power, axis=-1, keepdims=True) - power
    reach = b * np.maximum(0.0, 1 - others - ROUNDING) ** (1 / q)
    return np.asarray(np.min((reach * (1 - ROUNDING) - distance) / a, axis=-1))


def _from_far_corner(distance: FloatArray, a: FloatArray, b: FloatArray, q: float) -> FloatArray:
    """A box is inside when the corner farthest from the stored centre is: ‖(Δ + t·a)/b‖_q <= 1, by bisection."""
    low, high = np.zeros((len(b), 1)), np.min(b / a, axis=-1, keepdims=True)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        inside = (p_norm((distance + middle * a) / b, q) <= 1 - ROUNDING)[:, None]
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.asarray(low[:, 0])


def _ellipsoids(distance: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Two ellipsoids: t² = max over λ >= max ρ² of 1/λ - Σ e²/(λ - ρ²), with e = Δ/b and ρ = a/b.

    The S-lemma (Yakubovich 1971; Boyd and Vandenberghe 2004, Appendix B.2): the copy is inside if and only if some λ
    has λt² + Σ e²λ/(λ - ρ²) <= 1. Any λ is sound; the best one has Σ (eλ/(λ - ρ²))² = 1, which falls with λ, or is
    max ρ² itself when Δ has no part along the largest ratio. The unknown is the gap λ - max ρ².
    """
    share, ratio = (distance / b) ** 2, (a / b) ** 2 * (1 + ROUNDING)
    top = ratio.max(axis=-1, keepdims=True)
    below = top - ratio

    def excess(gap: FloatArray) -> FloatArray:
        terms = np.where(share > 0, share * ((top + gap) / (below + gap)) ** 2, 0.0)
        return np.asarray(np.sum(terms, axis=-1, keepdims=True))

    low, high = top * 1e-18, top.copy()
    for _ in range(HALVINGS):
        high = np.where(excess(high) > 1, 2 * high, high)
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        low, high = np.where(excess(middle) > 1, middle, low), np.where(excess(middle) > 1, high, middle)
    lost = np.sum(np.where(share > 0, share / (below + high), 0.0), axis=-1)
    square = (1 - ROUNDING) / (top + high)[:, 0] - lost * (1 + ROUNDING)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))
