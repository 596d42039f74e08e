"""Radii from a differential inequality: how fast can the probability of a set fall when the input moves?

For noise with score s = −(log φ)', moving along a direction u changes the probability q of a set by at most
Ξ(q) = sup{E[⟨u, s⟩; A] : P(A) = q} per unit of length, so the class keeps its majority for ∫_{1/2}^{p} dq/Ξ(q).
In l1 the worst direction is one coordinate, in l∞ the sum of all. Ξ is rounded up: scores are replaced by
discrete ones that dominate them in the convex order, which independent sums keep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.maths import FloatArray
from smoothcert.maths.cells import Coordinate, Spread, spread_score

_ROUNDING = 1e-10  # relative error of cell probabilities and sums, charged to Ξ
_FFT_NOISE = 4e-18  # error of one probability out of the Fourier transform, charged for each
_SLACK = 1e-13  # error of a probability, taken off p
_SPANS = 12.0  # half the window of the sum, in its standard deviations; what lies outside is bounded and charged
_STEPS = 20  # lattice steps in one standard deviation of the score: Ξ grows by about 1/(12·400)
_LARGEST_LATTICE = 2**20


@dataclass(frozen=True, eq=False)
class Growth:
    """No set of probability q changes faster than Ξ(q) per unit of distance.

    ``outside`` are 1 − q, increasing from 0, and ``rate`` is Ξ there, linear in between.
    """

    outside: FloatArray
    rate: FloatArray

    @classmethod
    def of(cls, spread: Spread, extra: float = 0.0) -> Growth:
        """Ξ of a discrete score: the largest values first, plus its excess and ``extra``."""
        order = np.argsort(-spread.values, kind="stable")
        values, masses = spread.values[order], spread.masses[order]
        keep = masses > 0
        outside = np.append(0.0, np.cumsum(masses[keep]))
        rate = np.append(0.0, np.cumsum(values[keep] * masses[keep]))
        half = int(np.searchsorted(outside, 0.5, side="right")) + 1
        return cls(outside[:half], (rate[:half] + spread.excess + extra) * (1.0 + _ROUNDING))

    @cached_property
    def _lengths(self) -> FloatArray:
        """∫ dq/Ξ over each linear piece; the first is infinite when Ξ starts at zero."""
        return _piece(np.diff(self.outside), self.rate[:-1], self.rate[1:])

    def radius(self, lower: ArrayLike, upper: ArrayLike | None = None) -> FloatArray:
        """½(G(p_A) − G(p_B)) with G(p) = ∫_{1/2}^{p} dq/Ξ(q); with one class p_B = 1 − p_A and this is G(p_A)."""
        chance = np.asarray(lower, dtype=float)
        if upper is None:
            return self._integral(1.0 - chance + _SLACK)
        rival = np.asarray(upper, dtype=float)
        return 0.5 * (self._signed(chance) - self._signed(rival))

    def _signed(self, chance: FloatArray) -> FloatArray:
        return np.sign(chance - 0.5) * self._integral(np.minimum(chance, 1.0 - chance) + _SLACK)

    def _integral(self, outside: FloatArray) -> FloatArray:
        """∫ dm/Ξ for 1 − q from ``outside`` to 1/2, elementwise."""
        after = np.append(np.cumsum(self._lengths[:0:-1])[::-1], 0.0)  # from the end of each piece to the last node
        at = np.clip(np.searchsorted(self.outside, outside, side="right") - 1, 0, self._lengths.size - 1)
        share = (outside - self.outside[at]) / np.maximum(np.diff(self.outside)[at], 1e-300)
        rate = self.rate[at] + share * (self.rate[at + 1] - self.rate[at])
        total = after[at] + _piece(self.outside[at + 1] - outside, rate, self.rate[at + 1])
        return np.asarray(np.maximum(total - self._overshoot, 0.0))

    @cached_property
    def _overshoot(self) -> float:
        """The part of the last piece that lies beyond 1/2, to be taken off."""
        last = float(self.outside[-1])
        if last <= 0.5:
            return 0.0
        share = (0.5 - self.outside[-2]) / (last - self.outside[-2])
        rate = self.rate[-2] + share * (self.rate[-1] - self.rate[-2])
        return float(_piece(np.array(last - 0.5), np.array(rate), self.rate[-1:])[0])


def _piece(length: FloatArray, first: FloatArray, last: FloatArray) -> FloatArray:
    """∫ dm/Ξ over a piece where Ξ is linear from first to last."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = last / first
        curved = length * np.log(ratio) / (last - first)
        flat = length / (0.5 * (first + last))
    # Where the two ends nearly agree the logarithm loses digits; the harmonic mid-point errs below 1e-12 and is lower.
    return np.asarray(np.where(length <= 0, 0.0, np.where(np.abs(ratio - 1.0) < 1e-6, flat, curved)))


def coordinate_growth(law: Coordinate) -> Growth:
    """Ξ of one score: the differential inequality in l1, for any i.i.d. symmetric law with a continuous density.

    >>> from smoothcert.laws import law_named
    >>> float(coordinate_growth(law_named("pareto:beta=1")).radius(0.9).round(4)), round(0.5 * math.log(9), 4)
    (1.0986, 1.0986)
    """
    return Growth.of(spread_score(law))


def sum_growth(law: Coordinate, dim: int) -> Growth:
    """Ξ of the sum of ``dim`` independent scores: the differential inequality in l∞.

    The score is spread over a lattice, clamped where what is cut off no longer matters, and composed by one Fourier
    transform; the clamped mean, the mass outside the window (Chernoff) and the rounding of the transform are all added.

    >>> from smoothcert.laws import law_named
    >>> float(sum_growth(law_named("gaussian"), 784).radius(0.9).round(4)), round(1.2815516 / 28, 4)
    (0.0458, 0.0458)
    """
    score = spread_score(law)
    sd = _deviation(score)
    if sd == 0.0:  # a density made of jumps alone
        return Growth.of(Spread(np.zeros(2), np.full(2, 0.5), 0.0), dim * score.excess)
    largest, cut = _clamp(score, dim, sd)
    window = min(dim * largest, _SPANS * sd * math.sqrt(dim) + 4.0 * largest)
    step = min(sd / _STEPS, window / 2**13)
    if 2.0 * window / step > _LARGEST_LATTICE:
        step = 2.0 * window / _LARGEST_LATTICE
    size = 2 ** math.ceil(math.log2(2.0 * window / step + 2))
    offsets, masses = _on_lattice(score, largest, step)
    total = _composed(offsets, masses, dim, size)
    places = (np.arange(size) - size // 2) * step
    reach = 0.5 * size * step
    extra = dim * (cut + score.excess) + _wrapped(offsets * step, masses, dim, reach) + _FFT_NOISE * size * reach
    return Growth.of(Spread(places, total, 0.0), extra)


def _deviation(score: Spread) -> float:
    """A standard deviation of the score, without its most extreme billionth (a cusp may have no variance)."""
    order = np.argsort(np.abs(score.values))
    inner = np.cumsum(score.masses[order]) <= 1.0 - 1e-9
    values, masses = score.values[order][inner], score.masses[order][inner]
    return math.sqrt(float(np.sum(masses * values**2)))


def _clamp(score: Spread, dim: int, sd: float) -> tuple[float, float]:
    """Where to clamp the score, and the mean E[(s − clamp)⁺] that this cuts off."""
    order = np.argsort(score.values)
    values, masses = score.values[order], score.masses[order]
    mass_above = np.cumsum(masses[::-1])[::-1]
    mean_above = np.cumsum((values * masses)[::-1])[::-1]
    cut = np.maximum(mean_above - values * mass_above, 0.0)  # E[(s − v)⁺] at each value v
    longest = sd * max(40.0, 12.0 * math.sqrt(dim))
    good = (values > 0) & (masses > 0) & ((cut <= 1e-14 * sd / math.sqrt(dim)) | (values > longest))
    at = int(np.argmax(good))
    if values[at] > longest:  # a cusp: clamp at what the window can hold, and pay for the rest
        return longest, float(np.sum(masses * np.maximum(values - longest, 0.0)))
    return float(values[at]), float(cut[at])


def _on_lattice(score: Spread, largest: float, step: float) -> tuple[FloatArray, FloatArray]:
    """The clamped score on multiples of ``step``, each value split between its neighbours with the same mean."""
    place = np.clip(score.values, -largest, largest) / step
    below = np.floor(place)
    share = place - below
    reach = math.ceil(largest / step) + 1
    index = below.astype(np.int64) + reach
    left = np.bincount(index, score.masses * (1.0 - share), 2 * reach + 2)
    right = np.bincount(index + 1, score.masses * share, 2 * reach + 2)
    return np.arange(2 * reach + 2, dtype=float) - reach, np.asarray(left + right, dtype=float)


def _composed(offsets: FloatArray, masses: FloatArray, dim: int, size: int) -> FloatArray:
    """The distribution of the sum of ``dim`` such variables on size points centred at zero, wrapped round at the ends."""
    circle = np.bincount(offsets.astype(np.int64) % size, masses, size)
    transform = np.fft.rfft(circle / circle.sum()).real  # symmetric, so the transform is real
    return np.maximum(np.fft.fftshift(np.fft.irfft(transform ** float(dim), size)), 0.0)


def _wrapped(values: FloatArray, masses: FloatArray, dim: int, reach: float) -> float:
    """A bound on what wrapping can hide: 2·E[S; S > reach] <= 2·reach·min_λ exp(d·log E e^{λs} − λ·reach), λ·reach >= 1."""
    if dim * float(np.max(np.abs(values[masses > 0]))) <= reach:
        return 0.0
    tilts = np.geomspace(1.0, 400.0, 80) / reach
    exponents = np.log(np.maximum(masses, 1e-300)) + tilts[:, None] * values
    top = exponents.max(axis=1)
    log_moment = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    return 2.0 * reach * math.exp(min(0.0, float(np.min(dim * log_moment - tilts * reach))))
