"""How far a shape may grow before it meets another: exact, and proved by a separating plane.

A shape is {y : ‖(y - centre)/axes‖_p <= 1}, p >= 1, with one semi-axis per coordinate; all zero is a point.
Arrays are (entries, dim); ``offset`` is centre of the other shape minus centre of the growing one.
"""

from __future__ import annotations

import math

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.normals import best_normal

ROUNDING = 64 * float(np.finfo(float).eps)  # relative; sums of d terms are pairwise, so d = 10^6 costs 20 of these 64
ELEMENTS = 1 << 21  # of float64 in one chunk: 16 MB a temporary


def check_convex(norm: float) -> None:
    """Only convex shapes can be kept apart by planes.

    >>> check_convex(0.5)
    Traceback (most recent call last):
    smoothcert.errors.SettingError: norm=0.5: regions of a norm below 1 are not convex, and nothing keeps two of them \
apart exactly; use a norm of 1 or more (math.inf for boxes), or no memory
    """
    if not norm >= 1:
        raise SettingError(
            f"norm={norm}: regions of a norm below 1 are not convex, and nothing keeps two of them apart exactly; "
            "use a norm of 1 or more (math.inf for boxes), or no memory"
        )


def dual(norm: float) -> float:
    """The norm q with 1/p + 1/q = 1.

    >>> dual(1), dual(2), dual(math.inf)
    (inf, 2.0, 1.0)
    """
    if norm == 1:
        return math.inf
    return 1.0 if math.isinf(norm) else norm / (norm - 1.0)


def largest_gauge(axes: FloatArray, norm: float, in_axes: FloatArray, in_norm: float) -> FloatArray:
    """max ‖u/in_axes‖_in_norm over ‖u/axes‖_norm <= 1, exact for any two norms > 0 (Hölder's inequality is attained).

    The circumscribed ball of a box with half-widths 3 and 4:

    >>> float(largest_gauge(np.array([3.0, 4.0]), math.inf, np.ones(2), 2))
    5.0
    """
    ratio = axes / in_axes
    excess = 1.0 / in_norm - 1.0 / norm
    return np.asarray(ratio.max(axis=-1)) if excess <= 0 else p_norm(ratio, 1.0 / excess)


def plane_clearance(
    normal: FloatArray, offset: FloatArray, new_axes: FloatArray, new_norm: float, axes: FloatArray, norm: float
) -> FloatArray:
    """A factor at which the growing shape has not met the other, by the plane with this normal; sound for *any* normal.

    A plane with normal w keeps the shapes apart while t·‖a·w‖_p* + ‖b·w‖_q* < w·Δ (support functions of the two
    shapes); the best w attains the clear radius (convex duality). Rounded down; minus infinity where w says nothing.

    >>> plane_clearance(np.ones((1, 2)), np.array([[3.0, 4.0]]), np.ones(2), 2, np.ones((1, 2)), 2).round(6)
    array([3.949747])
    """
    with np.errstate(all="ignore"):
        reach = p_norm(axes * normal, dual(norm))
        along = np.sum(normal * offset, axis=-1)
        slack = along - reach - ROUNDING * (np.sum(np.abs(normal * offset), axis=-1) + reach)
        factor = slack / p_norm(new_axes * normal, dual(new_norm)) * (1 - ROUNDING)
    return np.where(np.isfinite(factor), factor, -math.inf)


def triangle_clearance(
    offset: FloatArray, new_axes: FloatArray, new_norm: float, axes: FloatArray, norm: float
) -> FloatArray:
    """A factor at which the growing shape has not met the other, by the triangle inequality: sound, rarely exact."""
    with np.errstate(all="ignore"):
        distance = p_norm(offset / new_axes, new_norm)
        reach = largest_gauge(axes, norm, new_axes, new_norm)
        return distance - reach - ROUNDING * (distance + reach)


def clear_radius(
    offset: FloatArray, new_axes: FloatArray, new_norm: float, axes: FloatArray, norm: float
) -> FloatArray:
    """min ‖(y - x)/new_axes‖_new_norm over each stored shape: the factor at which the new shape first touches it.

    offset and axes are (entries, dim), new_axes is (dim,). Never above the true value; below it by a relative 1e-9 at
    most for l1, l2, l∞ and their mixtures, by 1e-6 for other norms (an inner equation is solved by iteration), and by
    the triangle inequality's slack where semi-axes differ by more than 10^100. Zero inside a stored shape.

    >>> box = clear_radius(np.array([[3.0, 0.5]]), np.array([1.0, 1.0]), math.inf, np.array([[1.0, 1.0]]), math.inf)
    >>> ball = clear_radius(np.array([[3.0, 4.0]]), np.array([2.0, 2.0]), 2, np.array([[1.0, 1.0]]), 2)
    >>> box.round(9), ball.round(9)
    (array([2.]), array([2.]))
    """
    check_convex(new_norm)
    check_convex(norm)
    rows = max(1, ELEMENTS // max(1, offset.shape[-1]))
    parts = [slice(start, start + rows) for start in range(0, len(offset), rows)]
    found = [_clear_radius(offset[part], new_axes, new_norm, axes[part], norm) for part in parts]
    return np.concatenate(found) if found else np.zeros(0)


def _clear_radius(
    offset: FloatArray, new_axes: FloatArray, new_norm: float, axes: FloatArray, norm: float
) -> FloatArray:
    """One chunk of clear_radius: points at once, the rest by the best plane or the triangle inequality."""
    found = triangle_clearance(offset, new_axes, new_norm, axes, norm)  # for points this is exact
    with np.errstate(all="ignore"):
        outside = p_norm(offset / axes, norm) > 1
    solve = np.flatnonzero(axes.any(axis=-1) & outside)
    if len(solve):
        distance, shapes = np.abs(offset[solve]), axes[solve]
        normal = best_normal(distance, new_axes, new_norm, shapes, norm)
        proved = plane_clearance(normal, distance, new_axes, new_norm, shapes, norm)
        found[solve] = np.fmax(found[solve], proved)
    return np.maximum(found, 0.0)
