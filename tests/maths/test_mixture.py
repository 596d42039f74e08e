"""The certificate of Gaussian mixtures: below the true distance for every half-space, and tight where it should be."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from smoothcert.errors import SettingError
from smoothcert.maths.mixture import mixture_radius, mixture_scale


def test_no_half_space_flips_inside_the_region() -> None:
    """2 000 random mixtures and half-spaces: the point where the probability falls to one half lies outside."""
    random = np.random.default_rng(0)
    least = math.inf
    for _ in range(2_000):
        weights = random.dirichlet(np.ones(3))
        scales = random.uniform(0.05, 3.0, size=(3, 4))
        normal, margin = random.normal(size=4), random.uniform(0.01, 3.0)
        spread = np.sqrt((scales**2) @ normal**2)  # of normal·ε in each component
        p = float(weights @ norm.cdf(margin / spread))
        scale, radius = mixture_scale(weights, scales), mixture_radius(p, 1 - p)
        reach = radius * float(np.linalg.norm(scale * normal))  # how far the region goes towards the plane
        least = min(least, margin / reach)
    assert least >= 1.0
    assert least < 1.05, "this test could not see a radius inflated by 5 %"


def test_no_set_changes_faster_than_claimed() -> None:
    """One coordinate, sets of any number of intervals: their probability moves by at most √(δᵀMδ)/√(2π)."""
    random = np.random.default_rng(1)
    weights, scales = np.array([0.3, 0.7]), np.array([[0.4], [1.7]])
    scale = float(mixture_scale(weights, scales)[0])
    for _ in range(500):
        edges = np.sort(random.normal(scale=2.0, size=2 * int(random.integers(1, 6))))

        def mass(shift: float, edges: np.ndarray = edges) -> float:
            below = weights @ norm.cdf((edges[None] - shift) / scales)
            return float((below[1::2] - below[::2]).sum())

        shift = float(random.exponential(0.5))
        assert abs(mass(shift) - mass(0.0)) <= shift / scale / math.sqrt(2 * math.pi) + 1e-12


def test_one_component_is_below_the_gaussian_radius_and_touches_it_at_one_half() -> None:
    for p in (0.5001, 0.6, 0.9, 0.999):
        exact = brentq(lambda r, p=p: norm.cdf(r) - p, 0, 10)
        assert mixture_radius(p, 1 - p) <= exact + 1e-9
    assert mixture_radius(0.5001, 0.4999) == pytest.approx(norm.ppf(0.5001), rel=1e-6)
    assert mixture_radius(0.4, 0.5) == 0.0


@pytest.mark.parametrize(
    ("weights", "scales"), [([0.5, 0.6], [1, 2]), ([1.0], [1, 2]), ([0.5, 0.5], [1, 0]), ([-1.0, 2.0], [1, 1])]
)
def test_no_mixture(weights: list[float], scales: list[float]) -> None:
    with pytest.raises(SettingError):
        mixture_scale(weights, scales)
