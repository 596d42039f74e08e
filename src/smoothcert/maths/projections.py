"""The nearest point of a certified shape: Euclidean projection on {u : ‖u/scale‖_p <= radius}, for any p >= 1.

Ball, ellipsoid, generalised cross-polytope, box and super-ellipsoid are one problem that separates over coordinates
once its multiplier m is known: minimise ½(y − a)² + m·(y/s)^p for each a = |u_i|, with m the least at which the
result is inside. Arrays are (points, dim); scale is (dim,).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm

_LEAST = 1e-300  # a multiplier below any that is needed
_HALVINGS = 70  # of the bracket of log m: down to the last bits
_NEWTON = 60  # at most; convergence is quadratic in the end


def check_projectable(norm: float) -> None:
    """Only a convex shape has one nearest point.

    >>> check_projectable(0.5)
    Traceback (most recent call last):
    smoothcert.errors.SettingError: norm=0.5: a region of a norm below 1 is not convex and has no projection, so it \
cannot be attacked; use certificates in a norm of 1 or more
    """
    if not norm >= 1:
        raise SettingError(
            f"norm={norm}: a region of a norm below 1 is not convex and has no projection, so it cannot be attacked; "
            "use certificates in a norm of 1 or more"
        )


def project(points: ArrayLike, scale: ArrayLike, radius: float, norm: float) -> FloatArray:
    """The nearest point of the shape around zero, for each row; points inside stay as they are.

    >>> project([[3.0, 0.5]], [1.0, 1.0], 1.0, 1).round(6), project([[3.0, 0.5]], [1.0, 2.0], 1.0, math.inf)
    (array([[1., 0.]]), array([[1. , 0.5]]))
    """
    check_projectable(norm)
    given = np.asarray(points, dtype=float)
    axes = np.broadcast_to(np.asarray(scale, dtype=float), given.shape[-1:])
    if math.isinf(norm):
        return np.asarray(np.clip(given, -radius * axes, radius * axes))
    result = given.copy()
    outside = p_norm(given / axes, norm) > radius
    if radius <= 0:
        result[outside] = 0.0
    elif np.any(outside):
        size = radius * _inside(np.abs(given[outside]) / radius, axes, norm)
        result[outside] = np.copysign(size, given[outside])
    return result


def _inside(size: FloatArray, axes: FloatArray, norm: float) -> FloatArray:
    """Radius 1: bisection on the logarithm of the multiplier; the answer is taken from its side that is inside."""
    shrink = _shrinking(size, axes, norm)
    low, high = np.full(len(size), _LEAST), np.ones(len(size))
    while np.any(far := p_norm(shrink(high) / axes, norm) > 1):
        low, high = np.where(far, high, low), np.where(far, 8.0 * high, high)
    for _ in range(_HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high)
        far = p_norm(shrink(middle) / axes, norm) > 1
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return shrink(high)


def _shrinking(size: FloatArray, axes: FloatArray, norm: float) -> Callable[[FloatArray], FloatArray]:
    """From a multiplier per row to the minimisers of ½(y − a)² + m·(y/s)^p (for p = 1, soft thresholds)."""
    if norm == 1:
        return lambda m: np.maximum(size - m[:, None] / axes, 0.0)
    if norm == 2:
        return lambda m: size / (1.0 + 2.0 * m[:, None] / axes**2)
    # In units of each axis, so that no power of a scale is out of range: t + (p·m/s²)·t^(p−1) = a/s.
    return lambda m: axes * _stationary(size / axes, norm * m[:, None] / axes**2, norm - 1.0)


def _stationary(size: FloatArray, weight: FloatArray, power: float) -> FloatArray:
    """The y >= 0 with y + weight·y^power = size, by Newton on a convex form from its right side, so monotonically.

    For power < 1 the unknown is v = y^power, in which v^(1/power) + weight·v is convex.
    """
    outer, inner = (1.0, power) if power >= 1 else (1.0 / power, 1.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        start = np.minimum(size ** (1.0 / outer), (size / weight) ** (1.0 / inner))
        value = np.where(weight > 0, start, size ** (1.0 / outer))
        for _ in range(_NEWTON):
            height = value**outer + weight * value**inner - size
            slope = outer * value ** (outer - 1.0) + inner * weight * value ** (inner - 1.0)
            step = np.where(slope > 0, height / slope, 0.0)
            value = np.maximum(value - np.maximum(step, 0.0), 0.0)
            if np.all(step <= 1e-9 * value):  # the next step would be of its square
                break
    return np.asarray(value**outer)


def snap(points: ArrayLike, scale: ArrayLike, radius: float, norm: float, levels: int) -> FloatArray:
    """The points, which must be inside, on the grid of 1/levels and no farther out than they were, any p > 0.

    Each coordinate is cut towards zero; then those that lost most go one step out, as many as fit. So a direction spread
    over many coordinates, less than a step in each, ends in whole steps of some, spread evenly where all lost the same.

    >>> snap([[0.6, 0.6]], 1.0, 0.85, 2, 2).tolist(), snap([[0.9, 0.3]], 1.0, 1.2, 1, 2).tolist()
    ([[0.5, 0.5]], [[1.0, 0.0]])
    """
    size = np.abs(np.asarray(points, dtype=float))
    axes = np.broadcast_to(np.asarray(scale, dtype=float), size.shape[-1:])
    steps = np.floor(size * levels)
    lost = size * levels - steps
    mixed = np.random.default_rng(0).permutation(size.shape[-1])
    order = mixed[np.argsort(-lost[:, mixed], axis=-1, kind="stable")]
    bar = np.minimum(p_norm(size / axes, norm), radius)

    def with_up(number: FloatArray) -> FloatArray:
        up = np.zeros_like(steps)
        np.put_along_axis(up, order, (np.arange(size.shape[-1]) < number[:, None]).astype(float), axis=-1)
        return np.asarray((steps + up * (lost > 0)) / levels)

    few, many = np.zeros(len(size)), np.full(len(size), float(size.shape[-1] + 1))
    if math.isinf(norm):
        higher = (steps + (lost >= 0.5)) / levels
        best = np.where(higher <= radius * axes, higher, steps / levels)
    else:
        while np.any(many - few > 1):  # more steps out, larger gauge: bisection on their number
            middle = np.floor(0.5 * (few + many))
            fits = p_norm(with_up(middle) / axes, norm) <= bar
            few, many = np.where(fits, middle, few), np.where(fits, many, middle)
        best = with_up(few)
    return np.asarray(np.copysign(best, np.asarray(points, dtype=float)))


Gauges = Callable[[FloatArray], FloatArray]  # how far out each row is, (points, dim): a norm


def to_boundary(points: ArrayLike, gauges: Gauges, radius: float) -> FloatArray:
    """Each row stretched along its ray to the surface {gauge = radius}; zero, and where there is no surface, stays zero.

    >>> to_boundary([[3.0, 4.0], [0.0, 0.0]], lambda rows: p_norm(rows, 2), 1.0).tolist()
    [[0.6..., 0.8...], [0.0, 0.0]]
    """
    given = np.asarray(points, dtype=float)
    gauge = gauges(given)
    there = gauge > 1e-300
    return np.asarray(given * np.where(there, radius / np.where(there, gauge, 1.0), 0.0)[:, None])


def to_boundary_in_box(
    points: ArrayLike, walls: tuple[ArrayLike, ArrayLike], gauges: Gauges, radius: float
) -> FloatArray:
    """Each row stretched and cut off at the walls, below and above zero, until it reaches the surface, or a corner before that.

    What a wall stops in one coordinate goes on in the others: entries of very different sizes are filled one by one.

    >>> to_boundary_in_box([[1.0, 0.01]], (-1.0, 1.0), lambda rows: p_norm(rows, 1), 1.5).round(6).tolist()
    [[1.0, 0.5]]
    """
    given = to_boundary(points, gauges, radius)

    def cut(factor: FloatArray) -> FloatArray:
        return np.asarray(np.clip(given * factor[:, None], *walls))

    few, many = np.zeros(len(given)), np.full(len(given), math.log(1e15))  # logarithms of the factor
    for _ in range(_HALVINGS):
        middle = 0.5 * (few + many)
        far = gauges(cut(np.exp(middle))) > radius
        few, many = np.where(far, few, middle), np.where(far, middle, many)
    return cut(np.exp(few))


def climb(slopes: ArrayLike, norm: float, share: float = 0.0) -> FloatArray:
    """The step of l_p norm one for projected gradient in a plain l_p ball, from the slopes of each row.

    Steps and projections must be of one geometry, or they settle in the wrong place: with Euclidean projection that is
    the gradient itself. In l∞ the steepest step, its signs, is right as well, since the projection is per coordinate; so is
    one coordinate in l1. There ``share`` spreads the step evenly over that share of the coordinates, those of the
    largest slopes (Tramèr and Boneh 2019).

    >>> climb([[3.0, 4.0]], 2).round(6).tolist(), climb([[3.0, -4.0]], 1).tolist(), climb([[3.0, -4.0]], math.inf).tolist()
    ([[0.6, 0.8]], [[0.0, -1.0]], [[1.0, -1.0]])
    """
    slope = np.asarray(slopes, dtype=float)
    size = np.abs(slope)
    if norm == 1:
        number = max(1, round(share * size.shape[-1]))
        bar = -np.partition(-size, number - 1, axis=-1)[:, number - 1 : number]
        rise = ((size >= bar) & (size > 0)).astype(float)
    else:
        rise = (size > 0).astype(float) if math.isinf(norm) else size
    return to_boundary(np.copysign(rise, slope), lambda rows: p_norm(rows, norm), 1.0)
