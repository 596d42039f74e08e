"""Group-sequential tests err at most alpha (exactly, by convolution), lie in order, and settle what they can."""

from __future__ import annotations

import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothcert.errors import SettingError
from smoothcert.estimators.boundary_cache import BoundaryCache
from smoothcert.maths.boundaries import Boundary, boundary, decide, nested
from smoothcert.maths.sequential import crossing_probability, late_spending, looks

PROBABILITIES = (0.55, 0.7, 0.9, 0.99, 0.999)
ALPHA = 0.001


# --- one test


@pytest.mark.parametrize("trials", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("p0", PROBABILITIES)
def test_the_claim_is_wrong_at_most_alpha_of_the_time(p0, trials):
    test = boundary(p0, looks(trials), ALPHA)
    exact = crossing_probability(p0, test.looks, test.upper)
    assert exact <= ALPHA
    assert test.error == pytest.approx(exact, rel=1e-12)
    for smaller in (p0 * 0.999, p0 * 0.9):
        assert crossing_probability(smaller, test.looks, test.upper) <= exact + 1e-30  # what is not followed


@pytest.mark.parametrize("alpha", [0.1, 1e-6, 1e-12, 1e-20])
def test_the_claim_holds_at_any_alpha(alpha):
    test = boundary(0.9, looks(20_000), alpha)
    assert 0.7 * alpha < crossing_probability(0.9, test.looks, test.upper) <= alpha


@pytest.mark.parametrize("p0", [0.55, 0.7, 0.9, 0.99])
def test_nearly_all_of_alpha_is_used(p0):
    assert 8.5e-4 <= boundary(p0, looks(10_000), ALPHA).error <= 9.98e-4


def test_near_one_the_counts_are_too_coarse_to_use_all_of_alpha():
    test = boundary(0.999, looks(10_000), ALPHA)
    assert test.error == pytest.approx(6.32e-4, rel=1e-3)
    lowered = test.upper - (test.looks == 10_000)
    assert crossing_probability(0.999, test.looks, lowered) > 2 * ALPHA


@pytest.mark.parametrize("p0", PROBABILITIES)
def test_no_boundary_could_be_lower(p0):
    test = boundary(p0, looks(5_000), ALPHA)
    spent = np.cumsum(late_spending(test.looks, ALPHA))
    for j in range(test.looks.size):
        part, heights = test.looks[: j + 1], test.upper[: j + 1].copy()
        assert crossing_probability(p0, part, heights) <= spent[j]
        heights[j] -= 1
        assert crossing_probability(p0, part, heights) > spent[j] * (1 - 1e-8)


def test_without_paying_for_the_looks_the_error_would_be_caught():
    times = looks(10_000)
    heights = [int(boundary(0.9, [n], ALPHA).upper[0]) for n in times]  # all of alpha, at every look
    assert crossing_probability(0.9, times, heights) > 3 * ALPHA


def test_a_boundary_takes_less_than_a_second():
    began = time.perf_counter()
    boundary(0.55, looks(100_000), ALPHA)
    assert time.perf_counter() - began < 1.0


# --- giving up


@pytest.mark.parametrize("p0", PROBABILITIES)
def test_giving_up_costs_at_most_alpha_of_the_power(p0):
    test = boundary(p0, looks(10_000), ALPHA)
    assert np.all(test.lower < test.upper)
    for p in (p0, p0 + 0.1 * (1 - p0)):
        assert crossing_probability(1 - p, test.looks, test.looks - test.lower) <= ALPHA * (1 + 1e-9)


def test_giving_up_is_not_binding():
    test = boundary(0.7, looks(10_000), ALPHA)
    never = Boundary(test.p0, test.looks, test.alpha, test.upper, np.full_like(test.lower, -1), test.error)
    counts = np.minimum(test.lower, test.looks)[None, :].copy()
    counts[0, -1] = test.upper[-1]  # down at first, up in the end: still claimed, as the error allows
    assert decide(counts, [test]).claimed.tolist() == decide(counts, [never]).claimed.tolist() == [0]
    assert decide(counts[:, :12], [test]).decided.tolist() == [True]
    assert decide(counts[:, :12], [never]).decided.tolist() == [False]


# --- several p0 at one alpha


@pytest.mark.parametrize("trials", [1_000, 100_000])
def test_boundaries_lie_in_order(trials):
    tests = nested(boundary(float(p0), looks(trials), ALPHA) for p0 in np.linspace(0.5, 0.9995, 60))
    uppers, lowers = np.stack([test.upper for test in tests]), np.stack([test.lower for test in tests])
    assert np.all(np.diff(uppers, axis=0) >= 0)
    assert np.all(np.diff(lowers, axis=0) >= 0)
    assert all(test.error <= ALPHA for test in tests)


def test_a_boundary_out_of_order_is_raised_and_its_error_falls():
    low, high = boundary(0.6, [50, 100], 0.05), boundary(0.7, [50, 100], 0.05)
    broken = Boundary(0.7, high.looks, 0.05, low.upper - 5, low.lower - 5, 1.0)
    first, second = nested([broken, low])
    assert first.p0 == 0.6
    assert second.p0 == 0.7
    assert np.array_equal(second.upper, low.upper)
    assert np.array_equal(second.lower, low.lower)
    assert second.error == crossing_probability(0.7, low.looks, low.upper)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.55, 0.6, 0.65, 0.7])
def test_a_whole_grid_errs_at_most_alpha_by_enumerating_every_run(p):
    times, grid, alpha = np.array([3, 6, 10]), (0.5, 0.6, 0.7), 0.1
    runs = np.array(list(itertools.product([0, 1], repeat=10)))
    counts = np.cumsum(runs, axis=1)[:, times - 1]
    weights = np.prod(np.where(runs == 1, p, 1 - p), axis=1)
    claimed = decide(counts, nested(boundary(p0, times, alpha) for p0 in grid)).claimed
    wrong = [index for index, p0 in enumerate(grid) if p0 >= p]
    assert set(claimed) == {-1, 0, 1, 2}  # the enumeration sees every answer
    assert math.fsum(weights[claimed >= min(wrong)]) <= alpha


def plain_decision(history, tests):
    """``decide`` for one input, in the words of its docstring."""
    claimed = -1
    for index, test in enumerate(tests):
        if not any(count >= height for count, height in zip(history, test.upper, strict=False)):
            break
        claimed = index
    given_up = [
        any(count <= depth for count, depth in zip(history, test.lower, strict=False)) for test in tests[claimed + 1 :]
    ]
    return claimed, len(history) == tests[0].looks.size or not given_up or given_up[0]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 20))
def test_deciding_is_what_it_says_and_more_votes_for_it_never_claim_less(steps, extra):
    times = 20 * np.arange(1, 6)
    tests = nested(boundary(p0, times, 0.05) for p0 in (0.5, 0.6, 0.75, 0.9))
    counts = np.cumsum(steps)[None, :]
    more = np.minimum(counts + extra, times[: len(steps)])
    decision = decide(counts, tests)
    assert (decision.claimed[0], decision.decided[0]) == plain_decision(counts[0].tolist(), tests)
    assert decide(more, tests).claimed[0] >= decision.claimed[0]


def test_what_is_claimed_stays_claimed():
    generator = np.random.default_rng(0)
    times = looks(5_000)
    tests = nested(boundary(p0, times, ALPHA) for p0 in (0.6, 0.7, 0.8))
    counts = np.cumsum(generator.binomial(np.diff(times, prepend=0), 0.71, (200, times.size)), axis=1)
    claims = np.stack([decide(counts[:, :j], tests).claimed for j in range(1, times.size + 1)])
    assert np.all(np.diff(claims, axis=0) >= 0)
    assert set(claims[-1]) <= {-1, 0, 1}
    assert decide(counts, tests).decided.all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: boundary(0.0, [10], 0.1),
        lambda: boundary(1.0, [10], 0.1),
        lambda: boundary(0.5, [10], 0.0),
        lambda: decide([[1]], []),
        lambda: decide([[1, 2]], [boundary(0.5, [10], 0.1)]),
        lambda: decide([[1]], [boundary(0.6, [10], 0.1), boundary(0.5, [10], 0.1)]),
        lambda: decide([[1]], [boundary(0.5, [10], 0.1), boundary(0.6, [10], 0.2)]),
        lambda: nested([boundary(0.5, [10], 0.1), boundary(0.6, [20], 0.1)]),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()


# --- the cache


def same(one, other):
    arrays = all(np.array_equal(getattr(one, each), getattr(other, each)) for each in ("looks", "upper", "lower"))
    return arrays and (one.p0, one.alpha, one.error) == (other.p0, other.alpha, other.error)


def test_a_stored_boundary_is_read_back_as_it_was(tmp_path, monkeypatch):
    first = BoundaryCache(tmp_path).get(0.9, [100, 200], ALPHA)
    monkeypatch.setattr("smoothcert.maths.boundaries._uppers", None)  # nothing may be computed now
    assert same(BoundaryCache(tmp_path).get(0.9, [100, 200], ALPHA), first)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[:200],
        lambda whole: whole[:300] + whole[301:],
        *(lambda whole, at=at: whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(0, 800, 50)),
    ],
)
def test_a_damaged_file_is_ignored_and_rewritten(tmp_path, damage):
    first = BoundaryCache(tmp_path).get(0.9, [100, 200], ALPHA)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.warns(UserWarning, match="is damaged"):
        assert same(BoundaryCache(tmp_path).get(0.9, [100, 200], ALPHA), first)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert same(BoundaryCache(tmp_path).get(0.9, [100, 200], ALPHA), first)
    assert len(path.read_bytes()) == len(whole)


def test_a_file_about_another_test_is_not_believed(tmp_path):
    cache = BoundaryCache(tmp_path)
    cache.get(0.5, [100, 200], ALPHA)
    (other,) = tmp_path.iterdir()
    wanted = cache.get(0.9, [100, 200], ALPHA)
    for path in tmp_path.iterdir():
        path.write_bytes(other.read_bytes())
    with pytest.warns(UserWarning, match="was renamed"):
        assert same(BoundaryCache(tmp_path).get(0.9, [100, 200], ALPHA), wanted)


def test_different_settings_are_different_entries(tmp_path):
    cache = BoundaryCache(tmp_path)
    keys = [(0.9, [100, 200], 0.001), (0.9, [100, 200], 0.002), (0.9, [100, 201], 0.001), (0.91, [100, 200], 0.001)]
    assert len({id(cache.get(*key)) for key in keys}) == len(list(tmp_path.iterdir())) == 4
    assert [test.p0 for test in cache.grid([0.9, 0.5, 0.9], [100, 200], 0.001)] == [0.5, 0.9]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("not a folder")
    assert same(BoundaryCache(blocked).get(0.9, [100], ALPHA), boundary(0.9, [100], ALPHA))


def test_many_writers_at_once_leave_whole_files(tmp_path):
    settings = [(p0, [100, 200], ALPHA) for p0 in (0.6, 0.7, 0.8)] * 8
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda key: BoundaryCache(tmp_path).get(*key), settings))
    assert all(same(test, boundary(*key)) for test, key in zip(found, settings, strict=True))
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".arrays"] * 3


def test_a_shared_boundary_cannot_be_changed():
    test = BoundaryCache().get(0.9, [100], ALPHA)
    with pytest.raises(ValueError, match="read-only"):
        test.upper[0] = 0
