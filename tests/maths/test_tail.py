"""The chance that a margin is above zero: against the truth, and where margins say nothing."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from smoothcert.maths import FloatArray
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.maths.tail import DOUBT, chance_above_zero


@pytest.mark.parametrize("lead", [2.0, 2.5, 3.0])
def test_the_line_sees_further_than_a_count(lead: float) -> None:
    """400 Gaussian margins, 300 times: in Φ⁻¹ the line's error is below 0.8 of the count's. Seed fixed, so no chance."""
    margins = np.random.default_rng(0).normal(lead, 1.0, (300, 400))
    line = ndtri([chance_above_zero(row) for row in margins])
    count = ndtri(((margins > 0).sum(axis=1) + 0.5) / 401)

    def error(found: FloatArray) -> float:
        return float(np.sqrt(np.mean((found - lead) ** 2)))

    assert error(line) < 0.8 * error(count)


def test_no_more_than_the_count_allows() -> None:
    """Hard answers, ±1, draw no line: whatever it says, the votes' interval holds."""
    for losses in (1, 3, 40, 150, 400):
        margins = np.where(np.arange(400) < losses, -1.0, 1.0)
        wins = 400 - losses
        assert lower_bound(wins, 400, DOUBT) <= chance_above_zero(margins) <= upper_bound(wins, 400, DOUBT)


@pytest.mark.parametrize("value", [1.0, np.inf])
def test_margins_that_say_nothing_leave_the_count(value: float) -> None:
    assert chance_above_zero(np.full(400, value)) == pytest.approx(400.5 / 401)


def test_answers_that_are_no_numbers_are_lost() -> None:
    margins = np.random.default_rng(0).normal(5.0, 1.0, 400)
    margins[:20] = -np.inf
    assert chance_above_zero(margins) == pytest.approx(380.5 / 401)


def test_scale_does_not_matter() -> None:
    margins = np.random.default_rng(0).normal(float(ndtri(0.99)), 1.0, 1000)
    assert chance_above_zero(7 * margins) == pytest.approx(chance_above_zero(margins))
    assert chance_above_zero(margins) == pytest.approx(float(ndtr(ndtri(0.99))), abs=0.005)
