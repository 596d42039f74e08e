"""Two-class bounds hold together with the probability they state: by enumerating every table of votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial

from smoothcert.errors import SettingError
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.maths.two_class import two_class_bounds


def tables(trials):
    """Every table of three counts that sums to trials."""
    first, second = np.meshgrid(np.arange(trials + 1), np.arange(trials + 1), indexing="ij")
    keep = first + second <= trials
    return np.stack([first[keep], second[keep], trials - first[keep] - second[keep]], axis=1)


def coverage(p, trials, alpha, label=0, split=0.5, lost=0):
    """The exact probability that both bounds hold when of each class up to ``lost`` votes come out invalid."""
    counts = tables(trials)
    valid = np.maximum(counts - lost, 0)
    low, high = two_class_bounds(valid, np.full(len(counts), label), trials - valid.sum(axis=1), alpha, split)
    rival = max(value for each, value in enumerate(p) if each != label)
    return float(multinomial.pmf(counts, trials, p)[(low <= p[label]) & (high >= rival)].sum())


def test_coverage_is_the_known_number():
    assert coverage((0.5, 0.05, 0.45), 10, 0.05) == pytest.approx(0.981, abs=5e-4)


@pytest.mark.parametrize("seed", range(40))
def test_coverage_is_at_least_nominal_whatever_the_classes(seed):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(generator.choice([0.3, 1.0, 5.0]) * np.ones(3))
    trials, alpha = int(generator.integers(1, 13)), float(generator.choice([0.01, 0.05, 0.2, 0.4]))
    for label in range(3):
        split = float(generator.choice([0.1, 0.5, 0.9]))
        assert coverage(tuple(p), trials, alpha, label, split) >= 1 - alpha - 1e-12
        assert coverage(tuple(p), trials, alpha, label, split, lost=1) >= 1 - alpha - 1e-12


# Where one bound at the whole of alpha would miss by .04 to .10: found by a search over such tables.
@pytest.mark.parametrize(
    ("p", "trials", "split"),
    [
        ((0.13, 0.67, 0.20), 9, 0.9),
        ((0.36, 0.55, 0.09), 11, 0.9),
        ((0.13, 0.26, 0.61), 10, 0.1),
        ((0.19, 0.11, 0.70), 7, 0.1),
    ],
)
def test_both_bounds_are_paid_for(p, trials, split):
    assert coverage(p, trials, 0.4, split=split) >= 0.6


def test_naming_the_rival_by_a_few_selection_votes_would_be_caught():
    p, trials, alpha, selecting = (0.5, 0.05, 0.45), 10, 0.05, 3
    counts, picks = tables(trials), tables(selecting)
    weights, chances = multinomial.pmf(counts, trials, p), multinomial.pmf(picks, selecting, p)
    covered = 0.0
    for pick, chance in zip(picks, chances, strict=True):
        rival = 1 if pick[1] >= pick[2] else 2
        low = lower_bound(counts[:, 0], trials, alpha / 2)
        high = upper_bound(counts[:, rival], trials, alpha / 2)
        covered += chance * float(weights[(low <= p[0]) & (high >= p[2])].sum())
    assert 0.5 < covered < 0.9  # far below the nominal 0.95


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 200), min_size=2, max_size=6),
    st.integers(0, 50),
    st.integers(0, 20),
    st.sampled_from([0.1, 0.5, 0.9]),
)
def test_lost_votes_never_help_and_the_bounds_agree(counts, invalid, extra, split):
    counts = [counts[0] + 1, *counts[1:]]
    low, high = two_class_bounds([counts], 0, invalid, 0.001, split)
    lost_low, lost_high = two_class_bounds([counts], 0, invalid + extra, 0.001, split)
    assert lost_low <= low + 1e-12
    assert lost_high >= high - 1e-12
    assert high <= 1 - low


def test_one_class_or_no_vote_says_nothing_false():
    low, high = two_class_bounds([[0, 0, 0]], 1, 0, 0.001)
    assert low[0] == 0.0
    assert high[0] == 1.0
    low, high = two_class_bounds([[10]], 0, 0, 0.001)
    assert high[0] == pytest.approx(1 - 0.0005**0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: two_class_bounds([5, 3], 0, 0, 0.1),
        lambda: two_class_bounds([[5, 3]], 2, 0, 0.1),
        lambda: two_class_bounds([[5, 3]], -1, 0, 0.1),
        lambda: two_class_bounds([[5, -3]], 0, 0, 0.1),
        lambda: two_class_bounds([[5, 3]], 0, -1, 0.1),
        lambda: two_class_bounds([[5, 3]], 0, 0, 0.0),
        lambda: two_class_bounds([[5, 3]], 0, 0, 0.1, split=1.0),
    ],
)
def test_tables_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
