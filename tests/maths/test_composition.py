"""The composition engine against quadrature, closed forms and published numbers."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtri

from smoothcert.laws import law_named
from smoothcert.maths.cells import positive_edges, spread_score
from smoothcert.maths.composition import (
    Attack,
    composed_attack,
    coordinate_attack,
    directions,
    flip_along,
    flip_length,
    upper_radius,
)

EDGES = 1200


@pytest.mark.parametrize(
    ("beta", "numbers"),
    [
        (3, (1.318, 1.259, 1.233, 1.212, 1.205, 1.205)),
        (2.25, (1.294, 1.284, 1.279, 1.275, 1.274, 1.274)),
        (2, (1.2815, 1.2815, 1.2815, 1.2815, 1.2815, 1.2815)),
        (1.5, (1.238, 1.217, 1.227, 1.226, 1.224, 1.224)),
    ],
)
def test_sparse_directions_of_generalized_normal_noise(beta: float, numbers: tuple[float, ...]) -> None:
    """l2, p = .9, in standard deviations, along k = 1, 2, 4, 16, 256, 3072 equal coordinates."""
    law = law_named(f"generalized_normal:beta={beta}")
    for k, expected in zip((1, 2, 4, 16, 256, 3072), numbers, strict=True):
        assert upper_radius(law, 2, 3072, 0.9, copies=[k])[0] / law.std == pytest.approx(
            min(expected, float(law.quantile(0.9)) / law.std), abs=1.1e-3
        )


def test_one_coordinate_alone_overstates() -> None:
    """The mutation "one-hot direction only" gives 1.318; the scan must find the dense direction."""
    law = law_named("generalized_normal:beta=3")
    one_hot = upper_radius(law, 2, 3072, 0.9, copies=[1])[0] / law.std
    found, number = upper_radius(law, 2, 3072, 0.9)
    assert one_hot > 1.31
    assert found / law.std < 1.21
    assert number == 3072


@pytest.mark.parametrize("spec", ["laplace", "hyperbolic_secant", "generalized_normal:beta=1.5", "exponential_mixture"])
@pytest.mark.parametrize("p", [0.51, 0.9, 0.999])
def test_one_coordinate_of_log_concave_laws_flips_at_the_quantile(spec: str, p: float) -> None:
    law = law_named(spec)
    found = flip_along(law, positive_edges(law, EDGES), 1, p, None, 1.0)
    assert found >= float(law.quantile(p)) * (1 - 1e-9)
    assert found == pytest.approx(float(law.quantile(p)), rel=1e-6)


def _cauchy_attack(shift: float) -> float:
    """The largest p that one Cauchy coordinate flips at a shift, by quadrature over the Neyman–Pearson interval."""
    law = law_named("cauchy")

    def ratio(z: float) -> float:
        return float(law.log_prob(z - shift) - law.log_prob(z))

    def mass(level: float, centre: float) -> float:
        return quad(
            lambda z: math.exp(float(law.log_prob(z - centre))) * (ratio(z) > level),
            -400,
            400,
            limit=800,
            points=[0, shift],
        )[0]

    level = brentq(lambda each: mass(each, shift) - 0.5, -0.1, 2.0, xtol=1e-4)
    return 1.0 - mass(level, 0.0)


def test_cauchy_against_quadrature() -> None:
    law = law_named("cauchy")
    found = flip_along(law, positive_edges(law, EDGES), 1, 0.9, None, 2.0)
    assert found == pytest.approx(2.115, abs=5e-3)
    assert _cauchy_attack(found) == pytest.approx(0.9, abs=3e-3)


@pytest.mark.parametrize("spec", ["laplace", "hyperbolic_secant", "generalized_normal:beta=3"])
def test_dense_directions_have_the_fisher_limit(spec: str) -> None:
    law = law_named(spec)
    score = spread_score(law)
    information = float(np.sum(score.masses * score.values**2))
    found, _ = upper_radius(law, math.inf, 150_528, 0.9, copies=[150_528])
    assert found == pytest.approx(float(ndtri(0.9)) / math.sqrt(150_528 * information), rel=2e-3)


def test_uniform_is_exact() -> None:
    law = law_named("uniform")
    for dim in (1, 7, 784):
        exact = float(law.radii[math.inf].radius(0.9, 0.1, dim))
        found, _ = upper_radius(law, math.inf, dim, 0.9)
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 3e-5)


def test_the_sum_of_two_against_direct_enumeration() -> None:
    """All pairs of cells, sorted by their ratio, are at least as strong as the lattice, and barely stronger."""
    law = law_named("laplace_gaussian")
    one = coordinate_attack(law, 0.7, positive_edges(law, 150))
    clean, shifted = np.outer(one.clean, one.clean).ravel(), np.outer(one.shifted, one.shifted).ravel()
    order = np.argsort(shifted / clean)
    best = Attack(clean[order], shifted[order], 0.0).outside_at_half()
    found = composed_attack(one, 2).outside_at_half()
    assert best <= found + 1e-11
    assert found == pytest.approx(best, rel=1e-3)


def test_probabilities_survive_the_transform() -> None:
    law = law_named("hyperbolic_secant")
    test = composed_attack(coordinate_attack(law, 0.01, positive_edges(law, 400)), 150_528)
    assert float(test.clean.sum()) == pytest.approx(1.0, abs=1e-9)
    assert float(test.shifted.sum()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [(0.6, 0.2), (0.8, 0.1), (0.4, 0.2)])
def test_two_classes(first: float, second: float) -> None:
    law = law_named("gaussian")
    exact = 0.5 * float(ndtri(first) - ndtri(second))
    assert upper_radius(law, 2, 1, first, second)[0] == pytest.approx(exact, rel=1e-6)
    dense, _ = upper_radius(law, 2, 64, first, second, copies=[64])
    assert dense == pytest.approx(exact, rel=1e-3)


def test_directions() -> None:
    assert directions(1) == [1]
    assert directions(2) == [1, 2]
    assert directions(3072)[-2:] == [2048, 3072]


def test_a_search_that_never_flips_is_infinite() -> None:
    assert math.isinf(flip_length(lambda length: -1.0, 1.0, 1e-6))
    assert flip_length(lambda length: length - 3.0, 0.001, 1e-9) == pytest.approx(3.0, rel=1e-8)
    assert flip_length(lambda length: length - 3.0, 1e4, 1e-9) >= 3.0
