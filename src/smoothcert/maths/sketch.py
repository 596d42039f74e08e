"""A few numbers per point, and per shape, that tell most pairs apart without looking at all coordinates."""

from __future__ import annotations

import math

import numpy as np

from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.overlap import dual

BLOCKS = 128
ROUNDING = 1e-12  # of the squared norms: what float64 may lose in the difference of two sums of squares


def sketch(points: FloatArray) -> FloatArray:
    """Points (entries, dim) as (entries, at most BLOCKS + 1), at distances that are never larger than theirs.

    Coordinates are averaged over contiguous blocks, an orthonormal projection P that keeps most of the distance
    between images (neighbours are alike), and the length of the rest is added: ‖x - y‖² = ‖P(x - y)‖² + ‖Q(x - y)‖² >=
    ‖P(x - y)‖² + (‖Qx‖ - ‖Qy‖)². Up to BLOCKS coordinates are kept as they are.

    >>> x, y = np.random.default_rng(0).normal(size=(2, 1, 1000))
    >>> bool(np.linalg.norm(sketch(x) - sketch(y)) <= np.linalg.norm(x - y)), sketch(x).shape
    (True, (1, 129))
    """
    dim = points.shape[-1]
    if dim <= BLOCKS:
        return np.asarray(points, dtype=float)
    starts, sizes = _blocks(dim)
    means = np.add.reduceat(np.asarray(points, dtype=float), starts, axis=-1) / sizes
    rest = points - np.repeat(means, sizes, axis=-1)
    return np.hstack([means * np.sqrt(sizes), np.linalg.norm(rest, axis=-1, keepdims=True)])


def distance_at_least(sketches: FloatArray, squares: FloatArray, of: FloatArray) -> FloatArray:
    """Lower bounds (entries,) of the plain l2 distances between the stored points and one more, rounded down.

    ``squares`` are the squared norms of the stored sketches: one product of a matrix and a vector does the rest.

    >>> stored = np.array([[3.0, 4.0], [0.0, 1.0]])
    >>> distance_at_least(stored, np.sum(stored**2, axis=1), np.zeros(2)).round(6)
    array([5., 1.])
    """
    total = squares + float(of @ of)
    return np.asarray(np.sqrt(np.maximum(0.0, total * (1 - ROUNDING) - 2 * (sketches @ of))))


def sketch_axes(axes: FloatArray, norm: float) -> FloatArray:
    """Semi-axes (dim,) of a shape as those of one in the space of block averages that reaches as far along each of them.

    Along w, constant on blocks, a shape reaches ‖axes·w‖ in the dual norm: the blocks' own dual norms say it exactly.
    """
    if len(axes) <= BLOCKS:
        return np.asarray(axes, dtype=float)
    starts, sizes = _blocks(len(axes))
    top = np.maximum.reduceat(axes, starts)
    if math.isinf(dual(norm)):
        return np.asarray(top / np.sqrt(sizes))
    share = (axes / np.repeat(np.where(top > 0, top, 1.0), sizes)) ** dual(norm)
    return np.asarray(top * np.add.reduceat(share, starts) ** (1 / dual(norm)) / np.sqrt(sizes))


def sketched_clearance(
    offset: FloatArray, lengths: FloatArray, new_axes: FloatArray, new_norm: float, axes: FloatArray, norm: float
) -> FloatArray:
    """Lower bounds (entries,) of the clear radius, by the plane across the line between the centres' block averages.

    As ``overlap.plane_clearance``, between sketched offsets and axes; ``lengths`` are the centres' norms, of which
    rounding may have taken a part.
    """
    with np.errstate(all="ignore"):
        square, reach = np.sum(offset**2, axis=-1), p_norm(axes * offset, dual(norm))
        slack = square - reach - ROUNDING * (square + reach + lengths * np.sqrt(square))
        factor = slack / p_norm(new_axes * offset, dual(new_norm)) * (1 - ROUNDING)
    return np.where(np.isfinite(factor), factor, -math.inf)


def _blocks(dim: int) -> tuple[IntArray, IntArray]:
    """Where each block of coordinates starts, and how many it has."""
    starts = np.arange(BLOCKS) * dim // BLOCKS
    return starts, np.diff(np.append(starts, dim))
