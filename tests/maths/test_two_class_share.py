"""Nine tenths of alpha for the class, one for its rival: known radii, and the exact error for every p of a grid."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multinomial

from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.maths.two_class import two_class_bounds

CORNERS = [(i / 12, j / 12, 1 - i / 12 - j / 12) for i in range(13) for j in range(13 - i)]


@pytest.mark.parametrize(
    ("counts", "alone", "share", "half"),
    [
        ((10_000, 0), 3.198578, 3.194212, 3.170914),
        ((9_990, 5), 2.818598, 2.850800, 2.862909),
        ((9_500, 300), 1.579669, 1.683724, 1.687156),
        ((7_000, 1_000), 0.483579, 0.850641, 0.853140),
        ((4_500, 2_000), None, 0.311721, 0.313697),
    ],
)
def test_known_radii(counts, alone, share, half):
    # What is left of the 10 000 votes is spread over classes that each have fewer than the rival.
    left = 10_000 - sum(counts)
    table = [[*counts, *[left // 10] * 9, left - 9 * (left // 10)]]
    for split, radius in ((0.9, share), (0.5, half)):
        lower, upper = two_class_bounds(table, 0, 0, 0.001, split)
        assert 0.5 * (ndtri(lower[0]) - ndtri(upper[0])) == pytest.approx(radius, abs=6e-7)
    one = ndtri(lower_bound(counts[0], 10_000, 0.001))
    assert one == pytest.approx(alone, abs=6e-7) if alone else one < 0


def tables(trials):
    """Every table of three counts that sums to trials."""
    return np.array([(i, j, trials - i - j) for i in range(trials + 1) for j in range(trials + 1 - i)])


def exact_error(p, trials, bounds):
    """The probability that one of the two bounds fails, summed over every table of votes."""
    counts = tables(trials)
    low, high = bounds(counts)
    wrong = (low > p[0] + 1e-12) | (high < max(p[1:]) - 1e-12)
    return float(multinomial.pmf(counts, trials, p)[wrong].sum())


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("trials", [1, 3, 8, 14])
def test_the_error_is_at_most_alpha_for_every_p(trials, alpha):
    def bounds(counts):
        return two_class_bounds(counts, 0, 0, alpha, split=0.9)

    assert max(exact_error(p, trials, bounds) for p in CORNERS) <= alpha + 1e-12


def test_a_split_that_pays_twice_would_be_caught():
    """Each bound at nine tenths of alpha: 1.8 alpha together."""

    def twice(counts):
        rival = counts[:, 1:].max(axis=1)
        return lower_bound(counts[:, 0], 12, 0.9 * 0.4), upper_bound(rival, 12, 0.9 * 0.4)

    assert max(exact_error(p, 12, twice) for p in CORNERS) > 0.4


def test_a_rival_named_beforehand_would_be_caught():
    """The rival as three selection votes see it: a third class may be the runner-up."""
    picks = tables(3)

    def named(which):
        return lambda counts: (lower_bound(counts[:, 0], 40, 0.045), upper_bound(counts[:, which], 40, 0.005))

    p = (0.5, 0.05, 0.45)
    chance = multinomial.pmf(picks, 3, p)[picks[:, 1] >= picks[:, 2]].sum()
    error = chance * exact_error(p, 40, named(1)) + (1 - chance) * exact_error(p, 40, named(2))
    assert exact_error(p, 40, lambda counts: two_class_bounds(counts, 0, 0, 0.05, 0.9)) <= 0.05
    assert error > 0.1


@pytest.mark.parametrize("spent", [(0.1, 0.3), (0.2, 0.2), (0.02, 0.08)])
def test_looks_share_one_alpha(spent):
    """Two looks, the best bounds of both: the error of every path of votes, summed exactly."""
    first, second = tables(5), tables(4)
    paths = np.stack([np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))])
    looks = np.cumsum(paths, axis=0)
    early, late = (two_class_bounds(looks[i], 0, 0, spent[i], split=0.9) for i in range(2))
    low, high = np.maximum(early[0], late[0]), np.minimum(early[1], late[1])
    worst = 0.0
    for p in CORNERS:
        weight = multinomial.pmf(paths[0], 5, p) * multinomial.pmf(paths[1], 4, p)
        wrong = (low > p[0] + 1e-12) | (high < max(p[1:]) - 1e-12)
        worst = max(worst, float(weight[wrong].sum()))
    assert worst <= sum(spent)


def test_rows_may_have_an_alpha_each():
    rows = np.array([[6, 2, 1], [40, 9, 3]])
    low, high = two_class_bounds(rows, 0, [1, 0], [0.01, 0.2], 0.9)
    for i, alpha in enumerate((0.01, 0.2)):
        one = two_class_bounds(rows[i : i + 1], 0, [1 - i], alpha, 0.9)
        assert (low[i], high[i]) == (one[0][0], one[1][0])
