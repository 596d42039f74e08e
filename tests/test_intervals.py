"""The ends of intervals by a list of all binomials, what is lost or clipped, and what cannot be had."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from smoothcert.errors import SettingError
from smoothcert.intervals import Interval, check_reach, enclosed
from smoothcert.laws import law_named
from smoothcert.radius import RadiusTarget

DRAWS = np.random.default_rng(0).permutation(np.arange(1.0, 2001.0))
TARGET = RadiusTarget(law_named("gaussian"), 2.0, 3, scale=0.5)


def test_ends_are_the_ranks_that_exact_binomials_allow_at_their_share_of_alpha():
    radii, alpha = (0.1, 0.4, 0.6), 0.01
    share = alpha / 6  # two ends of three intervals
    ranks = np.arange(1, 2001)
    for one in enclosed(DRAWS, TARGET, radii, alpha, None):
        up = ndtr(one.radius / 0.5)
        assert one.high == ranks[binom.sf(ranks - 1, 2000, up) <= share].min()
        assert one.low == ranks[binom.cdf(ranks - 1, 2000, 1 - up) <= share].max()


def test_what_is_no_number_counts_against_both_ends():
    lost = DRAWS.copy()
    lost[:40] = np.nan
    [whole], [part] = (enclosed(draws, TARGET, (0.4,), 0.01, None) for draws in (DRAWS, lost))
    assert part.low < whole.low
    assert part.high > whole.high
    [none] = enclosed(np.full(50, np.nan), TARGET, (0.1,), 0.01, None)
    assert (none.low, none.high) == (-math.inf, math.inf)


def test_bounds_are_where_an_interval_ends_at_the_latest():
    [one] = enclosed(np.ones(5), TARGET, (0.1,), 0.01, (0.0, 2.0))  # five votes decide nothing
    assert one == Interval(0.1, 0.0, 2.0)
    assert (one.width, one.contains(2.0), one.contains(2.1), one.farthest(0.5)) == (2.0, True, False, 1.5)


def test_a_radius_without_an_end_is_refused_before_a_vote():
    least = math.ceil(math.log(0.0005) / math.log(ndtr(2.0)))  # so many votes give the radius 1 at scale 0.5 an end
    check_reach(TARGET, (1.0,), least, 0.0005)
    with pytest.raises(SettingError, match=r"within the radius 1 .* the largest radius is 0\.9.*task.bounds"):
        check_reach(TARGET, (0.5, 1.0), least - 1, 0.0005)
