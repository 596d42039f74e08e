"""UniCR as published, against exact values within its confidence band."""

import math

import numpy as np
import pytest

from smoothcert.errors import SettingError
from smoothcert.laws import NumpyDraws, law_named
from smoothcert.maths.cells import positive_edges
from smoothcert.maths.composition import coordinate_attack
from smoothcert.maths.neyman_pearson import band, boundary_scale, estimated_radius, margin
from smoothcert.maths.swarm import PUBLISHED, PUBLISHED_TWO_CLASS, SearchSettings, starts, swarm


def _log_density(spec: str):
    law = law_named(spec)
    return lambda z: np.asarray(law.log_prob(z)).sum(axis=-1)


@pytest.mark.parametrize("spec", ["gaussian", "hyperbolic_secant", "cauchy", "generalized_normal:beta=3"])
@pytest.mark.parametrize("upper", [None, 0.05])
def test_the_band_holds_the_exact_margin(spec: str, upper: float | None) -> None:
    """False-alarm rate 1e-6 each."""
    law = law_named(spec)
    noise = law.sample((20_000, 3), NumpyDraws(np.random.default_rng(11)))
    shift = np.array([0.0, 0.8, 0.0])
    found = margin(_log_density(spec), noise, shift, 0.9, upper, alpha=1e-6)
    exact_test = coordinate_attack(law, 0.8, positive_edges(law, 1200))
    kept = float(np.interp(0.9, np.cumsum(exact_test.clean), np.cumsum(exact_test.shifted)))
    exact = kept - 0.5 if upper is None else exact_test.gap(0.9, upper)
    assert found.low <= exact <= found.high
    assert found.low <= found.value <= found.high
    assert found.high - found.low < 0.3


def test_gaussian_estimate() -> None:
    """The published settings come near Φ⁻¹(.9) = 1.28 (|K| <= .01 alone allows some .05)."""
    random = np.random.default_rng(5)
    settings = SearchSettings(samples=4000)
    found = estimated_radius(
        lambda n: random.standard_normal((n, 20)), _log_density("gaussian"), 2, 20, 0.9, None, random, settings
    )
    assert 1.1 < found < 1.4


def test_two_class_estimate() -> None:
    random = np.random.default_rng(6)
    settings = SearchSettings(particles=2, iterations=1, samples=4000)
    found = estimated_radius(
        lambda n: random.standard_normal((n, 4)), _log_density("gaussian"), 2, 4, 0.6, 0.2, random, settings
    )
    assert 0.4 < found < 0.7


def test_a_density_that_is_no_product() -> None:
    """The spherical Laplace-like density exp(−‖z‖)/const in two dimensions, by its radius ~ Gamma(2)."""
    random = np.random.default_rng(7)

    def draw(number: int) -> np.ndarray:
        direction = random.standard_normal((number, 2))
        return direction / np.linalg.norm(direction, axis=1, keepdims=True) * random.gamma(2.0, size=(number, 1))

    found = estimated_radius(draw, lambda z: -np.linalg.norm(z, axis=-1), math.inf, 2, 0.9, None, random)
    assert 0.5 < found < 3.0


def test_the_search_ends_when_nothing_flips() -> None:
    assert math.isinf(boundary_scale(lambda scale: 1.0, PUBLISHED))


def test_nan_is_refused() -> None:
    with pytest.raises(SettingError, match="NaN"):
        margin(lambda z: np.full(z.shape[0], np.nan), np.zeros((10, 2)), np.ones(2), 0.9, None)


def test_too_many_draws_are_refused() -> None:
    random = np.random.default_rng(0)
    with pytest.raises(SettingError, match="do not fit"):
        estimated_radius(lambda n: np.zeros((n, 1)), lambda z: z[:, 0], 2, 10**6, 0.9, None, random)


@pytest.mark.parametrize("wrong", [{"particles": 0}, {"samples": 0}, {"tolerance": 0.0}, {"halvings": 0}])
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        SearchSettings(**wrong)


def test_published_settings() -> None:
    assert (PUBLISHED.particles, PUBLISHED.iterations, PUBLISHED_TWO_CLASS.particles) == (4, 3, 10)
    assert (PUBLISHED.cognitive, PUBLISHED.social, PUBLISHED.inertia) == (0.5, 0.3, 0.9)
    assert band(400, 2 * math.exp(-2 * 400 * 0.01)) == pytest.approx(0.1)


def test_starts() -> None:
    random = np.random.default_rng(0)
    sparse, dense = starts(2, 10, 4, random), starts(math.inf, 10, 4, random)
    assert np.all((sparse != 0).sum(axis=1) == 1)
    assert np.all(dense == dense[:, :1])


def test_the_swarm_never_loses_its_best() -> None:
    seen = []

    def cost(x: np.ndarray) -> float:
        seen.append(float(np.sum(x**2)))
        return seen[-1]

    found = swarm(cost, np.ones((3, 2)), PUBLISHED, np.random.default_rng(1))
    assert found.cost == min(seen) == pytest.approx(float(np.sum(found.position**2)))
