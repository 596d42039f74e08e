"""The proved radius: oracles, tightness, monotony, conversion between norms, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from smoothcert.errors import SettingError, UnknownName
from smoothcert.estimators import Plan, estimator_of
from smoothcert.estimators.bounds import Bound
from smoothcert.laws import law_named
from smoothcert.maths.geometry import p_norm, shrinkage
from smoothcert.maths.intervals import lower_bound
from smoothcert.radius import proved_radius
from smoothcert.radius.bracket import certified_radius

PROBABILITY = st.floats(0.501, 1 - 1e-9)


def radius_of(law: str, norm: float, dim: int, lower: float, upper: float | None = None) -> float:
    return proved_radius(law_named(law), norm, dim, Bound(lower, 0.001, 1000, upper)).value


class TestRadii:
    def test_oracles(self) -> None:
        np.testing.assert_allclose(radius_of("gaussian", 2, 10, 0.9), 1.2815515655)
        np.testing.assert_allclose(radius_of("laplace", 1, 10, 0.9), -math.log(0.2))
        np.testing.assert_allclose(radius_of("uniform", 1, 10, 0.9), 0.8)
        np.testing.assert_allclose(radius_of("uniform", math.inf, 10, 0.9), 2 * (1 - 0.6 ** (1 / 10)))

    @pytest.mark.parametrize(("lower", "upper", "gain"), [(0.6, 0.2, 0.547), (0.8, 0.1, 1.062), (0.4, 0.2, 0.294)])
    def test_two_class_gains(self, lower: float, upper: float, gain: float) -> None:
        assert abs(radius_of("gaussian", 2, 10, lower, upper) - gain) < 5e-4

    @pytest.mark.parametrize("law", ["gaussian", "laplace", "uniform"])
    @given(lower=PROBABILITY)
    def test_one_class_is_the_two_class_rule_with_the_rest_to_one_rival(self, law: str, lower: float) -> None:
        for norm in law_named(law).radii:
            assert radius_of(law, norm, 5, lower) == radius_of(law, norm, 5, lower, 1 - lower)

    @pytest.mark.parametrize("law", ["gaussian", "laplace", "uniform"])
    @given(low=PROBABILITY, high=PROBABILITY, norm=st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0, math.inf]))
    def test_a_surer_class_never_has_a_smaller_radius(self, law: str, low: float, high: float, norm: float) -> None:
        low, high = sorted((low, high))
        assert radius_of(law, norm, 7, low) <= radius_of(law, norm, 7, high)

    @pytest.mark.parametrize(("law", "norm"), [("gaussian", 2), ("laplace", 1), ("uniform", 1)])
    def test_rules_are_attained_by_a_half_line(self, law: str, norm: float) -> None:
        """In one dimension, moving the half-line z > -a that holds probability p by the radius leaves exactly 1/2."""
        for p in (0.6, 0.9, 0.99):
            radius = radius_of(law, norm, 1, p)
            noise = law_named(law)
            edge = float(noise.quantile(1 - p))
            kept, _ = integrate.quad(
                lambda z, noise=noise: math.exp(float(noise.log_prob(z))),
                edge + radius,
                1 if law == "uniform" else 40,
                limit=200,
            )
            assert abs(kept - 0.5) < 1e-6

    def test_uniform_linf_is_the_overlap_of_two_cubes(self) -> None:
        """A set of probability p keeps at least p minus what leaves the cube; at the radius this is 1/2."""
        for dim, p in [(1, 0.7), (3, 0.9), (50, 0.99)]:
            radius = radius_of("uniform", math.inf, dim, p)
            left = 1 - (1 - radius / 2) ** dim
            assert abs(p - left - 0.5) < 1e-12

    def test_conversion_is_the_ball_inside(self) -> None:
        assert radius_of("gaussian", 1, 100, 0.9) == radius_of("gaussian", 2, 100, 0.9)
        np.testing.assert_allclose(radius_of("gaussian", math.inf, 100, 0.9), radius_of("gaussian", 2, 100, 0.9) / 10)
        # With both classes bounded only theorems count: uniform l2 from l1, or from l∞ as it is, the better one.
        both = [radius_of("uniform", 1, 100, 0.9, 0.1) / 10, radius_of("uniform", math.inf, 100, 0.9, 0.1)]
        np.testing.assert_allclose(radius_of("uniform", 2, 100, 0.9, 0.1), max(both))

    def test_a_table_serves_where_no_theorem_is_tight(self) -> None:
        """Laplace l2: far beyond conversion from l1, and below what nothing can exceed."""
        bound = Bound(0.9, 0.001, 1000)
        proved = proved_radius(law_named("laplace"), 2, 100, bound)
        assert radius_of("laplace", 1, 100, 0.9) / 10 < 0.2 * proved.value
        assert proved.value <= certified_radius("laplace", 2, 0.9, 100).lower * (1 + 1e-9)
        assert "converted" not in proved.rule

    @given(
        vector=st.lists(st.floats(-5, 5), min_size=1, max_size=8),
        proved=st.sampled_from([1.0, 2.0, 3.0, math.inf]),
        asked=st.sampled_from([0.5, 1.0, 2.0, 3.0, math.inf]),
    )
    def test_the_converted_ball_is_inside(self, vector: list[float], proved: float, asked: float) -> None:
        inside = float(p_norm(vector, asked)) * 1.0
        assert float(p_norm(vector, proved)) * shrinkage(proved, asked, len(vector)) <= inside * (1 + 1e-12)

    def test_bad_settings(self) -> None:
        with pytest.raises(SettingError, match="norm=0"):
            radius_of("gaussian", 0, 1, 0.9)
        with pytest.raises(SettingError, match="use at least 10"):
            estimator_of(Plan(trials=9))
        with pytest.raises(UnknownName, match="did you mean 'gaussian'"):
            law_named("gausian")
        with pytest.raises(SettingError, match="it has none"):
            law_named("gaussian:beta=2")

    def test_the_least_number_of_votes_is_right(self) -> None:
        for alpha in (0.001, 0.01, 0.2):
            least = next(n for n in range(1, 50) if float(lower_bound(n, n, alpha)) > 0.5)
            estimator_of(Plan(trials=least, alpha=alpha))
            with pytest.raises(SettingError, match=f"at least {least} "):
                estimator_of(Plan(trials=least - 1, alpha=alpha))
