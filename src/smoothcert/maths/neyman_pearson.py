"""UniCR as published: Monte-Carlo Neyman–Pearson along a direction, bisection on its length, a swarm over directions.

Works for every density that can be sampled and evaluated, with independent coordinates or not. The radius it finds is an
estimate: the search may miss the worst direction and the draws carry no joint confidence (Hong et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.swarm import PUBLISHED, PUBLISHED_TWO_CLASS, SearchSettings, starts, swarm

LogDensity = Callable[[FloatArray], FloatArray]  # (samples, dim) -> (samples,)
_LARGEST = 2.5e8  # numbers drawn: about two gigabytes


@dataclass(frozen=True)
class Margin:
    """K at one shift: above zero the label holds. The true K lies in [low, high] except with probability alpha."""

    value: float
    low: float
    high: float


def band(samples: int, alpha: float) -> float:
    """How far an empirical distribution function is from the true one, at most, except with probability alpha.

    Dvoretzky, Kiefer and Wolfowitz (1956) with Massart's constant (1990).

    >>> round(band(1000, 0.001), 4)
    0.0616
    """
    return math.sqrt(math.log(2.0 / alpha) / (2.0 * samples))


def margin(
    log_density: LogDensity,
    noise: FloatArray,
    shift: FloatArray,
    lower: float,
    upper: float | None,
    alpha: float = 0.001,
) -> Margin:
    """K of UniCR Eq. 4 at a shift, from draws of the noise; with one class the rival term is one half (Theorem 3).

    The band holds for one shift chosen before the draws: two distribution functions, alpha/2 each.
    """
    here = log_density(noise)
    clean = np.sort(log_density(noise - shift) - here)
    moved = np.sort(here - log_density(noise + shift))
    if np.isnan(clean).any() or np.isnan(moved).any():
        raise SettingError(
            "the log density is NaN at a draw; it must be finite where the law draws, -inf where it never does"
        )
    width = band(noise.shape[0], alpha / 2.0)

    def gap(slack: float, charge: float) -> float:
        kept = _below(moved, _quantile(clean, lower - slack)) - charge
        if upper is None:
            return kept - 0.5
        return kept - (1.0 - _below(moved, _quantile(clean, 1.0 - upper + slack)) + charge)

    return Margin(gap(0.0, 0.0), gap(width, width), gap(-width, -width))


def _quantile(ordered: FloatArray, level: float) -> float:
    """The empirical quantile: infinite outside (0, 1]."""
    if level <= 0.0 or level > 1.0:
        return -math.inf if level <= 0.0 else math.inf
    return float(ordered[min(max(math.ceil(level * ordered.size) - 1, 0), ordered.size - 1)])


def _below(ordered: FloatArray, threshold: float) -> float:
    """The empirical distribution function."""
    return float(np.searchsorted(ordered, threshold, side="right")) / ordered.size


def boundary_scale(margin_at: Callable[[float], float], settings: SearchSettings) -> float:
    """The factor at which |K| <= tolerance (UniCR, Algorithm 2); infinite when doubling never leaves the boundary."""
    low, high = 0.0, 1.0
    for _ in range(settings.doublings):
        if margin_at(high) < 0.0:
            break
        low, high = high, 2.0 * high
    else:
        return math.inf
    for _ in range(settings.halvings):
        middle = 0.5 * (low + high)
        value = margin_at(middle)
        if abs(value) <= settings.tolerance:
            return middle
        low, high = (middle, high) if value > 0.0 else (low, middle)
    return low


def estimated_radius(
    draw: Callable[[int], FloatArray],
    log_density: LogDensity,
    norm: float,
    dim: int,
    lower: float,
    upper: float | None,
    generator: np.random.Generator,
    settings: SearchSettings | None = None,
) -> float:
    """UniCR's radius at unit scale: the shortest flip that a particle swarm finds. An estimate, not a bound.

    >>> normal = lambda z: -0.5 * np.sum(z**2, axis=-1)
    >>> random = np.random.default_rng(0)
    >>> radius = estimated_radius(lambda n: random.standard_normal((n, 2)), normal, 2, 2, 0.9, None, random)
    >>> 1.0 < radius < 1.6
    True
    """
    chosen = settings or (PUBLISHED if upper is None else PUBLISHED_TWO_CLASS)
    if chosen.samples * dim > _LARGEST:
        raise SettingError(
            f"{chosen.samples} draws in {dim} dimensions do not fit; use at most {int(_LARGEST / dim)} samples"
        )
    noise = draw(chosen.samples)

    def cost(direction: FloatArray) -> float:
        length = float(p_norm(direction, norm))
        if length == 0.0:
            return math.inf
        unit = direction / length
        return boundary_scale(lambda scale: margin(log_density, noise, scale * unit, lower, upper).value, chosen)

    return swarm(cost, starts(norm, dim, chosen.particles, generator), chosen, generator).cost
