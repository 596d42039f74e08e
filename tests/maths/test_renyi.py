"""The Rényi envelope against closed forms."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from smoothcert.laws import law_named
from smoothcert.maths.domination import dominations, l2_radius
from smoothcert.maths.renyi import ORDERS, Divergences, threshold
from smoothcert.radius.bracket import certified_radius

CHANCES = np.array([0.51, 0.6, 0.8, 0.9, 0.99, 0.999])


def test_gaussian_divergence() -> None:
    found = Divergences.of(law_named("gaussian"), 100, 4.0)
    orders = np.array(ORDERS[:-1])[:, None]
    ratio = found.heights[:-1] / (orders * found.shifts**2 / 2)
    ratio = ratio[np.isfinite(ratio)]
    assert ratio.size > 30_000
    assert ratio.min() >= 1.0
    assert ratio.max() < 1.0001


def test_laplace_divergence() -> None:
    """(a − 1) h = log(a/(2a−1) e^{(a−1)t} + (a−1)/(2a−1) e^{−at}) (Mironov 2017, Table II)."""
    found = Divergences.of(law_named("laplace"), 10, 8.0)
    t = found.shifts
    for order, row in zip(ORDERS[:-1], found.heights, strict=False):
        a = order
        rising, falling = math.log(a / (2 * a - 1)) + (a - 1) * t, math.log((a - 1) / (2 * a - 1)) - a * t
        exact = np.logaddexp(rising, falling) / (a - 1)
        far = (t > 0.05) & np.isfinite(row)
        assert far.sum() > 500
        assert np.all(row[far] >= exact[far])
        np.testing.assert_allclose(row[far], exact[far], rtol=1e-4)
    np.testing.assert_array_equal(found.heights[-1], t)


@pytest.mark.parametrize("dim", [1, 10, 3072])
def test_laplace_l1_is_exact_at_infinite_order(dim: int) -> None:
    found = Divergences.of(law_named("laplace"), dim, 7.0).radius(1, dim, CHANCES)
    exact = -np.log(2 * (1 - CHANCES))
    assert np.all(found <= exact)
    np.testing.assert_allclose(found, exact, rtol=0.015)


@pytest.mark.parametrize("dim", [1, 10, 3072])
def test_gaussian_l2(dim: int) -> None:
    """.674 of .842 and 1.908 of 2.326, less the grid."""
    found = Divergences.of(law_named("gaussian"), dim, 4.0).radius(2, dim, np.array([0.8, 0.99]))
    assert np.all(found <= [0.6745, 1.9085])
    np.testing.assert_allclose(found, [0.674, 1.908], rtol=0.015)


def test_gaussian_l1_envelope_reaches_to_the_radius() -> None:
    """An envelope on [0, R^p/d] only would give 37.4; the worst l1 direction is one coordinate."""
    found = float(Divergences.of(law_named("gaussian"), 3072, 50.0).radius(1, 3072, 0.8))
    assert 0.60 < found <= 0.6745


@pytest.mark.parametrize("norm", [0.5, 1, 2, 3, math.inf])
def test_the_bound_covers_sparse_shifts(norm: float) -> None:
    """Σ h over k equal coordinates inside the ball never exceeds the bound."""
    dim = 64
    found = Divergences.of(law_named("hyperbolic_secant"), dim, 5.0)
    bounds = found.bounds(norm, dim)
    for row in (0, 8, 15):
        for at in (1500, 2500, 2999):
            radius = found.shifts[at]
            for k in (1, 2, 8, 64):
                each = np.interp(radius * k ** (-1.0 / norm), found.shifts, found.heights[row])
                assert k * each <= bounds[row, at] * (1 + 1e-5)


def test_thresholds() -> None:
    assert float(threshold(math.inf, 0.9, 0.1)) == pytest.approx(-math.log(0.2))
    assert float(threshold(2.0, 0.5, 0.5)) == pytest.approx(0.0, abs=1e-12)
    assert float(threshold(1e6, 0.9, 0.1)) == pytest.approx(-math.log(0.2), rel=1e-4)
    assert np.all(np.diff(threshold(3.0, CHANCES, 1 - CHANCES)) > 0)


def test_bounded_support_certifies_nothing() -> None:
    assert float(Divergences.of(law_named("uniform"), 10, 2.0).radius(2, 10, 0.9)) == 0.0


@pytest.mark.parametrize("spec", ["cauchy", "pareto:beta=3", "generalized_normal:beta=0.75"])
def test_never_above_the_half_line(spec: str) -> None:
    law = law_named(spec)
    found = Divergences.of(law, 100, 20.0).radius(1, 100, CHANCES)
    assert np.all(found <= law.quantile(CHANCES))


def test_a_heavy_tail_is_not_lost() -> None:
    """Pareto noise with β = .3 has a part of 2e-4 beyond 1e12; quadrature in log(1 + |y|) is the other method."""
    law = law_named("pareto:beta=0.3")
    found = Divergences.of(law, 1, 3.0)

    def integrand(x: float, sign: float, t: float) -> float:
        y = sign * math.expm1(x)
        log_ratio = float(law.log_prob(y - t) - law.log_prob(y))
        return math.exp(float(law.log_prob(y)) + x) * (math.expm1(2 * log_ratio) - 2 * math.expm1(log_ratio))

    for at in (2000, 2900):
        t = float(found.shifts[at])
        exact = quad(integrand, 0, 40, args=(-1.0, t), limit=300)[0]
        exact += quad(integrand, 0, 40, args=(1.0, t), limit=300, points=[math.log1p(t)])[0]
        row = found.heights[ORDERS.index(2.0)][at]
        assert math.log1p(exact) * (1 - 1e-8) <= row <= math.log1p(exact) * (1 + 1e-4)


def test_two_classes_allow_more_than_one() -> None:
    found = Divergences.of(law_named("gaussian"), 10, 4.0)
    assert float(found.radius(2, 10, 0.6, 0.2)) > float(found.radius(2, 10, 0.6))


@pytest.mark.parametrize("spec", ["generalized_normal:beta=0.75", "generalized_normal:beta=3"])
def test_a_smaller_norm_never_certifies_less(spec: str) -> None:
    """The l_p ball lies inside the l1 and the l2 ball for p below, with the same radius."""
    found = Divergences.of(law_named(spec), 784, 12.0)
    radii = {norm: found.radius(norm, 784, CHANCES) for norm in (0.5, 1, 1.5, 2)}
    for smaller, larger in ((0.5, 1), (0.5, 2), (1, 2), (1.5, 2)):
        assert np.all(radii[smaller] >= radii[larger])


def test_a_cusp_far_from_the_gaussian() -> None:
    """l2 radius of |z|^½ noise in 784 dimensions, p = 0.6: 14 times what Gaussian domination gives, and it holds.

    The divergence of a shift spread over k coordinates, by plain quadrature, stays below the threshold of some order for
    every k; three per cent further out it does not, for any order tried.
    """
    law, dim, p = law_named("generalized_normal:beta=0.5"), 784, 0.6
    radius = certified_radius(law, 2, p, dim).lower
    assert radius > 10 * float(l2_radius(dominations(law), dim, [p])[0])

    def divergence(order: float, shift: float) -> float:
        def integrand(y: float) -> float:  # y = ±v² leaves no cusp at zero
            return math.exp(order * float(law.log_prob(y - shift)) + (1 - order) * float(law.log_prob(y)))

        places = [0.0, math.sqrt(shift) / 2, math.sqrt(shift), 2 * math.sqrt(shift), 1.0, 5.0, 50.0]
        total = sum(
            quad(lambda v, sign=sign: 2 * v * integrand(sign * v * v), *pair, epsabs=1e-13, limit=200)[0]
            for sign in (-1, 1)
            for pair in pairwise(places)
        )
        return math.log(total) / (order - 1)

    def holds(length: float, order: float) -> bool:
        spread = max(k * divergence(order, length / math.sqrt(k)) for k in (1, 4, 28, 784))
        return spread < float(threshold(order, p, 1 - p))

    assert any(holds(radius, order) for order in (1.5, 2.0))
    assert not any(holds(1.03 * radius, order) for order in (1.2, 1.5, 2.0, 3.0))
