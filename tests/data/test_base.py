"""Data sets in memory: values, labels, fingerprints, and the errors of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smoothcert.data import ArrayDataset, Dataset
from smoothcert.errors import DataError

IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 1, 2, 3)
POINTS = np.linspace(-1, 1, 12).reshape(4, 3)


def test_a_dataset_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Dataset()  # type: ignore[abstract]


def test_every_pixel_value_is_the_float32_nearest_to_k_255ths() -> None:
    every = ArrayDataset("every", np.arange(256, dtype=np.uint8)[None])
    got = every.inputs([0])
    assert got.dtype == np.float32
    assert got.tolist() == [[float(np.float32(k / 255)) for k in range(256)]]
    assert every.grid == 1 / 255


def test_inputs_and_truths_follow_the_order_of_the_indices() -> None:
    images = ArrayDataset("images", IMAGES, [0, 2, 1, 2])
    assert images.inputs([3, 0, 3]).shape == (3, 1, 2, 3)
    assert np.array_equal(images.inputs([3, 0]) * 255, IMAGES[[3, 0]])
    assert images.truths([3, 0, 1]) == [2, 0, 2]
    assert all(type(truth) is int for truth in images.truths(range(4)))
    assert images.classes == 3


def test_no_indices_give_no_inputs() -> None:
    assert ArrayDataset("images", IMAGES).inputs([]).shape == (0, 1, 2, 3)


def test_real_values_are_rounded_to_float32_and_have_no_grid() -> None:
    points = ArrayDataset("points", POINTS)
    assert points.grid is None
    assert points.classes is None
    assert points.truths([1, 2]) == [None, None]
    assert np.array_equal(points.inputs([1]), POINTS[[1]].astype(np.float32))


def test_nan_and_overflow_are_left_for_the_smoother() -> None:
    odd = ArrayDataset("odd", np.array([[np.nan, 1e300]]))
    assert np.isnan(odd.inputs([0])[0, 0])
    assert np.isinf(odd.inputs([0])[0, 1])


def test_changing_what_was_handed_out_changes_nothing() -> None:
    points = ArrayDataset("points", POINTS)
    before = points.fingerprint()
    points.inputs([0, 1])[:] = 7
    assert points.fingerprint() == before


@pytest.mark.parametrize("index", [-1, 4, 10**30])
def test_an_index_outside_is_refused(index: int) -> None:
    images = ArrayDataset("images", IMAGES, [0, 1, 0, 1])
    for read in (images.inputs, images.truths):
        with pytest.raises(DataError, match=f"no input {index}: it holds 4 inputs, 0 to 3"):
            read([0, index])


def test_the_fingerprint_is_that_of_the_content() -> None:
    labels = [0, 1, 2, 3]
    one = ArrayDataset("one", IMAGES, labels).fingerprint()
    assert len(one) == 64
    same = ArrayDataset("another name", np.asfortranarray(IMAGES), np.array(labels, dtype=np.uint8))
    assert one == same.fingerprint()
    changed = IMAGES.copy()
    changed[2, 0, 1, 1] += 1
    others = [
        ArrayDataset("one", changed, labels),
        ArrayDataset("one", IMAGES, [0, 1, 3, 2]),
        ArrayDataset("one", IMAGES),
        ArrayDataset("one", IMAGES.reshape(4, 6), labels),
        ArrayDataset("one", IMAGES.astype(float), labels),
    ]
    assert len({one, *(other.fingerprint() for other in others)}) == 6


def test_the_fingerprint_does_not_depend_on_the_byte_order_or_the_release() -> None:
    big = ArrayDataset("big", np.array([[1.5, 2.5]], dtype=">f4"), [1])
    assert big.fingerprint() == ArrayDataset("little", np.array([[1.5, 2.5]], dtype="<f4"), [1]).fingerprint()
    assert big.fingerprint() == "e49cd6da78cfef7693f127fd0b23ad213154766926935492c6f37b6c5c232792"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[0, 255]]), "int64 from 0 to 255, which may be 8-bit pixels or numbers"),
        (np.array([[0, 2]], dtype=np.int8), "int8 from 0 to 2, which may be"),
        (np.array([[0, 2**24 + 1]]), "from 0 to 16777217; float32"),
        (np.array([[-(2**63), 0]]), "from -9223372036854775808 to 0; float32"),
        (np.zeros((2, 3), dtype=complex), "of type complex128"),
        (np.array([["a"]]), "allowed are uint8"),
        (np.zeros(3), r"shape \(3,\); allowed is"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros((3, 0)), r"shape \(3, 0\)"),
    ],
)
def test_values_that_are_no_inputs_are_refused(values: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArrayDataset("bad", values)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0.0, 1.0, float("nan"), 3.0], None, "no finite number"),
        ([True, False, True, False], None, "labels are of type bool"),
        ([0, 1, 2], None, r"shape \(3,\); allowed is \(4,\)"),
        ([[0], [1], [2], [3]], None, r"shape \(4, 1\)"),
        ([0, 1, -1, 2], None, "from -1 to 2; allowed are integers from 0"),
        ([0, 1, 10, 2], 10, "from 0 to 10; allowed are 0 to 9"),
    ],
)
def test_labels_that_are_none_are_refused(labels: list[int], classes: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArrayDataset("bad", IMAGES, labels, classes)


def test_real_labels_are_targets_and_no_classes() -> None:
    numbers = ArrayDataset("numbers", IMAGES, [0.5, -1.0, 2.0, 3.0])
    assert (numbers.classes, numbers.targets([1, 0])) == (None, [-1.0, 0.5])
    with pytest.raises(DataError, match=r"labels are of type float64, such as 0\.5.*--task regression"):
        numbers.truths([0])
    assert ArrayDataset("classes", IMAGES, [0, 1, 2, 1]).targets([2]) == [2.0]
    assert ArrayDataset("none", IMAGES).targets([2]) == [None]


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float32, np.float64, np.longdouble, bool, np.int8, np.int16, np.uint16, np.int64, np.uint64],
)
def test_numbers_of_any_type_are_the_same_data(dtype: Any) -> None:
    """Zeros and ones are numbers, whatever they are kept as, and in uint8 alone they are pixels."""
    bits = np.array([[0, 1, 1], [1, 0, 0]])
    data = ArrayDataset("bits", bits.astype(dtype))
    assert (data.grid, data.inputs([1]).tolist()) == (None, [[1.0, 0.0, 0.0]])
    assert data.fingerprint() == ArrayDataset("bits", bits.astype(np.float32)).fingerprint()
    assert ArrayDataset("pixels", bits.astype(np.uint8)).grid == 1 / 255


def test_whole_numbers_that_are_no_pixels_are_kept() -> None:
    assert ArrayDataset("counts", np.array([[-3, 2**24]])).inputs([0]).tolist() == [[-3.0, 2.0**24]]
    assert ArrayDataset("counts", np.array([[0, 256]], dtype=np.uint16)).inputs([0]).tolist() == [[0.0, 256.0]]
