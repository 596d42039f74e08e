"""Votes: what counts for and against a class, and when they decide."""

import numpy as np
from scipy import stats

from smoothcert.estimators.bounds import leads
from smoothcert.votes import Votes


def table(*counts: int, invalid: int = 0) -> Votes:
    """The votes of one input at one look."""
    return Votes(np.array([[counts]]), np.array([[invalid]]))


class TestVotes:
    def test_a_nan_vote_is_against_the_class_and_for_its_rival(self) -> None:
        votes = table(70, 20, invalid=10)
        assert votes.trials[0, -1] == 100
        assert [int(n[0]) for n in votes.top_two()] == [70, 30]

    def test_leads_agrees_with_the_binomial_test(self) -> None:
        for second in (0, 5, 40, 1_000):
            for first in range(second, second + 200, 3):
                expected = first > second and stats.binomtest(first, first + second).pvalue <= 0.001
                assert leads(table(first, second), 0.001) == [expected]

    def test_no_valid_vote_decides_nothing(self) -> None:
        assert leads(table(0, 0, invalid=10), 0.001) == [False]
