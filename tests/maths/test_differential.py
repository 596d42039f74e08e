"""The differential inequality against closed forms, limits and itself."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from smoothcert.laws import law_named
from smoothcert.maths.cells import cell_masses, positive_edges, spread_score
from smoothcert.maths.differential import Growth, coordinate_growth, sum_growth
from smoothcert.testing.laws import EXAMPLES

CHANCES = np.array([0.51, 0.6, 0.9, 0.99, 0.999, 1 - 1e-7])
LOG_CONCAVE = [spec for spec in EXAMPLES if law_named(spec).log_concave]
OTHERS = [spec for spec in EXAMPLES if not law_named(spec).log_concave]


@pytest.mark.parametrize("spec", LOG_CONCAVE)
def test_one_coordinate_is_the_quantile_for_log_concave_laws(spec: str) -> None:
    law = law_named(spec)
    found, exact = coordinate_growth(law).radius(CHANCES), law.quantile(CHANCES)
    assert np.all(found <= exact * (1 + 1e-12))
    np.testing.assert_allclose(found, exact, rtol=2e-5)


@pytest.mark.parametrize("spec", OTHERS)
def test_one_coordinate_never_exceeds_the_half_line(spec: str) -> None:
    law = law_named(spec)
    assert np.all(coordinate_growth(law).radius(CHANCES) <= law.quantile(CHANCES) * (1 + 1e-12))


@pytest.mark.parametrize(
    ("spec", "radius"),
    [("cauchy", 1.843), ("generalized_normal:beta=0.75", 1.475), ("pareto:beta=1", 0.5 * math.log(9))],
)
def test_known_values_at_p_nine_tenths(spec: str, radius: float) -> None:
    assert float(coordinate_growth(law_named(spec)).radius(0.9)) == pytest.approx(radius, abs=5e-4)


def test_pareto_has_a_logit() -> None:
    found = coordinate_growth(law_named("pareto:beta=1")).radius(CHANCES)
    np.testing.assert_allclose(found, 0.5 * np.log(CHANCES / (1 - CHANCES)), rtol=1e-5)


@pytest.mark.parametrize("spec", [spec for spec in EXAMPLES if spec != "uniform" and "beta=0.5" not in spec])
def test_a_sum_of_one_is_one_coordinate(spec: str) -> None:
    law = law_named(spec)
    np.testing.assert_allclose(
        sum_growth(law, 1).radius(CHANCES[:5]), coordinate_growth(law).radius(CHANCES[:5]), rtol=1e-4
    )


@pytest.mark.parametrize("spec", ["gaussian", "laplace", "hyperbolic_secant", "generalized_normal:beta=3", "cauchy"])
def test_a_large_sum_has_the_fisher_limit(spec: str) -> None:
    law = law_named(spec)
    score = spread_score(law)
    information = float(np.sum(score.masses * score.values**2))
    found = sum_growth(law, 150_528).radius(CHANCES)
    np.testing.assert_allclose(found, ndtri(CHANCES) / math.sqrt(150_528 * information), rtol=4e-4)


@pytest.mark.parametrize("dim", [2, 10, 784, 3072])
def test_gaussian_sums_are_exact(dim: int) -> None:
    found, exact = sum_growth(law_named("gaussian"), dim).radius(CHANCES), ndtri(CHANCES) / math.sqrt(dim)
    assert np.all(found <= exact)
    np.testing.assert_allclose(found, exact, rtol=4e-4)


def test_laplace_sums_are_binomial() -> None:
    """The sum of three signs: Ξ(q) = 1.5(1 − q)·… by hand, at q = 7/8 the set {+++} gains 3/8."""
    growth = sum_growth(law_named("laplace"), 3)
    assert float(np.interp(0.125, growth.outside, growth.rate)) == pytest.approx(0.375, rel=1e-6)
    assert float(np.interp(0.5, growth.outside, growth.rate)) == pytest.approx(0.75, rel=1e-6)


def test_the_fisher_limit_is_no_bound() -> None:
    law = law_named("generalized_normal:beta=3")
    limit = float(ndtri(0.99)) / math.sqrt(10 * 9 * math.gamma(5 / 3) / math.gamma(1 / 3))
    assert limit / law.std == pytest.approx(0.6914, abs=1e-4)
    assert float(sum_growth(law, 10).radius(0.99)) / law.std < 0.6893


def test_jumps_are_excess() -> None:
    """Uniform noise: the l1 rule 2(p − ½) comes out, and in l∞ something below the exact rule."""
    law = law_named("uniform")
    np.testing.assert_allclose(coordinate_growth(law).radius(CHANCES), 2 * (CHANCES - 0.5), rtol=1e-8)
    exact = law.radii[math.inf].radius(CHANCES, 1 - CHANCES, 10)
    assert np.all(sum_growth(law, 10).radius(CHANCES) <= exact)


def test_two_classes() -> None:
    growth = coordinate_growth(law_named("laplace"))
    law = law_named("laplace")
    for first, second in [(0.6, 0.2), (0.4, 0.2), (0.8, 0.1)]:
        assert float(growth.radius(first, second)) == pytest.approx(float(law.half_gap(first, second, 1)), rel=1e-5)
    assert float(growth.radius(0.9, 0.1)) == pytest.approx(float(growth.radius(0.9)), rel=1e-12)


def test_the_radius_rises_with_p() -> None:
    chances = np.linspace(0.5, 0.9999, 500)
    assert np.all(np.diff(sum_growth(law_named("laplace_gaussian"), 50).radius(chances)) > 0)


def test_cells_hold_all_the_probability() -> None:
    for spec in EXAMPLES:
        law = law_named(spec)
        edges = positive_edges(law, 500)
        both = np.concatenate([-edges[:0:-1], edges])
        assert float(cell_masses(law, both).sum()) == pytest.approx(1.0, abs=1e-12)


def test_a_constant_rate_is_a_straight_line() -> None:
    growth = Growth(np.array([0.0, 0.5]), np.array([2.0, 2.0]))
    np.testing.assert_allclose(growth.radius([0.6, 0.9]), [0.05, 0.2])
