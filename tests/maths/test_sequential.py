"""When to look, what it costs, and that the running bounds err no more often than they say: all exact."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from smoothcert.errors import SettingError
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.sequential import (
    binomial_window,
    crossing_probability,
    late_spending,
    looks,
    projected_lower,
    running_lower,
    running_upper,
    undecided,
)

PROBABILITIES = (0.55, 0.7, 0.9, 0.99, 0.999)
ALPHA = 0.001


def claims_above(p, times, spending):
    """At each look the smallest count whose Clopper–Pearson bound exceeds p: the rule as boundaries on counts."""
    heights = []
    for n, alpha in zip(times.tolist(), spending.tolist(), strict=True):
        counts = np.arange(max(0, int(n * p - 10 * math.sqrt(n))), n + 1)
        counts = counts[counts <= n * p + 10 * math.sqrt(n)]  # far enough for any alpha used here
        above = lower_bound(counts, n, alpha) > p
        assert not above[0] or counts[0] == 0
        heights.append(int(counts[np.argmax(above)]) if above[-1] else n + 1)
    return heights


# --- looks and spending


@settings(deadline=None)
@given(st.integers(1, 300_000), st.integers(1, 500), st.integers(1, 60), st.integers(1, 256))
def test_looks_rise_to_exactly_the_last_vote_in_whole_blocks(trials, first, number, multiple):
    times = looks(trials, first, number, multiple)
    assert times[-1] == trials
    assert np.all(np.diff(times) > 0)
    assert times[0] >= min(first, trials)
    assert np.all(times[:-1] % multiple == 0)
    assert times.size <= max(number, 1)


def test_looks_at_the_usual_size_are_these():
    times = looks(100_000)
    assert times.size == 25
    assert times[:4].tolist() == [100, 134, 178, 238]
    assert looks(100).tolist() == [100]
    assert looks(1).tolist() == [1]
    assert looks(101).tolist() == [100, 101]


@settings(deadline=None)
@given(st.integers(1, 60), st.floats(1e-9, 0.5))
def test_what_is_spent_never_exceeds_alpha(number, alpha):
    spending = late_spending(np.arange(1, number + 1), alpha)
    assert math.fsum(spending) <= alpha
    assert math.fsum(spending) > alpha * (1 - 1e-12)
    assert spending[-1] == (alpha if number == 1 else alpha / 2)


# --- the exact walk


@pytest.mark.parametrize(("trials", "p"), [(1, 0.3), (50, 0.999), (1_000, 0.01), (100_000, 0.5), (100_000, 0.9999)])
def test_the_binomial_window_is_the_binomial(trials, p):
    start, mass, outside = binomial_window(trials, p)
    exact = binom.pmf(np.arange(start, start + mass.size), trials, p)
    np.testing.assert_allclose(mass, exact, rtol=1e-9)
    assert binom.cdf(start - 1, trials, p) + binom.sf(start + mass.size - 1, trials, p) <= outside


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_crossing_probability_is_that_of_enumerating_every_run(data):
    times = np.array(sorted(data.draw(st.sets(st.integers(1, 9), min_size=1))))
    upper = np.array([data.draw(st.integers(0, int(n) + 1)) for n in times])
    p = data.draw(st.floats(0.01, 0.99))
    runs = np.array(list(itertools.product([0, 1], repeat=int(times[-1]))))
    counts = np.cumsum(runs, axis=1)[:, times - 1]
    weights = np.prod(np.where(runs == 1, p, 1 - p), axis=1)
    expected = math.fsum(weights[np.any(counts >= upper, axis=1)])
    assert crossing_probability(p, times, upper) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("exponent", [3, 9, 15, 22])
def test_tiny_probabilities_keep_their_relative_precision(exponent):
    height = int(binom.isf(10.0**-exponent, 100_000, 0.9))
    exact = binom.sf(height - 1, 100_000, 0.9)
    several = crossing_probability(0.9, [1_000, 20_000, 100_000], [1_001, 20_001, height])
    assert several == pytest.approx(exact, rel=1e-7)


def test_a_certain_vote_crosses_or_does_not():
    assert crossing_probability(1.0, [5, 10], [6, 10]) == 1.0
    assert crossing_probability(0.0, [5, 10], [1, 1]) == 0.0
    assert crossing_probability(0.0, [5, 10], [0, 1]) == 1.0
    assert crossing_probability(0.5, [5], [0]) == 1.0


# --- the running bounds


@pytest.mark.parametrize("trials", [10_000, 100_000])
@pytest.mark.parametrize("p", PROBABILITIES)
def test_running_lower_bound_is_wrong_at_most_alpha_of_the_time(p, trials):
    times = looks(trials)
    heights = claims_above(p, times, late_spending(times, ALPHA))
    assert crossing_probability(p, times, heights) <= ALPHA


@pytest.mark.parametrize("p", [0.55, 0.7, 0.9])
def test_spending_all_of_alpha_at_every_look_would_be_caught(p):
    times = looks(10_000)
    heights = claims_above(p, times, np.full(times.size, ALPHA))
    assert crossing_probability(p, times, heights) > 3 * ALPHA


@pytest.mark.parametrize("p", [0.55, 0.9])
def test_the_rule_that_was_verified_is_the_rule_that_runs(p):
    times, generator = looks(2_000), np.random.default_rng(0)
    spending = late_spending(times, 0.2)  # large, so that both outcomes are frequent
    counts = np.cumsum(generator.binomial(np.diff(times, prepend=0), p, (400, times.size)), axis=1)
    by_count = np.logical_or.accumulate(counts >= claims_above(p, times, spending), axis=1)
    by_bound = running_lower(counts, times, spending) > p
    assert np.array_equal(by_count, by_bound)
    assert 0 < by_bound[:, -1].sum() < 400


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(0, 5))
def test_running_bounds_rise_with_the_counts_and_only_improve(steps, extra):
    times = 50 * np.arange(1, len(steps) + 1)
    counts = np.cumsum(steps)[None, :]
    more = np.minimum(counts + extra, times)
    spending = late_spending(times, 0.01)
    low, high = running_lower(counts, times, spending), running_upper(counts, times, spending)
    assert np.all(np.diff(low, axis=1) >= 0)
    assert np.all(np.diff(high, axis=1) <= 0)
    assert np.all(running_lower(more, times, spending) >= low)
    assert np.all(running_upper(more, times, spending) >= high)
    np.testing.assert_allclose(running_upper(times - counts, times, spending), 1 - low, rtol=0, atol=1e-15)


def test_looks_still_to_come_change_nothing_said_so_far():
    times = looks(1_000)
    spending = late_spending(times, ALPHA)
    counts = (times * 0.9).astype(int)[None, :]
    whole = running_lower(counts, times, spending)
    assert np.array_equal(running_lower(counts[:, :7], times, spending), whole[:, :7])
    assert running_lower(counts[:, :0], times, spending).shape == (1, 0)


def test_the_projection_meets_the_bound_at_the_last_look():
    times = looks(10_000)
    spending = late_spending(times, ALPHA)
    counts = (times * 0.9).astype(int)[None, :]
    projected = projected_lower(counts, times, spending)
    assert np.all(projected < running_upper(counts, times, spending))
    assert 0 < projected[0, -1] - running_lower(counts, times, spending)[0, -1] < 0.01


# --- when to stop


def test_undecided_by_grid_is_a_half_open_interval():
    assert undecided([0.5, 0.49], [0.9, 0.5], grid=[0.5, 1.0]).tolist() == [False, True]
    assert undecided([-np.inf], [0.1], grid=[0.0]).tolist() == [True]


def test_undecided_by_tolerance_never_takes_infinity_for_close():
    assert undecided([1.0, np.inf], [np.inf, np.inf], tolerance=0.5).tolist() == [True, False]
    assert undecided([-1.0, -np.inf, -1.0], [-0.5, 0.0, 0.1], tolerance=0.1).tolist() == [False, False, True]


def test_with_both_rules_the_first_that_is_content_stops():
    assert undecided([0.3], [0.45], grid=[0.25, 0.5], tolerance=0.01).tolist() == [False]
    assert undecided([0.499], [0.5], grid=[0.5], tolerance=0.01).tolist() == [False]
    assert undecided([0.4], [0.5], grid=[0.5], tolerance=0.01).tolist() == [True]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: looks(0),
        lambda: looks(100, multiple=0),
        lambda: late_spending([], 0.1),
        lambda: late_spending([5, 5], 0.1),
        lambda: late_spending([1.5, 2.0], 0.1),
        lambda: late_spending([5, 6], 1.0),
        lambda: running_lower([[1, 2, 3]], [5, 6], [0.1, 0.1]),
        lambda: running_lower([1, 2], [5, 6], [0.1, 0.1]),
        lambda: crossing_probability(0.5, [5, 6], [3]),
        lambda: crossing_probability(1.5, [5], [3]),
        lambda: undecided([0.1], [0.2]),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
