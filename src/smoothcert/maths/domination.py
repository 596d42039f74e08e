"""An l2 radius for any law whose score is no more spread out than a Gaussian.

If the score s of one coordinate is dominated by c·g in the convex order, g standard normal, then so is ⟨u, s⟩ for every
unit vector u (independent sums keep the order), so no set of probability q changes faster than c·φ(Φ⁻¹(q)) in any
direction, and the differential inequality integrates to the l2 radius Φ⁻¹(p)/c. For Laplace noise c = √(π/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from smoothcert.maths import FloatArray
from smoothcert.maths.cells import Coordinate, Spread, spread_score

_CUTS = (1e-17, 1e-14, 1e-11, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)  # E[(s − clamp)⁺]: a light one costs a larger c
_STRIKES = 3000
_PIECES = 2000


@dataclass(frozen=True)
class Domination:
    """The score, clamped, is dominated by ``factor`` times a standard normal; the clamp cut off a mean of ``cut``."""

    factor: float
    cut: float


def dominations(law: Coordinate) -> list[Domination]:
    """Gaussian dominations of one score, from the tightest clamp to the loosest; each of them is valid.

    >>> from smoothcert.laws import law_named
    >>> round(dominations(law_named("laplace"))[0].factor, 4), round(math.sqrt(math.pi / 2), 4)
    (1.2533, 1.2533)
    """
    score = spread_score(law)
    order = np.argsort(score.values)
    values, masses = score.values[order], score.masses[order]
    found: list[Domination] = []
    for cut in _CUTS:
        clamp, lost = _clamp(values, masses, cut)
        if not found or lost > 2.0 * found[-1].cut:
            found.append(Domination(_factor(values, masses, clamp), lost + score.excess))
    return found


def l2_radius(choices: list[Domination], dim: int, lower: ArrayLike, upper: ArrayLike | None = None) -> FloatArray:
    """The best of ∫_{1/2}^{p} dq/(c·φ(Φ⁻¹(q)) + √d·cut) over the dominations, elementwise; two classes as in §Growth.

    >>> from smoothcert.laws import law_named
    >>> l2_radius(dominations(law_named("laplace")), 3072, [0.9]).round(4).tolist()
    [1.0225]
    """
    first = ndtri(np.asarray(lower, dtype=float))
    second = -first if upper is None else ndtri(np.asarray(upper, dtype=float))
    reach = float(np.max(np.abs(np.concatenate([np.ravel(first), np.ravel(second)]))))
    best = np.zeros(np.shape(first))
    for each in choices:
        grid, length = _lengths(each, dim, reach)
        signed = [np.sign(x) * np.interp(np.abs(x), grid, length) for x in (first, second)]
        best = np.maximum(best, 0.5 * (signed[0] - signed[1]))
    return best


def _lengths(choice: Domination, dim: int, reach: float) -> tuple[FloatArray, FloatArray]:
    """∫_0^x dx/(c + √d·cut/φ(x)) on a grid of x, from below: the integrand falls, so right ends are taken.

    The integral is concave in x, and so linear interpolation stays below it.
    """
    grid = np.linspace(0.0, max(reach, 1e-6), _PIECES + 1)
    density = np.exp(-0.5 * grid**2) / math.sqrt(2 * math.pi)
    slope = 1.0 / (choice.factor + math.sqrt(dim) * choice.cut / density)
    return grid, np.append(0.0, np.cumsum(slope[1:] * np.diff(grid)))


def _clamp(values: FloatArray, masses: FloatArray, cut: float) -> tuple[float, float]:
    """The smallest value beyond which at most ``cut`` of mean lies, and how much lies there."""
    above = np.cumsum(masses[::-1])[::-1]
    mean = np.cumsum((values * masses)[::-1])[::-1]
    lost = np.maximum(mean - values * above, 0.0)
    at = int(np.argmax((values > 0) & (lost <= cut)))
    return float(values[at]), float(np.sum(masses * np.maximum(values - values[at], 0.0)))


def _factor(values: FloatArray, masses: FloatArray, clamp: float) -> float:
    """The least c with E[(s − K)⁺] <= E[(c·g − K)⁺] for every K >= 0; negative K follow by symmetry.

    Between two strikes the left side is below its chord; the right side is at least its chord less an eighth of the
    squared gap times its largest second derivative, φ(K/c)/c at the nearer end.
    """
    clipped = np.clip(values, -clamp, clamp)
    strikes = np.linspace(0.0, clamp, _STRIKES)
    needed = _stop_loss(Spread(clipped, masses, 0.0), strikes)
    gap = clamp / (_STRIKES - 1)
    low, high = 0.0, max(4.0 * clamp, 1e-9)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if np.all(_gaussian_call(middle, strikes, gap) >= needed) else (middle, high)
    return high * (1.0 + 1e-9)


def _gaussian_call(factor: float, strikes: FloatArray, gap: float) -> FloatArray:
    """E[(c·g − K)⁺] less the margin for strikes in between."""
    at, before = strikes / factor, np.maximum(strikes - gap, 0.0) / factor
    density = np.exp(-0.5 * np.square(np.stack([at, before]))) / math.sqrt(2 * math.pi)
    return np.asarray(factor * (density[0] - at * ndtr(-at)) - (gap / factor) * gap / 8.0 * density[1])


def _stop_loss(score: Spread, strikes: FloatArray) -> FloatArray:
    """E[(s − K)⁺] at each strike, for sorted values."""
    above = np.append(np.cumsum(score.masses[::-1])[::-1], 0.0)
    mean = np.append(np.cumsum((score.values * score.masses)[::-1])[::-1], 0.0)
    at = np.searchsorted(score.values, strikes, side="right")
    return np.asarray(np.maximum(mean[at] - strikes * above[at], 0.0))
