"""The robustness score, its envelope, and the averages of the top radii, against values computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.certificates import Soundness
from smoothcert.errors import SettingError
from smoothcert.metrics.curves import average_certified_radius, certified_accuracy
from smoothcert.metrics.score import envelope, robustness_score
from smoothcert.records.record import Record
from smoothcert.testing.records import RECORD


def run(*radii: float) -> list[Record]:
    """Right answers at these radii; a negative one stands for a wrong answer at its size."""
    return [replace(RECORD, index=at, radius=abs(r), label=1 if r >= 0 else 0) for at, r in enumerate(radii)]


SMALL = run(0.5, 0.5, 0.5, -3.0)  # accuracy 3/4 up to 0.5
LARGE = run(2.0, 1.0, -1.0, -1.0)  # 1/2 up to 1, 1/4 up to 2


def test_the_envelope_takes_the_best_run_at_each_radius() -> None:
    radii = [0.0, 0.5, 0.51, 1.0, 1.5, 2.0, 2.1]
    np.testing.assert_array_equal(envelope([SMALL, LARGE], radii), [0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0.0])
    np.testing.assert_array_equal(envelope([SMALL], radii), certified_accuracy(SMALL, radii))


@pytest.mark.parametrize(
    ("largest", "area"),
    [(0.25, 0.1875), (0.5, 0.375), (0.75, 0.5), (1.0, 0.625), (1.5, 0.75), (2.0, 0.875), (9.0, 0.875)],
)
def test_hand_computed_areas(largest: float, area: float) -> None:
    assert robustness_score([SMALL, LARGE], largest).value == area
    assert robustness_score([LARGE, SMALL, SMALL], largest).value == area


def test_the_score_says_what_it_is_of() -> None:
    score = robustness_score([SMALL, [replace(each, soundness=Soundness.FROZEN) for each in LARGE]], 1.0)
    assert (score.classifiers, score.largest, score.norm, score.soundness) == (2, 1.0, 2.0, Soundness.FROZEN)
    assert str(score) == "robustness score 0.6250 of the envelope of 2 classifiers, l2 radii up to 1 [frozen]"
    assert "of one classifier" in str(robustness_score([SMALL], 1.0))


@given(st.lists(st.floats(-4, 4), min_size=1, max_size=12))
def test_of_one_run_and_far_out_it_is_the_average_certified_radius(radii: list[float]) -> None:
    records = run(*radii)
    assert math.isclose(robustness_score([records], 5.0).value, average_certified_radius(records), abs_tol=1e-12)


@given(st.lists(st.lists(st.floats(-4, 4), min_size=1, max_size=6), min_size=1, max_size=4), st.floats(0.1, 5))
def test_between_the_best_run_and_the_sum_of_all(all_radii: list[list[float]], largest: float) -> None:
    runs = [run(*radii) for radii in all_radii]
    alone = [robustness_score([records], largest).value for records in runs]
    together = robustness_score(runs, largest).value
    assert max(alone) - 1e-12 <= together <= min(sum(alone), largest) + 1e-12


def test_mistakes() -> None:
    for largest in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(SettingError, match="finite radius above 0"):
            robustness_score([SMALL], largest)
    for runs in ([], [SMALL, []]):
        with pytest.raises(SettingError, match="at least one record"):
            envelope(runs, [0.0])
    with pytest.raises(SettingError, match="different norms \\(l1, l2\\)"):
        robustness_score([SMALL, [replace(RECORD, norm=1.0)]], 1.0)
