"""What an adversary may replace: which inputs a region holds, and what is refused."""

import itertools

import numpy as np
import pytest

from smoothcert.errors import InputError, SettingError, UnknownName
from smoothcert.threats import Coordinates, Patch, ReplacedRegion, Span, Threat, threat_named


def marked(shape: tuple[int, ...], places: set[tuple[int, ...]]) -> np.ndarray:
    point = np.zeros(shape)
    for place in places:
        point[(..., *place)] = 0.5
    return point


@pytest.mark.parametrize("size", range(4))
def test_a_patch_holds_what_some_square_covers(size: int) -> None:
    """All 4 096 sets of pixels of a 3 × 4 picture, against every place of the square, none of them wrapped."""
    pixels = list(itertools.product(range(3), range(4)))
    squares = [
        {(row + i, column + j) for i in range(size) for j in range(size)}
        for row in range(-3, 3)
        for column in range(-3, 4)
    ]
    region = ReplacedRegion(np.zeros((2, 3, 4)), Patch(size))
    for bits in range(2**12):
        chosen = {pixel for k, pixel in enumerate(pixels) if bits >> k & 1}
        expected = any(chosen <= square for square in squares) or not chosen
        assert region.contains(marked((2, 3, 4), chosen)) == expected, chosen


@pytest.mark.parametrize("size", range(5))
def test_spans_and_coordinates_of_a_line(size: int) -> None:
    span, few = (ReplacedRegion(np.zeros(7), threat) for threat in (Span(size), Coordinates(size)))
    for bits in itertools.product([0.0, 1.0], repeat=7):
        at = [i for i, bit in enumerate(bits) if bit]
        assert span.contains(bits) == (not at or max(at) - min(at) < size)
        assert few.contains(bits) == (len(at) <= size)


def test_a_pixel_is_one_place_with_all_its_channels() -> None:
    point = np.zeros((3, 4, 4))
    point[:, 1, 2] = 1.0
    assert ReplacedRegion(np.zeros((3, 4, 4)), Coordinates(1)).contains(point)
    point[0, 0, 0] = 1.0
    assert not ReplacedRegion(np.zeros((3, 4, 4)), Coordinates(1)).contains(point)


def test_what_is_no_number_differs() -> None:
    region = ReplacedRegion(np.zeros(3), Coordinates(1))
    assert region.contains([np.nan, 0, 0])
    assert not region.contains([np.nan, np.nan, 0])
    with pytest.raises(InputError, match="shape"):
        region.contains([0.0])


@pytest.mark.parametrize(
    ("threat", "words", "most"), [("patch:5", "a 5 × 5 patch", 28), ("l0:3", "any 3 coordinates", 28 * 28)]
)
def test_names(threat: str, words: str, most: int) -> None:
    found = threat_named(threat)
    assert (str(found), found.words, found.most((1, 28, 28))) == (threat, words, most)
    assert threat_named(found) is found


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("pach:5", UnknownName, "did you mean 'patch'"),
        ("patch", SettingError, "write patch:5"),
        ("patch:-1", SettingError, "whole number"),
        ("patch:2.5", SettingError, "whole number"),
        ("span:x", SettingError, "whole number"),
    ],
)
def test_bad_names(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        threat_named(text)


@pytest.mark.parametrize(
    ("threat", "shape", "says"),
    [
        (Patch(29), (1, 28, 28), "larger than inputs"),
        (Coordinates(5), (4,), "larger than inputs"),
        (Patch(1), (12,), "no pictures"),
        (Span(1), (3, 4, 4), "no lines"),
    ],
)
def test_threats_that_do_not_fit(threat: Threat, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        threat.check(shape)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(SettingError, match="from 0 up"):
        Patch(-1)
