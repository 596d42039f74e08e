"""Which inputs a run takes."""

from __future__ import annotations

import pytest

from smoothcert.data import choose_indices, parse_indices
from smoothcert.errors import DataError, SettingError, SmoothcertError


def test_all_by_default() -> None:
    assert choose_indices(3) == [0, 1, 2]


def test_limit_counts_what_skip_left() -> None:
    assert choose_indices(100, skip=20) == [0, 20, 40, 60, 80]
    assert choose_indices(100, limit=2, skip=20) == [0, 20]
    assert choose_indices(3, limit=10) == [0, 1, 2]


def test_a_list_is_taken_in_its_order() -> None:
    assert choose_indices(10, indices=(9, 0, 4)) == [9, 0, 4]


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"skip": 0}, SettingError, "skip is 0; allowed"),
        ({"limit": 0}, SettingError, "limit is 0; allowed"),
        ({"indices": [1], "limit": 2}, SettingError, "together with skip=1, limit=2"),
        ({"indices": [1], "skip": 2}, SettingError, "together with skip=2, limit=None"),
        ({"indices": []}, SettingError, "empty"),
        ({"indices": [1, 2, 1]}, SettingError, "index 1 is listed twice"),
        ({"indices": [1, 10]}, DataError, "index 10 is outside the data set: it holds 10 inputs, 0 to 9"),
        ({"indices": [-1]}, DataError, "index -1 is outside"),
    ],
)
def test_wrong_choices_are_refused(settings: dict, kind: type[SmoothcertError], message: str) -> None:
    with pytest.raises(kind, match=message):
        choose_indices(10, **settings)


@pytest.mark.parametrize(
    ("text", "expected"), [("7", [7]), ("0,5,10-12", [0, 5, 10, 11, 12]), (" 3 - 4 , 1", [3, 4, 1]), ("5-5", [5])]
)
def test_texts_are_parsed(text: str, expected: list[int]) -> None:
    assert parse_indices(text) == expected


@pytest.mark.parametrize("text", ["", "1,,2", "a", "-1", "1.5", "1-", "1-2-3", "٣", "0x10", "9" * 400])
def test_what_is_no_index_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"allowed are whole numbers from 0 and ranges, as in 0,5,10-19"):
        parse_indices(text)


@pytest.mark.parametrize("text", ["5-4", "0-999999999999"])
def test_empty_and_endless_ranges_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="empty or longer than"):
        parse_indices(text)
