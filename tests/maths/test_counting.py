"""How many views may change: against every redistribution of small votes, and against fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.maths.counting import (
    chunks_met,
    counted_reach,
    largest_size,
    met_on_ring,
    rounded_down,
    sampled_reach,
    subsets_met,
)


def winner(votes: tuple[int, ...]) -> int:
    """The class with most votes, the first of equals; the last place counts those that abstain."""
    return max(range(len(votes) - 1), key=lambda label: (votes[label], -label))


def least_flip(votes: tuple[int, ...]) -> int:
    """The fewest changed views with which another class wins, over all other outcomes of as many views."""
    total = sum(votes)
    outcomes = itertools.product(range(total + 1), repeat=len(votes) - 1)
    others = ((*outcome, total - sum(outcome)) for outcome in outcomes if sum(outcome) <= total)
    flips = [o for o in others if winner(o) != winner(votes)]
    return min(sum(max(before - after, 0) for before, after in zip(votes, o, strict=True)) for o in flips)


SMALL = [votes for votes in itertools.product(range(5), repeat=4) if 1 <= sum(votes) <= 6]


def test_the_reach_is_the_least_flip_less_one() -> None:
    """Not one view more is true: 174 votes of three classes and abstentions, every outcome tried."""
    assert len(SMALL) > 150
    for votes in SMALL:
        label, reach = counted_reach(votes[:-1])
        assert (int(label), int(reach)) == (winner(votes), least_flip(votes) - 1), votes


def test_oracles() -> None:
    labels, reaches = counted_reach([[300, 150, 60], [150, 300, 60], [0, 0, 0], [5, 5, 5], [0, 0, 1]])
    assert labels.tolist() == [0, 1, 0, 0, 2]
    assert reaches.tolist() == [75, 74, 0, 0, 0]
    assert pytest.approx(0.294118, abs=1e-6) == 75 / 255


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_arcs_on_a_ring_of_nine(width: int, size: int) -> None:
    arcs = [{(start + i) % 9 for i in range(width)} for start in range(9)]
    met = [sum(bool(arc & {(place + i) % 9 for i in range(size)}) for arc in arcs) for place in range(9)]
    assert max(met) == met_on_ring(9, width, size)


@pytest.mark.parametrize(("length", "chunk"), [(12, 3), (13, 3), (7, 1), (9, 4), (5, 5)])
def test_chunks_by_trying_every_place(length: int, chunk: int) -> None:
    for size in range(1, length + 1):
        met = [len({p // chunk for p in range(start, start + size)}) for start in range(length - size + 1)]
        assert max(met) <= chunks_met(length, chunk, size)
        if size <= length - chunk:
            assert max(met) == chunks_met(length, chunk, size)


def test_subsets_by_listing_them() -> None:
    every = list(itertools.combinations(range(8), 3))
    for replaced in range(9):
        met = sum(bool(set(range(replaced)) & set(subset)) for subset in every)
        assert subsets_met(8, 3, replaced) == met
    assert subsets_met(8, 3, 2) / math.comb(8, 3) == pytest.approx(0.642857, abs=1e-6)


@pytest.mark.parametrize(("replaced", "share"), [(1, 0.0574), (2, 0.1116), (4, 0.2109), (8, 0.3782), (10, 0.4482)])
def test_shares_of_784_pixels(replaced: int, share: float) -> None:
    by_logs = -math.expm1(sum(math.log1p(-replaced / (784 - i)) for i in range(45)))
    exact = Fraction(subsets_met(784, 45, replaced), math.comb(784, 45))
    assert float(exact) == pytest.approx(by_logs, rel=1e-12)
    assert float(exact) == pytest.approx(share, abs=5e-5)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 10**30))
def test_sampled_reach_is_the_last_that_holds(lower: float, upper: float, views: int) -> None:
    reach, gap = sampled_reach(lower, upper, views), Fraction(lower) - Fraction(upper)
    assert reach == -1 or gap > Fraction(2 * reach, views)
    assert gap <= Fraction(2 * (reach + 1), views)


def test_sampled_views_never_reach_further_than_all_of_them() -> None:
    """With probabilities known exactly the sampled rule is at most the counted one, and less only at ties."""
    for votes in SMALL:
        ordered = sorted(votes[:-1], reverse=True)
        total = sum(votes)
        sampled = sampled_reach(Fraction(ordered[0], total), Fraction(ordered[1], total), total)
        counted = int(counted_reach(votes[:-1])[1])
        assert sampled <= counted <= sampled + 1


@given(st.integers(0, 60), st.lists(st.integers(0, 5), min_size=0, max_size=12))
def test_largest_size_is_the_last_that_fits(reach: int, rises: list[int]) -> None:
    touched = np.concatenate([[0], np.cumsum(rises)]).astype(int).tolist()
    found = largest_size(touched.__getitem__, len(rises), reach)
    assert found == max(size for size, views in enumerate(touched) if views <= reach)


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_rounded_down_is_the_largest_float_below(a: int, b: int) -> None:
    value, found = Fraction(a, b), rounded_down(Fraction(a, b))
    assert Fraction(found) <= value < Fraction(math.nextafter(found, math.inf))
