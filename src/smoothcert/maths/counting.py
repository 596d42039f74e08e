"""Finite views: how many of them may change before the answer does, in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.maths import IntArray


def counted_reach(counts: ArrayLike) -> tuple[IntArray, IntArray]:
    """The winner of complete votes (..., classes), the first of equals, and how many views may change while it stays.

    ρ = min over B≠A of ⌊(n_A − n_B − [B < A])/2⌋: a changed view takes one vote from A at most and gives one to B at most,
    and n_A − ρ >= n_B + ρ + [B < A] keeps A ahead (the argument of Levine and Feizi 2020, Thm 1, with ties). Views that
    abstain vote for nobody: they are in no count. No larger number is true of every classifier with these votes.

    >>> [tuple(map(int, counted_reach(votes))) for votes in ([300, 150, 60], [150, 300, 60], [7, 7, 0])]
    [(0, 75), (1, 74), (0, 0)]
    """
    table = np.asarray(counts, dtype=np.int64)
    winner = np.asarray(table.argmax(axis=-1))
    classes = np.arange(table.shape[-1])
    own = classes == winner[..., None]
    ahead = np.take_along_axis(table, winner[..., None], axis=-1) - table - (classes < winner[..., None])
    # The winner is no rival of its own: it is given a lead that no rival reaches.
    return winner, np.asarray(np.where(own, np.iinfo(np.int64).max, ahead).min(axis=-1) // 2)


def sampled_reach(lower: float, upper: float, views: int) -> int:
    """How many of all ``views`` may change when they were sampled: the most m with lower − upper > 2m/views; −1 if none.

    The class wins a random view with probability >= lower and any rival with <= upper; a threat that changes a share π of
    the views moves each by at most π. Exact: floats are fractions, and views may be a number of any size.

    >>> sampled_reach(0.75, 0.25, 100), sampled_reach(0.75, 0.25, 101), sampled_reach(0.5, 0.5, 100)
    (24, 25, -1)
    """
    return math.ceil((Fraction(lower) - Fraction(upper)) * views / 2) - 1 if lower > upper else -1


def subsets_met(dim: int, keep: int, replaced: int) -> int:
    """How many subsets of ``keep`` of ``dim`` coordinates hold at least one of ``replaced`` given ones.

    >>> subsets_met(8, 3, 2) / math.comb(8, 3)
    0.6428571428571429
    """
    return math.comb(dim, keep) - math.comb(max(dim - replaced, 0), keep)


def met_on_ring(ring: int, width: int, size: int) -> int:
    """How many of the ``ring`` arcs of this width (one from each place) meet an arc of this size.

    >>> met_on_ring(28, 4, 5), met_on_ring(28, 4, 0), met_on_ring(28, 4, 28)
    (8, 0, 28)
    """
    return min(ring, size + width - 1) if size else 0


def chunks_met(length: int, chunk: int, size: int) -> int:
    """How many of the chunks that cut ``length`` places, without overlap, meet ``size`` places in a row.

    >>> [chunks_met(100, 8, size) for size in (0, 1, 2, 9, 10, 100)]
    [0, 1, 2, 2, 3, 13]
    """
    return min(-(-length // chunk), -(-(size - 1) // chunk) + 1) if size else 0


def largest_size(touched: Callable[[int], int], most: int, reach: int) -> int:
    """The largest size up to ``most`` of a threat that touches no more than ``reach`` views; touched never falls.

    >>> largest_size(lambda side: side + 3 if side else 0, 28, reach=8), largest_size(lambda side: 4 * side, 28, reach=3)
    (5, 0)
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if touched(middle) <= reach else (low, middle - 1)
    return low


def rounded_down(value: Fraction) -> float:
    """The largest float that is not above the fraction.

    >>> Fraction(rounded_down(Fraction(1, 3))) <= Fraction(1, 3), rounded_down(Fraction(3, 4))
    (True, 0.75)
    """
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
