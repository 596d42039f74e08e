"""From votes to certificates: bounds, radii, regions, labels, each against an independent method."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtri

from smoothcert.certificates import Ballot, Certificate, Soundness, conclude, weakest
from smoothcert.errors import SettingError, UnknownName
from smoothcert.estimators import Plan, estimator_of
from smoothcert.estimators.bounds import Bound, leads, random_answers
from smoothcert.laws import LAWS, law_named
from smoothcert.maths.geometry import geometric_mean, p_norm, round_down, shrinkage
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.radius import proved_radius
from smoothcert.radius.bracket import certified_radius
from smoothcert.regions import Region
from smoothcert.votes import Votes

PROBABILITY = st.floats(0.501, 1 - 1e-9)


def table(*counts: int, invalid: int = 0) -> Votes:
    """The votes of one input at one look."""
    return Votes(np.array([[counts]]), np.array([[invalid]]))


def radius_of(law: str, norm: float, dim: int, lower: float, upper: float | None = None) -> float:
    return proved_radius(law_named(law), norm, dim, Bound(lower, 0.001, 1000, upper)).value


class TestIntervals:
    def test_clopper_pearson_agrees_with_scipy_for_every_count(self) -> None:
        for n in (1, 2, 7, 50, 200):
            k = np.arange(n + 1)
            for alpha in (0.001, 0.05):
                low = [stats.binomtest(int(i), n).proportion_ci(1 - 2 * alpha, "exact").low for i in k]
                high = [stats.binomtest(int(i), n).proportion_ci(1 - 2 * alpha, "exact").high for i in k]
                np.testing.assert_allclose(lower_bound(k, n, alpha), low, atol=1e-12)
                np.testing.assert_allclose(upper_bound(k, n, alpha), high, atol=1e-12)

    @pytest.mark.parametrize("p", [0.5, 0.9, 0.999])
    def test_coverage_is_exact_and_at_least_nominal(self, p: float) -> None:
        """P(bound > p), summed over the binomial distribution, is at most alpha."""
        n, alpha = 300, 0.01
        k = np.arange(n + 1)
        wrong = stats.binom.pmf(k, n, p)[lower_bound(k, n, alpha) > p].sum()
        assert wrong <= alpha

    def test_largest_certified_radii_in_sigmas(self) -> None:
        largest = [float(ndtri(lower_bound(n, n, 0.001))) for n in (10**2, 10**3, 10**4, 10**5, 10**6)]
        np.testing.assert_allclose(largest, [1.500, 2.463, 3.199, 3.811, 4.347], atol=5e-4)

    def test_nothing_certifies_nothing(self) -> None:
        assert float(lower_bound(0, 10, 0.001)) == 0.0
        assert float(upper_bound(10, 10, 0.001)) == 1.0


class TestVotes:
    def test_a_nan_vote_is_against_the_class_and_for_its_rival(self) -> None:
        votes = table(70, 20, invalid=10)
        assert votes.trials[0, -1] == 100
        assert [int(n[0]) for n in votes.top_two()] == [70, 30]

    def test_leads_agrees_with_the_binomial_test(self) -> None:
        for first, second in [(60, 40), (70, 30), (95, 5), (50, 50)]:
            expected = stats.binomtest(first, first + second).pvalue <= 0.001
            assert leads(table(first, second), 0.001) == [expected]

    def test_no_valid_vote_decides_nothing(self) -> None:
        assert leads(table(0, 0, invalid=10), 0.001) == [False]


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


class TestRegions:
    @given(
        scale=st.lists(st.floats(0.1, 10), min_size=2, max_size=6),
        radius=st.floats(0.1, 3),
        norm=st.sampled_from([1.0, 1.5, 2.0, math.inf]),
        other=st.sampled_from([1.0, 1.5, 2.0, 4.0, math.inf]),
        seed=st.integers(0, 1000),
    )
    def test_the_inner_balls_are_inside_and_touch(
        self, scale: list[float], radius: float, norm: float, other: float, seed: int
    ) -> None:
        region = Region(np.zeros(len(scale)), np.array(scale), radius, norm)
        inner = region.inner_radius_in(other)
        generator = np.random.default_rng(seed)
        directions = np.vstack([generator.normal(size=(50, len(scale))), np.eye(len(scale))])
        on_ball = directions / p_norm(directions, other)[:, None] * inner
        assert all(region.gauge(point) <= radius * (1 + 1e-9) for point in on_ball)
        # The extreme direction: for q <= p the narrowest axis, else Hölder's equality case.
        excess = 1 / norm - 1 / other
        weights = (1 / np.array(scale)) ** ((1 / excess) * (1 / other)) if excess > 0 and math.isfinite(other) else None
        if excess <= 0:
            weights = (np.array(scale) == min(scale)).astype(float)
        if weights is None:
            weights = np.ones(len(scale))
        worst = weights / float(p_norm(weights, other)) * inner
        assert region.gauge(worst) >= radius * (1 - 1e-6) or (excess <= 0 and scale.count(min(scale)) > 1)

    def test_volume_against_monte_carlo(self) -> None:
        """The share of a box's points inside; four standard errors, false alarm below 1e-4 per norm, seed fixed."""
        generator, n = np.random.default_rng(0), 200_000
        scale = np.array([0.5, 1.0, 2.0])
        for norm in (0.5, 1.0, 2.0, 3.0, math.inf):
            region = Region(np.zeros(3), scale, 0.8, norm)
            points = generator.uniform(-1, 1, size=(n, 3)) * scale * 0.8
            share = np.mean(p_norm(points / scale, norm) <= 0.8)
            expected = math.exp(region.log_volume) / np.prod(2 * scale * 0.8)
            assert abs(share - expected) <= 4 * math.sqrt(max(expected * (1 - expected), 1e-12) / n) + 1e-12

    def test_proxy_radius_is_that_of_the_ball_of_the_same_volume(self) -> None:
        region = Region(np.zeros(4), np.array([0.1, 1.0, 3.0, 7.0]), 0.6, 2)
        ball = Region(np.zeros(4), np.array(1.0), region.proxy_radius, 2)
        assert math.isclose(region.log_volume, ball.log_volume)

    def test_the_geometric_mean_does_not_drift(self) -> None:
        assert geometric_mean(np.full(150_528, 0.37)) == 0.37


class TestCertificates:
    def conclude(self, selection: Votes, estimation: Votes) -> Certificate:
        return conclude(
            Ballot(selection, estimation),
            plan=Plan("fixed", trials=1000, alpha=0.001, block=1000),
            law=law_named("gaussian"),
            center=np.zeros(3),
            scale=np.array(0.5),
            norm=2,
            soundness=Soundness.GLOBAL,
        )

    def test_the_class_is_chosen_by_the_selection_votes_alone(self) -> None:
        """Class 1 leads the selection but loses the estimation: an abstention, not a switch to class 0."""
        certificate = self.conclude(table(40, 60), table(900, 100))
        assert (certificate.label, certificate.region, certificate.radius) == (None, None, 0.0)

    def test_a_certificate(self) -> None:
        certificate = self.conclude(table(90, 10), table(990, 10))
        assert certificate.label == 0
        assert certificate.soundness == "global"
        assert math.isclose(certificate.radius, 0.5 * float(ndtri(lower_bound(990, 1000, 0.001))))

    def test_invalid_votes_lower_the_bound(self) -> None:
        with_nan = self.conclude(table(90, 10), table(900, 0, invalid=100))
        without = self.conclude(table(90, 10), table(1000, 0))
        assert 0 < with_nan.radius < without.radius
        assert with_nan.bound.lower == float(lower_bound(900, 1000, 0.001))

    def test_the_weakest_label_wins(self) -> None:
        assert weakest([Soundness.ESTIMATE, Soundness.MEMORY]) is Soundness.ESTIMATE
        assert [label.value for label in Soundness] == ["global", "memory", "frozen", "estimate", "imported"]


class TestAdvice:
    def test_spread_votes_look_random(self) -> None:
        assert "leading class gets 30%" in str(random_answers([table(30, 25, 25, 20)] * 10, [None] * 10))

    def test_one_answer_for_all_looks_random(self) -> None:
        reason = random_answers([table(100, 0, 0, 0, 0, 0)] * 10, list(range(5)) * 2)
        assert "right on 2 of the first 10" in str(reason)

    def test_a_good_network_is_left_alone(self) -> None:
        votes = [table(*np.eye(4, dtype=int)[label] * 90 + 2) for label in (0, 1, 2, 3) * 3]
        assert random_answers(votes, [0, 1, 2, 3] * 3) is None


class TestRounding:
    @given(value=st.floats(0, 1e6), digits=st.integers(0, 6))
    def test_printed_numbers_never_exceed_the_proved_ones(self, value: float, digits: int) -> None:
        text = round_down(value, digits)
        assert float(text) <= value
        assert value - float(text) <= 10.0**-digits * (1 + 1e-9)


def test_registered_laws_sample_what_they_say() -> None:
    """Kolmogorov–Smirnov on 20 000 draws per law at level 1e-4 each: false alarm below 1e-3 in all, seed fixed."""
    import torch

    from smoothcert.seeds import Stage, draws_for

    for dtype in (torch.float32, torch.float64):
        for name in ("gaussian", "laplace", "uniform"):
            law = LAWS[name]()
            z = law.sample((20_000,), draws_for(0, 0, Stage.SELECT, 0, dtype=dtype)).double().numpy()
            grid = np.linspace(0.0005, 0.9995, 2001)
            distance = np.abs(np.searchsorted(np.sort(z), law.quantile(grid)) / z.size - grid).max()
            assert distance < 1.95 / math.sqrt(z.size) * 1.2, (name, dtype, distance)
            assert law.std is not None
            assert abs(z.std() / law.std - 1) < 0.05
