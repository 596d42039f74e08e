"""Selection votes that look like guesses are said, and those of a good network are not."""

import numpy as np

from smoothcert.estimators.bounds import random_answers
from smoothcert.votes import Votes


def table(*counts: int, invalid: int = 0) -> Votes:
    """The votes of one input at one look."""
    return Votes(np.array([[counts]]), np.array([[invalid]]))


class TestAdvice:
    def test_spread_votes_look_random(self) -> None:
        assert "leading class gets 30%" in str(random_answers([table(30, 25, 25, 20)] * 10, [None] * 10))

    def test_one_answer_for_all_looks_random(self) -> None:
        reason = random_answers([table(100, 0, 0, 0, 0, 0)] * 10, list(range(5)) * 2)
        assert "right on 2 of the first 10" in str(reason)

    def test_a_good_network_is_left_alone(self) -> None:
        votes = [table(*np.eye(4, dtype=int)[label] * 90 + 2) for label in (0, 1, 2, 3) * 3]
        assert random_answers(votes, [0, 1, 2, 3] * 3) is None
