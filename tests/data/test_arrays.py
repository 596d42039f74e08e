"""Data sets in .npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smoothcert.data import load, load_npz
from smoothcert.errors import DataError


def save(path: Path, **arrays: np.ndarray) -> Path:
    """The path, after the arrays were saved to it."""
    np.savez(path, **arrays)
    return path


def test_images_with_labels(tmp_path: Path) -> None:
    images = np.array([[[0, 255]], [[51, 102]]], dtype=np.uint8)
    path = save(tmp_path / "images.npz", x=images, y=np.array([1, 4]), other=np.array(["passed over"]))
    data = load(str(path))
    assert (data.name, len(data), data.shape, data.classes, data.grid) == ("images.npz", 2, (1, 2), 5, 1 / 255)
    assert np.allclose(data.inputs([1]), [[[0.2, 0.4]]])
    assert data.truths([0, 1]) == [1, 4]


def test_points_without_labels(tmp_path: Path) -> None:
    data = load_npz(save(tmp_path / "points.npz", x=np.array([[0.1, 0.2, -7.0]])))
    assert (data.shape, data.classes, data.grid) == ((3,), None, None)
    assert data.inputs([0]).tolist() == np.array([[0.1, 0.2, -7.0]], dtype=np.float32).tolist()
    assert data.truths([0]) == [None]


def test_missing_inputs_name_the_keys_found(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="its keys are images, labels; needed is 'x', and 'y' for the labels"):
        load_npz(save(tmp_path / "keys.npz", images=np.zeros((1, 1)), labels=np.zeros(1)))
    with pytest.raises(DataError, match="its keys are none"):
        load_npz(save(tmp_path / "empty.npz"))


def test_wrong_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="labels are of type float64"):
        load_npz(save(tmp_path / "labels.npz", x=np.zeros((2, 1)), y=np.zeros(2))).truths([0])


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read as an \.npz file of plain arrays.*without objects"):
        load_npz(save(tmp_path / "objects.npz", x=np.array([[{}]], dtype=object)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*nothing\.npz"):
        load(str(tmp_path / "nothing.npz"))


@pytest.mark.parametrize("content", [b"", b"not a zip archive", b"\x93NUMPY"])
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="it is not a zip archive, or is cut short"):
        load_npz(path)


def test_a_cut_or_changed_file_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "cut.npz", x=np.ones((100, 10)))
    whole = path.read_bytes()
    path.write_bytes(whole[:500])
    with pytest.raises(DataError, match="cannot be read"):
        load_npz(path)
    path.write_bytes(whole[:500] + b"?" + whole[501:])
    with pytest.raises(DataError, match="cannot be read"):
        load_npz(path)
