"""Certified intervals: known levels and ranks, coverage by enumeration with atoms, and every shift of step functions."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom, laplace, multinomial

from smoothcert.errors import SettingError
from smoothcert.laws import law_named
from smoothcert.maths.quantiles import certified_interval, lower_rank, upper_rank
from smoothcert.radius import probability_for

LAWS = {"gaussian": (ndtr, ndtri), "laplace": (laplace.cdf, laplace.ppf)}
NORMS = {"gaussian": 2.0, "laplace": 1.0, "uniform": 1.0}


def levels(law, radius):
    """1 − p and p, p the least probability at which the law's theorem for one class gives the radius."""
    up = probability_for(law_named(law), NORMS[law], 1, radius)
    return 1 - up, up


@pytest.mark.parametrize(
    ("law", "radius", "level"),
    [("gaussian", 0.5, 0.691462), ("gaussian", 1.0, 0.841345), ("laplace", 0.5, 0.696735), ("laplace", 1.0, 0.816060)],
)
def test_known_levels(law, radius, level):
    down, up = levels(law, radius)
    assert up == pytest.approx(level, abs=6e-7)
    assert down == pytest.approx(1 - level, abs=6e-7)


def test_uniform_noise_moves_a_level_by_half_the_radius():
    assert levels("uniform", 0.4) == pytest.approx((0.3, 0.7))
    assert levels("uniform", 1.0) == (0.0, 1.0)


@pytest.mark.parametrize(("trials", "low", "high"), [(1_000, 122, 879), (10_000, 1_467, 8_534)])
def test_known_ranks(trials, low, high):
    down, up = levels("gaussian", 1.0)
    assert (lower_rank(trials, down, 5e-4), upper_rank(trials, up, 5e-4)) == (low, high)


@pytest.mark.parametrize("trials", [1, 7, 60, 500])
@pytest.mark.parametrize("level", [0.0, 0.03, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("alpha", [1e-4, 0.02, 0.3])
def test_ranks_are_the_first_that_a_list_of_all_allows(trials, level, alpha):
    ranks = np.arange(1, trials + 1)
    able = ranks[binom.sf(ranks - 1, trials, level) <= alpha]
    assert upper_rank(trials, level, alpha) == (able.min() if len(able) else trials + 1)
    able = ranks[binom.cdf(ranks - 1, trials, level) <= alpha]
    assert lower_rank(trials, level, alpha) == (able.max() if len(able) else 0)


def test_the_known_miscoverage_with_atoms():
    rank = upper_rank(60, 0.8, 0.02)
    assert binom.sf(rank - 1, 60, 0.75) == pytest.approx(9.6e-4, rel=0.01)  # h_.8 is an atom with .75 below it


def quantile_of(values, chances, level):
    """The least value with at least the level at or below it."""
    return values[np.argmax(np.cumsum(chances) >= level - 1e-12)]


def miscoverage(chances, trials, rank_low, rank_high, down, up):
    """The exact chance that an end fails, over every table of draws from values 0, 1, 2."""
    tables = np.array([(i, j, trials - i - j) for i in range(trials + 1) for j in range(trials + 1 - i)])
    below = np.cumsum(tables, axis=1)
    weight = multinomial.pmf(tables, trials, chances)
    low = np.argmax(below >= rank_low, axis=1) if rank_low >= 1 else np.full(len(tables), -1)
    high = np.argmax(below >= rank_high, axis=1) if rank_high <= trials else np.full(len(tables), 3)
    values = np.arange(3)
    wrong = (low > quantile_of(values, chances, down)) | (high < quantile_of(values, chances, up))
    return float(weight[wrong].sum())


GRID = [(i / 10, j / 10, (10 - i - j) / 10) for i in range(11) for j in range(11 - i)]


@pytest.mark.parametrize("trials", [5, 15, 40])
@pytest.mark.parametrize("radius", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_coverage_with_atoms_by_enumeration(trials, radius, alpha):
    down, up = levels("gaussian", radius)
    ranks = lower_rank(trials, down, alpha / 2), upper_rank(trials, up, alpha / 2)
    assert max(miscoverage(p, trials, *ranks, down, up) for p in GRID) <= alpha


def test_swapped_ranks_and_the_whole_alpha_twice_would_be_caught():
    down, up = levels("gaussian", 0.3)
    low, high = lower_rank(40, down, 0.15), upper_rank(40, up, 0.15)
    assert max(miscoverage(p, 40, high, low, down, up) for p in GRID) > 0.3
    narrow, trials = (0.495, 0.01, 0.495), 60  # both ends can fail
    halves = lower_rank(trials, 0.5, 0.15), upper_rank(trials, 0.5, 0.15)
    wholes = lower_rank(trials, 0.5, 0.3), upper_rank(trials, 0.5, 0.3)
    assert miscoverage(narrow, trials, *halves, 0.5, 0.5) <= 0.3
    assert miscoverage(narrow, trials, *wholes, 0.5, 0.5) > 0.3


def ideal(law, steps, heights, places, level):
    """The exact quantile at a level of f(place + ε), f piecewise constant."""
    edges = np.concatenate([[-np.inf], steps, [np.inf]])
    weights = np.diff(LAWS[law][0](edges[None, :] - np.asarray(places, dtype=float)[:, None]), axis=1)
    order = np.argsort(heights)
    total = np.cumsum(weights[:, order], axis=1)
    return heights[order][np.argmax(total >= level, axis=1)]


def escapes(law, radius, claimed, seed):
    """In how many of 200 step functions the median, somewhere within radius, leaves the interval for the claimed radius."""
    generator, count = np.random.default_rng(seed), 0
    for _ in range(200):
        steps, heights = np.sort(generator.uniform(-6, 6, 3)), generator.normal(size=4)
        center = generator.uniform(-2, 2)
        down, up = levels(law, claimed)
        low, high = (ideal(law, steps, heights, [center], level)[0] for level in (down, up))
        moved = ideal(law, steps, heights, center + np.linspace(-radius, radius, 81), 0.5)
        count += bool(np.any((moved < low) | (moved > high)))
    return count


@pytest.mark.parametrize("law", list(LAWS))
@pytest.mark.parametrize("radius", [0.3, 0.8, 1.5])
def test_no_shift_of_a_step_function_leaves_the_interval(law, radius):
    assert escapes(law, radius, radius, seed=1) == 0
    assert escapes(law, radius, radius / 2, seed=1) > 0  # half the shift is caught


def test_lost_draws_count_against_both_ends():
    draws = np.arange(1.0, 1001.0)
    draws[[3, 500, 990]] = np.nan
    low, high = certified_interval(draws, ndtr(1.0), 0.001)
    assert low <= 122 - 2
    assert high >= 879 + 1
    assert certified_interval(np.full(100, np.nan), 0.6, 0.001) == (-math.inf, math.inf)


def test_too_few_draws_give_no_end():
    assert certified_interval([1.0, 2.0, 3.0], 0.7, 0.001) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: upper_rank(0, 0.5, 0.1),
        lambda: upper_rank(10, 1.5, 0.1),
        lambda: upper_rank(10, 0.5, 0.0),
        lambda: certified_interval([], 0.5, 0.1),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
