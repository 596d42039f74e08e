"""Particle swarm over directions (Kennedy and Eberhart 1995), with the settings UniCR published."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray


@dataclass(frozen=True)
class SearchSettings:
    """How hard to search; the defaults are UniCR's for one class (Hong et al. 2022, Appendix C)."""

    particles: int = 4
    iterations: int = 3
    cognitive: float = 0.5
    social: float = 0.3
    inertia: float = 0.9
    samples: int = 1000
    tolerance: float = 0.01
    doublings: int = 20
    halvings: int = 20

    def __post_init__(self) -> None:
        for name in ("particles", "iterations", "samples", "doublings", "halvings"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)} must be a whole number from 1 up")
        if not 0.0 < self.tolerance < 0.5:
            raise SettingError(f"tolerance={self.tolerance} must lie between 0 and 0.5; the published one is 0.01")


PUBLISHED = SearchSettings()
PUBLISHED_TWO_CLASS = SearchSettings(particles=10)


@dataclass(frozen=True, eq=False)
class Found:
    """The cheapest position a swarm visited."""

    position: FloatArray
    cost: float


def starts(norm: float, dim: int, particles: int, generator: np.random.Generator) -> FloatArray:
    """UniCR's first positions: one coordinate for finite p, all coordinates for l∞, at a small random length."""
    size = generator.uniform(0.01, 0.1, particles)
    if math.isinf(norm):
        return np.repeat(size[:, None], dim, axis=1)
    positions = np.zeros((particles, dim))
    positions[np.arange(particles), generator.integers(0, dim, particles)] = size
    return positions


def swarm(
    cost: Callable[[FloatArray], float], first: FloatArray, settings: SearchSettings, generator: np.random.Generator
) -> Found:
    """The cheapest position that a particle swarm visits from ``first``, (particles, dim).

    >>> settings, random = SearchSettings(iterations=30), np.random.default_rng(0)
    >>> swarm(lambda x: float(np.sum((x - 1) ** 2)), np.full((20, 2), 0.1), settings, random).cost < 0.01
    True
    """
    position = first.copy()
    length = np.linalg.norm(first, axis=1, keepdims=True) + 1e-3
    speed = generator.standard_normal(first.shape) * length / math.sqrt(first.shape[1])
    own = position.copy()
    own_cost = np.array([cost(each) for each in position])
    for _ in range(settings.iterations):
        leader = own[int(np.argmin(own_cost))]
        pull, push = generator.random(first.shape), generator.random(first.shape)
        speed = settings.inertia * speed + settings.cognitive * pull * (own - position)
        speed += settings.social * push * (leader - position)
        position = position + speed
        costs = np.array([cost(each) for each in position])
        better = costs < own_cost
        own[better], own_cost[better] = position[better], costs[better]
    best = int(np.argmin(own_cost))
    return Found(own[best], float(own_cost[best]))
