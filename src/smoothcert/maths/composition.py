"""Upper radii: how far at most can p_A alone certify, shown by an attack along k equal coordinates.

A classifier that wins with probability p_A at the input and loses its majority at distance R proves that no rule can
certify more than R. Here the classifier looks at a statistic T = Σ T(z_i), T a whole number close to the log ratio
log φ(z − t)/φ(z) in lattice steps. Both distributions of T, clean and shifted, are exact, so the discretisation only
makes the attack weaker and the radius larger, never wrong; wrapping round in the Fourier transform is part of T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from smoothcert.maths import Array, FloatArray
from smoothcert.maths.cells import Coordinate, cell_masses, positive_edges

_ROUNDING = 1e-12  # error of a sum of probabilities out of the Fourier transform, charged to the attack
CELLS = 1200
_LONGEST_LOG_RATIO = 60.0
_TAIL_ERROR = 1e-12  # relative error of a tail, charged to the attack
# Closer to a tie, or to certainty, rounding would be a part of the attack: the half-line alone is used.
_NARROWEST, _FARTHEST = 2e-4, 1e-11
_MOST_STEPS = 200.0  # in one standard deviation of the log ratio
_DOUBLINGS = 80


@dataclass(frozen=True, eq=False)
class Attack:
    """A statistic's atoms from the likeliest clean to the likeliest shifted: their two probabilities.

    ``free`` is clean probability where the shifted density is zero: the attack takes it first, at no cost.
    """

    clean: FloatArray
    shifted: FloatArray
    free: float

    def outside_at_half(self) -> float:
        """The least 1 − P(A) over the statistic's sets A whose shifted probability is at most one half.

        Any p up to 1 minus this can be flipped.
        """
        total = np.cumsum(self.shifted)
        at = int(np.searchsorted(total, 0.5 - _ROUNDING))
        if at >= total.size:
            return 0.0
        before = float(total[at - 1]) if at else 0.0
        share = (0.5 - _ROUNDING - before) / max(float(self.shifted[at]), 1e-300)
        return float(self.clean[at] * (1.0 - share) + self.clean[at + 1 :].sum() + _ROUNDING)

    def gap(self, lower: float, upper: float) -> float:
        """Shifted P(A) − P(B): A the set least likely after the shift with clean probability ``lower``, B the most likely
        with ``upper``. Not above zero: the answer flips."""
        falls, rises = np.cumsum(self.clean), np.cumsum(self.clean[::-1])
        kept = np.interp(max(lower - self.free, 0.0), np.append(0.0, falls), np.append(0.0, np.cumsum(self.shifted)))
        won = np.interp(upper, np.append(0.0, rises), np.append(0.0, np.cumsum(self.shifted[::-1])))
        missing = max(0.0, 1.0 - float(self.shifted.sum()))  # where the clean density is zero: the rival's
        return float(kept - won - missing + _ROUNDING)


def coordinate_attack(law: Coordinate, shift: float, edges: FloatArray) -> Attack:
    """The attack that sees in which cell one shifted coordinate lies."""
    ends = [0.0, shift, -edges[-1], edges[-1], shift - edges[-1], shift + edges[-1]]  # corners and supports
    cuts = np.unique(np.concatenate([shift / 2 - edges, shift / 2 + edges, ends]))
    cuts = cuts[np.append(True, np.diff(cuts) > 1e-12 * (1.0 + np.abs(cuts[1:])))]  # thinner cells hold rounding only
    outer = np.concatenate([[-np.inf], cuts, [np.inf]])
    finite = np.where(np.isfinite(outer), outer, np.sign(outer) * 1e300)
    clean, shifted = cell_masses(law, finite), cell_masses(law, finite - shift)
    return _sorted_attack(clean, shifted)


def _sorted_attack(clean: FloatArray, shifted: FloatArray) -> Attack:
    free = float(clean[(shifted <= 0)].sum())
    both = (clean > 0) & (shifted > 0)
    clean, shifted = clean[both], shifted[both]
    order = np.argsort(np.log(shifted) - np.log(clean), kind="stable")
    return Attack(clean[order], shifted[order], free)


def composed_attack(one: Attack, copies: int, points: int = 2**16, fewest: float = 8.0) -> Attack:
    """The attack that sees the sum over ``copies`` coordinates of the log ratio, rounded to a lattice of about ``points``.

    One standard deviation of the ratio has at least ``fewest`` steps: the attack loses 1/(24·fewest²) of its length.
    """
    if copies == 1:
        return one
    ratio = np.clip(np.log(one.shifted) - np.log(one.clean), -_LONGEST_LOG_RATIO, _LONGEST_LOG_RATIO)
    sd = math.sqrt(max(float(np.sum(one.clean * ratio**2)), float(np.sum(one.shifted * ratio**2))))
    free = -math.expm1(copies * math.log1p(-min(one.free, 1.0 - 1e-16)))
    if sd <= 1e-8:  # the ratio is constant where it is finite, as for uniform noise
        return Attack(np.array([one.clean.sum() ** copies]), np.array([one.shifted.sum() ** copies]), free)
    spread = math.sqrt(copies) * sd
    steps = min(max(points / (2 * math.sqrt(copies) * (spread / 2 + 9)), fewest), _MOST_STEPS)
    top = float(np.max(np.abs(ratio)))
    # A bounded ratio, such as Laplace's ±t, falls on the lattice.
    step = top / math.ceil(steps * top / sd) if top < 8 * sd else sd / steps
    size = 2 ** math.ceil(math.log2(max(2 * (spread**2 / 2 + 9 * spread + min(top, 9 * sd)) / step, 64)))
    place = np.rint(ratio / step).astype(np.int64) % size
    clean, shifted = (
        _power(np.asarray(np.bincount(place, mass, size), dtype=float), copies, size)
        for mass in (one.clean, one.shifted)
    )
    return Attack(clean, shifted, free)


def _power(masses: FloatArray, copies: int, size: int) -> FloatArray:
    """The distribution of the sum of independent copies, wrapped round on size points, the most negative first."""
    transform = np.fft.rfft(masses)
    powered = np.ones_like(transform)
    for bit in bin(copies)[2:]:  # by squaring: faster than complex powers, and as exact
        powered = powered * powered
        if bit == "1":
            powered = powered * transform
    return np.maximum(np.fft.fftshift(np.fft.irfft(powered, size)), 0.0)


def directions(dim: int) -> list[int]:
    """How many coordinates to attack: 1, 2, 4, … and all.

    >>> directions(10)
    [1, 2, 4, 8, 10]
    """
    return [*(2**power for power in range(dim.bit_length()) if 2**power < dim), dim]


def flip_length(excess: Callable[[float], float], start: float, tolerance: float) -> float:
    """A length at which ``excess`` >= 0, the smallest up to a relative tolerance; infinite when none is found.

    The returned length was itself tested. Bracketed by factors of two, then false position (Illinois) in its logarithm.
    """
    high, above = start, excess(start)
    low, below = high, above
    for _ in range(_DOUBLINGS):
        if below < 0 <= above:
            break
        if above < 0:
            low, below, high = high, above, 2.0 * high
            above = excess(high)
        else:
            high, above, low = low, below, 0.5 * low
            below = excess(low)
    if above < 0:
        return math.inf
    return _false_position(excess, (low, below), (high, above), tolerance)


def _false_position(
    excess: Callable[[float], float], first: tuple[float, float], last: tuple[float, float], tolerance: float
) -> float:
    (low, below), (high, above) = first, last
    while high > low * (1.0 + tolerance):
        share = below / (below - above) if below < above else 0.5
        middle = low * (high / low) ** min(max(share, 0.02), 0.98)
        value = excess(middle)
        if value >= 0:
            high, above, below = middle, value, below / 2
        else:
            low, below, above = middle, value, above / 2
    return high


def upper_radius(
    law: Coordinate,
    norm: float,
    dim: int,
    lower: float,
    upper: float | None = None,
    copies: list[int] | None = None,
    enough: float = 0.0,
    flips: dict[tuple[int, float, float | None], float] | None = None,
) -> tuple[float, int]:
    """No rule certifies more than this l_norm radius at unit scale from p_A (and p_B) alone; and how many coordinates show it.

    The half-line in one coordinate flips at ½(F⁻¹(p_A) − F⁻¹(p_B)) for every law. The scan ends early once it comes
    within a two-thousandth of ``enough``, a radius known to be certified. ``flips`` keeps the lengths found for the law,
    since they depend neither on the norm nor on the dimension.

    >>> from smoothcert.laws import law_named
    >>> radius, number = upper_radius(law_named("gaussian"), 2, 1, 0.9)
    >>> round(radius, 6), number
    (1.281552, 1)
    """
    edges = positive_edges(law, CELLS)
    rival = 1.0 - lower if upper is None else upper
    best, witness = float(half_line(law, lower, rival)), 1
    if lower - rival < _NARROWEST or rival < _FARTHEST:
        return best, witness
    guess, before = max(best, 1e-9), 1
    flips = {} if flips is None else flips
    for number in _scan(dim) if copies is None else copies:
        if best <= enough * (1.0 + 5e-4):
            break
        key = (number, lower, upper)
        if key not in flips:
            flips[key] = flip_along(law, edges, number, lower, upper, guess * math.sqrt(before / number))
        length = flips[key]
        if not math.isfinite(length):
            continue
        guess, before = length, number
        radius = length * float(number ** (1.0 / norm))
        if radius < best:
            best, witness = radius, number
    return best, witness


def half_line(law: Coordinate, lower: Array, rival: Array) -> FloatArray:
    """½(F⁻¹(p_A) − F⁻¹(p_B)), rounded up: where the half-line in one coordinate flips, elementwise.

    A quantile is no better than the tail it inverts, and near its median the distribution function has 16 digits at best.
    """
    first, second = np.asarray(lower, dtype=float), np.asarray(rival, dtype=float) * (1.0 - _TAIL_ERROR)
    above = -np.asarray(law.quantile((1.0 - first) * (1.0 - _TAIL_ERROR)), dtype=float)
    below = np.asarray(law.quantile(np.minimum(first * (1.0 + _TAIL_ERROR), 0.5)), dtype=float)
    return np.asarray(0.5 * (np.where(first >= 0.5, above, below) - law.quantile(second)))


def _scan(dim: int) -> list[int]:
    """One coordinate, all of them, and then the rest: the two ends are most often the worst."""
    middle = directions(dim)[1:-1]
    return [1, dim, *middle] if dim > 1 else [1]


def flip_along(
    law: Coordinate,
    edges: FloatArray,
    number: int,
    lower: float,
    upper: float | None,
    start: float,
    tolerance: float | None = None,
) -> float:
    """The length in each of ``number`` coordinates at which the label flips, searched from ``start``; it was itself tested."""

    def excess(length: float) -> float:
        attack = composed_attack(coordinate_attack(law, length, edges), number)
        if upper is None:
            return flip_score(attack) - float(ndtri(lower))
        return -attack.gap(lower, upper)

    return flip_length(excess, start, tolerance or (1e-9 if number == 1 else 2e-5))


def flip_score(attack: Attack) -> float:
    """Φ⁻¹ of the largest p_A that the attack flips: close to linear in the length of the shift."""
    return -float(ndtri(max(attack.outside_at_half(), 1e-300)))
