"""Confidence sequences hold at every vote at once; the randomized bound errs exactly alpha of the time."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from smoothcert.errors import SettingError
from smoothcert.maths.betting import betting_lower_bound, log_capital, randomized_lower_bound, union_lower_bound
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.sequential import crossing_probability

ALPHA = 0.05
SEQUENCES = (union_lower_bound, betting_lower_bound)
PROBABILITIES = (0.1, 0.55, 0.9, 0.99)


def standard_errors(runs, alpha=ALPHA):
    """Four of them, on alpha: one comparison in 30 000 fails though all is right (normal tail at 4)."""
    return 4 * math.sqrt(alpha * (1 - alpha) / runs)


@functools.cache
def claims_above(bound, p, horizon, alpha=ALPHA):
    """After each vote the smallest count whose bound exceeds p, by bisection on the count."""
    n = np.arange(1, horizon + 1)
    low, high = np.full(horizon, -1), n + 1  # the bound is at most p at low, above p (or never) at high
    while np.any(high - low > 1):
        middle = (low + high) // 2
        open_ = high - low > 1
        above = bound(np.clip(middle, 0, n), n, alpha) > p
        low, high = np.where(open_ & ~above, middle, low), np.where(open_ & above, middle, high)
    return n, high


def share_of_wrong_runs(bound, p, horizon, runs, seed):
    """How many simulated runs ever claim more than p, in a share of all."""
    _, heights = claims_above(bound, p, horizon)
    generator = np.random.default_rng(seed)
    count, wrong = np.zeros(runs, dtype=np.int32), np.zeros(runs, dtype=bool)
    for height in heights.tolist():
        count += generator.random(runs, dtype=np.float32) < p
        wrong |= count >= height
    return wrong.mean()


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("bound", SEQUENCES)
def test_a_confidence_sequence_is_exactly_no_more_often_wrong_than_alpha(bound, p, alpha):
    assert crossing_probability(p, *claims_above(bound, p, 500, alpha)) <= alpha


@pytest.mark.parametrize("p", [0.55, 0.9])
def test_one_interval_at_every_vote_would_be_caught(p):
    assert crossing_probability(p, *claims_above(lower_bound, p, 500)) > 3 * ALPHA


@pytest.mark.parametrize("p", [0.55, 0.9, 0.99])
@pytest.mark.parametrize("bound", SEQUENCES)
def test_simulated_runs_agree(bound, p):
    assert share_of_wrong_runs(bound, p, 500, 20_000, seed=1) <= ALPHA + standard_errors(20_000)


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.55, 0.9, 0.99])
@pytest.mark.parametrize("bound", SEQUENCES)
def test_a_million_simulated_runs_agree(bound, p):
    share = share_of_wrong_runs(bound, p, 1_000, 1_000_000, seed=2)
    assert share <= ALPHA + standard_errors(1_000_000)
    assert share == pytest.approx(
        crossing_probability(p, *claims_above(bound, p, 1_000)), abs=standard_errors(1_000_000)
    )


def randomized_share(p, trials, runs, seed):
    generator = np.random.default_rng(seed)
    votes, uniform = generator.binomial(trials, p, runs), generator.random(runs)
    return np.mean(randomized_lower_bound(votes, trials, ALPHA, uniform) > p)


@pytest.mark.parametrize(("p", "trials"), [(0.5, 10), (0.9, 50), (0.99, 100), (0.999, 1_000)])
def test_the_randomized_bound_errs_exactly_alpha_of_the_time(p, trials):
    assert abs(randomized_share(p, trials, 20_000, seed=3) - ALPHA) <= standard_errors(20_000)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "trials"), [(0.5, 10), (0.9, 50), (0.99, 100), (0.999, 1_000)])
def test_the_randomized_bound_errs_exactly_alpha_of_a_million(p, trials):
    assert abs(randomized_share(p, trials, 1_000_000, seed=4) - ALPHA) <= standard_errors(1_000_000)


@settings(deadline=None)
@given(st.integers(1, 2_000), st.data())
def test_the_randomized_bound_lies_between_two_fixed_ones(trials, data):
    k, u = data.draw(st.integers(0, trials)), data.draw(st.floats(0, 1))
    between = float(randomized_lower_bound(k, trials, 0.001, u))
    above = float(lower_bound(k + 1, trials, 0.001)) if k < trials else 1.0
    assert float(lower_bound(k, trials, 0.001)) - 1e-12 <= between <= above + 1e-12
    assert float(randomized_lower_bound(k, trials, 0.001, 1.0)) == pytest.approx(float(lower_bound(k, trials, 0.001)))


@settings(deadline=None)
@given(st.integers(1, 100_000), st.data())
def test_sequences_rise_with_the_count_and_pay_for_their_freedom(trials, data):
    k = data.draw(st.integers(0, trials - 1))
    for bound in SEQUENCES:
        low, next_ = bound([k, k + 1], trials, 0.001)
        assert 0.0 <= low <= next_ <= float(lower_bound(k + 1, trials, 0.001)) + 1e-12
        assert (low == 0.0) or k > 0


@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 40), (99, 100), (1_000, 1_000), (700, 1_000)])
def test_the_capital_is_the_mixture_it_says(k, n):
    p = 0.8 * k / n

    def bet(q):
        return math.exp(k * math.log(q / p) + ((n - k) * math.log((1 - q) / (1 - p)) if k < n else 0.0))

    # q = sin² turns the Jeffreys prior into the uniform one
    start = math.asin(math.sqrt(p))
    total, _ = quad(lambda t: bet(math.sin(t) ** 2), start, math.pi / 2, limit=500, epsrel=1e-10)
    assert float(log_capital(k, n, p)) == pytest.approx(math.log(total / (math.pi / 2 - start)), abs=1e-7)


@settings(deadline=None)
@given(st.integers(1, 3_000), st.data())
def test_the_capital_crosses_one_over_alpha_once(trials, data):
    k = data.draw(st.integers(1, trials))
    p = np.linspace(1e-6, 1 - 1e-6, 2_001)
    rich = log_capital(k, trials, p) >= math.log(1 / 0.05)
    assert not np.any(~rich[:-1] & rich[1:])


def test_both_sequences_take_tables_and_empty_ones():
    for bound in SEQUENCES:
        assert bound(np.full((2, 3), 90), 100, 0.001).shape == (2, 3)
        assert bound([], [], 0.001).shape == (0,)
        assert float(bound(0, 0, 0.001)) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: betting_lower_bound(1, 2, 0.5),
        lambda: betting_lower_bound(3, 2, 0.1),
        lambda: union_lower_bound(-1, 2, 0.1),
        lambda: union_lower_bound(1, 2, 0.1, ratio=1.0),
        lambda: union_lower_bound(1, 2, 0.1, first=0),
        lambda: randomized_lower_bound(1, 2, 0.1, 1.5),
        lambda: randomized_lower_bound(1, 2, 1.5, 0.5),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
