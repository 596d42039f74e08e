"""MNIST's format on disk: both splits, plain and gzipped, and every way a file may be wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from smoothcert.data import load
from smoothcert.data.idx import read_idx
from smoothcert.data.mnist import FASHION_MNIST, MNIST
from smoothcert.errors import DataError, UnknownName

IMAGES = (np.arange(3 * 28 * 28) % 256).astype(np.uint8).reshape(3, 28, 28)
LABELS = np.array([3, 1, 9], dtype=np.uint8)


def idx_bytes(array: np.ndarray) -> bytes:
    """The array in the idx format."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_split(root: Path, folder: str, prefix: str, packed: bool, labels: np.ndarray = LABELS) -> Path:
    """A tiny split in torchvision's layout; the folder it is in."""
    raw = root / folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", IMAGES), ("labels-idx1", labels)):
        content = idx_bytes(array)
        name = f"{prefix}-{kind}-ubyte"
        (raw / (name + ".gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return raw


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_a_split_is_read(tmp_path: Path, name: str, folder: str, split: str, prefix: str, packed: bool) -> None:
    write_split(tmp_path, folder, prefix, packed)
    data = load(name, root=tmp_path, split=split)
    assert (data.name, len(data), data.shape, data.classes, data.grid) == (name, 3, (1, 28, 28), 10, 1 / 255)
    assert np.array_equal(data.inputs([2])[0, 0], IMAGES[2].astype(np.float32) / np.float32(255))
    assert data.truths([0, 1, 2]) == [3, 1, 9]


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no t10k-images-idx3-ubyte \(plain or \.gz\); load it with download"):
        load("mnist", root=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_split_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'test'"):
        load("mnist", root=tmp_path, split="tests")


def test_as_many_labels_as_images(tmp_path: Path) -> None:
    write_split(tmp_path, "MNIST", "t10k", packed=False, labels=LABELS[:2])
    with pytest.raises(DataError, match=r"holds 3 images but .* holds 2 labels"):
        load("mnist", root=tmp_path)


def test_labels_beyond_the_classes_are_refused(tmp_path: Path) -> None:
    write_split(tmp_path, "MNIST", "t10k", packed=False, labels=LABELS + 1)
    with pytest.raises(DataError, match="allowed are 0 to 9"):
        load("mnist", root=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"<html>", "is not an idx file"),
        (idx_bytes(LABELS), "expected 00 00 08 03"),
        (idx_bytes(IMAGES)[:9], "is not an idx file"),
        (idx_bytes(IMAGES)[:-1], "promises 2352 bytes .* 2351 follow"),
        (idx_bytes(IMAGES) + b"0", "2353 follow"),
    ],
)
def test_a_foreign_or_damaged_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(path, dimensions=3)


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(idx_bytes(IMAGES))[:-20]])
def test_a_damaged_gzip_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read.*delete images\.gz and load the data set again"):
        read_idx(path, dimensions=3)


def test_every_origin_is_a_different_file_with_a_full_checksum() -> None:
    resources = [*MNIST.resources.values(), *FASHION_MNIST.resources.values()]
    assert len({resource.sha256 for resource in resources}) == 8
    assert all(len(bytes.fromhex(resource.sha256)) == 32 for resource in resources)
