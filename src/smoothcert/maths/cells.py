"""One coordinate of a symmetric law cut into cells, each with its exact probability and its mean score.

Letters: φ the density, s = −(log φ)' the score. A cell [a, b] has mean score φ(a) − φ(b) over its probability, whatever
happens inside it, so a cusp at zero costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from smoothcert.maths import Array, FloatArray

_FARTHEST = 1e-18  # tail probability of the outermost edge
_NEAREST = 1e-12  # the first edge, as a part of the second


class Coordinate(Protocol):
    """What the engines need to know about one coordinate of a symmetric law; every Law has it."""

    def log_prob(self, z: Array) -> Array:
        """The log density, elementwise."""

    def tail(self, z: Array) -> Array:
        """P(Z > z), elementwise."""

    def quantile(self, p: Array) -> Array:
        """The inverse of the distribution function, elementwise."""

    def score(self, z: Array) -> Array:
        """Minus the derivative of the log density, elementwise."""


@dataclass(frozen=True, eq=False)
class Spread:
    """A discrete variable that dominates the score in the convex order, up to an ``excess`` of mean at no probability.

    Every concentration of the score, E[s; A] over sets A of a given probability, is at most this variable's plus excess.
    """

    values: FloatArray
    masses: FloatArray
    excess: float


def positive_edges(law: Coordinate, count: int) -> FloatArray:
    """Edges from 0 outwards: even in probability, then in the logarithm of the tail, with a few close to zero."""
    even = np.linspace(0.5, 0.02, count)[1:]
    far = np.geomspace(0.02, _FARTHEST, count // 2)[1:]
    outer = -np.asarray(law.quantile(np.concatenate([even, far])), dtype=float)
    outer = np.unique(outer[np.isfinite(outer) & (outer > 0)])
    near = outer[0] * np.geomspace(_NEAREST, 1.0, count // 8)[:-1]
    return np.concatenate([[0.0], near, outer])


def cell_masses(law: Coordinate, edges: FloatArray) -> FloatArray:
    """The probability of each cell between increasing edges, each from the nearer tail so that small ones stay exact."""
    outside = np.asarray(law.tail(np.abs(edges)), dtype=float)
    low, high = outside[:-1], outside[1:]
    straddles = (edges[:-1] < 0) & (edges[1:] > 0)
    one_sided = np.where(edges[:-1] >= 0, low - high, high - low)
    return np.asarray(np.maximum(np.where(straddles, 1.0 - low - high, one_sided), 0.0))


def spread_score(law: Coordinate, count: int = 3000) -> Spread:
    """The score spread over the ends of its range in each cell, keeping each cell's mean: never less concentrated.

    Where the density falls by more than the score explains it jumps, and the jump is excess: a set placed against the
    jump gains all of it, and no set gains more.

    >>> from smoothcert.laws import law_named
    >>> spread_score(law_named("uniform")).excess
    0.5
    """
    edges = positive_edges(law, count)
    masses = cell_masses(law, edges)
    density = np.exp(np.asarray(law.log_prob(edges), dtype=float))
    low, high = _score_range(law, edges)
    gain = density[:-1] - density[1:]
    width = np.maximum(high - low, 1e-300)
    upper = np.clip((gain - low * masses) / width, 0.0, masses)
    values, weights = np.concatenate([low, high]), np.concatenate([masses - upper, upper])
    unexplained = np.maximum(gain - high * masses, 0.0) + np.maximum(low * masses - gain, 0.0)
    jumps = float(np.sum(np.where(unexplained > 1e-9 * density[:-1], unexplained, 0.0)))
    beyond = float(law.tail(edges[-1]))
    # Outside the last edge: the mass sits at zero, the mean φ(edge) is all excess.
    return Spread(
        np.concatenate([values, -values, [0.0]]),
        np.concatenate([weights, weights, [2.0 * beyond]]),
        float(density[-1]) + jumps,
    )


def _score_range(law: Coordinate, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least and the largest score in each cell, taken just inside its ends; wider where the score turns round."""
    start = np.maximum(edges[:-1] * (1 + 1e-9), 1e-250)
    samples = np.stack([law.score(start), law.score(0.5 * (edges[:-1] + edges[1:])), law.score(edges[1:] * (1 - 1e-9))])
    samples = np.nan_to_num(samples, nan=0.0, posinf=1e250, neginf=-1e250)
    low, high = samples.min(axis=0), samples.max(axis=0)
    rises = np.sign(samples[2] - samples[0])
    turns = (samples[1] - samples[0]) * (samples[2] - samples[1]) < 0
    turns[1:] |= rises[1:] * rises[:-1] < 0
    turns[:-1] |= rises[1:] * rises[:-1] < 0
    margin = np.where(turns, high - low, 0.0)
    return low - margin, high + margin
