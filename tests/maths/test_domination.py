"""The Gaussian domination of scores, and the l2 radius it proves."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from smoothcert.laws import law_named
from smoothcert.maths.composition import upper_radius
from smoothcert.maths.domination import dominations, l2_radius

BOUNDED = ["laplace", "hyperbolic_secant", "cauchy", "pareto:beta=1", "pareto:beta=3", "laplace_gaussian"]


@pytest.mark.parametrize(("spec", "factor"), [("laplace", math.sqrt(math.pi / 2)), ("gaussian", 1.0)])
def test_known_factors(spec: str, factor: float) -> None:
    assert dominations(law_named(spec))[0].factor == pytest.approx(factor, rel=2e-5)


@pytest.mark.parametrize(
    "spec",
    [*BOUNDED, "gaussian", "generalized_normal:beta=1.5", "generalized_normal:beta=3", "exponential_mixture"],
)
def test_the_factor_is_at_least_what_one_strike_and_the_variance_ask(spec: str) -> None:
    law = law_named(spec)
    factor = dominations(law)[0].factor
    assert factor >= math.sqrt(2 * math.pi) * math.exp(float(law.log_prob(0.0))) * (1 - 1e-9)
    sample = law.score(np.asarray(law.quantile((np.arange(20_000) + 0.5) / 20_000)))
    assert factor >= math.sqrt(float(np.mean(sample**2))) * (1 - 1e-3)


def test_gaussian_radius_is_nearly_exact() -> None:
    chances = np.array([0.6, 0.9, 0.99])
    found = l2_radius(dominations(law_named("gaussian")), 3072, chances)
    assert np.all(found <= ndtri(chances))
    np.testing.assert_allclose(found, ndtri(chances), rtol=1e-4)


@pytest.mark.parametrize("spec", [*BOUNDED, "generalized_normal:beta=0.75", "generalized_normal:beta=3"])
@pytest.mark.parametrize("dim", [1, 2, 64])
def test_never_above_an_attack(spec: str, dim: int) -> None:
    law = law_named(spec)
    found = l2_radius(dominations(law), dim, np.array([0.51, 0.9]))
    for p, radius in zip((0.51, 0.9), found, strict=True):
        assert radius <= upper_radius(law, 2, dim, p)[0]


def test_two_classes() -> None:
    choices = dominations(law_named("laplace"))
    found = l2_radius(choices, 10, 0.6, 0.2)
    assert float(found) == pytest.approx(0.5 * (ndtri(0.6) - ndtri(0.2)) / math.sqrt(math.pi / 2), rel=1e-6)
