"""CIFAR-10, 32×32 colour images of 10 classes, from the official Python batches.

ROOT holds either the folder cifar-10-batches-py or the archive cifar-10-python.tar.gz, which is read as it is: nothing
is unpacked to disk. The batches are pickles, and a pickle may name any function to call; ours are opened by a reader
that knows the few names the official files need and refuses every other.

Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009).
"""

from __future__ import annotations

import codecs
import io
import pickle
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import Progress
from smoothcert.data.download import Resource, missing, retrieve
from smoothcert.data.rows import ArrayDataset
from smoothcert.errors import DataError, look_up

FOLDER = "cifar-10-batches-py"
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
SPLITS = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
LARGEST_BATCH = 64_000_000
"""Bytes; an official batch has 31 million. What unpacks to more than this is not one."""

ARCHIVE = Resource(
    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    # From Keras (github.com/keras-team/keras), keras/src/datasets/cifar10.py
    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    "cifar-10-python.tar.gz",
)


def load_cifar10(
    root: Path,
    split: str = "test",
    download: bool = False,
    progress: Progress | None = None,
    archive: Resource = ARCHIVE,
) -> ArrayDataset:
    """CIFAR-10: 50 000 images to train and 10 000 to test, shape (3, 32, 32)."""
    names = look_up("split", split, SPLITS)
    folder, packed = root / FOLDER, root / archive.file_name
    if all((folder / name).is_file() for name in names):
        batches = [_read_batch(str(folder / name), _content(folder / name)) for name in names]
    else:
        if not packed.is_file():
            if not download:
                raise missing("cifar10", root, f"{FOLDER} with {', '.join(names)}, and no {packed.name}", archive)
            retrieve(archive, root, progress)
        batches = [_read_batch(f"{packed}/{name}", content) for name, content in _unpack(packed, names).items()]
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return ArrayDataset("cifar10", images, labels, classes=len(NAMES), class_names=NAMES)


class RestrictedUnpickler(pickle.Unpickler):
    """A reader of pickles that rebuilds arrays of numbers and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        """The function or type that a pickle may name, or a DataError that says what it asked for."""
        try:
            return _allowed()[module, name]
        except KeyError:
            raise DataError(
                f"refused to call {module}.{name}, which this pickle names; allowed are only the parts of numpy arrays"
            ) from None


def _allowed() -> dict[tuple[str, str], Any]:
    """Every name that the official batches use; numpy's rebuilder of arrays has lived under two module names."""
    rebuild = np.empty(0).__reduce__()[0]
    return {
        ("numpy.core.multiarray", "_reconstruct"): rebuild,
        ("numpy._core.multiarray", "_reconstruct"): rebuild,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _encode,
    }


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Text as bytes by latin1, which is how an old pickle spells bytes; other codecs may unpack or expand."""
    if codecs.lookup(encoding).name != "iso8859-1":
        raise DataError(f"refused the codec {encoding!r}, which this pickle names; allowed is only latin1")
    return text.encode("latin1")


def _read_batch(where: str, content: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """The images, (n, 3, 32, 32), and the labels, (n,), of one pickled batch."""
    try:
        # Python 2 wrote the official files: their texts arrive as bytes.
        batch = RestrictedUnpickler(io.BytesIO(content), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{where}: {error}; {_REMEDY}") from error
    except Exception as error:  # a damaged pickle fails in any way it likes
        raise DataError(f"{where} cannot be read as a pickle: {type(error).__name__}: {error}; {_REMEDY}") from error
    images, labels = _entry(where, batch, "data"), _entry(where, batch, "labels")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (3072,):
        got = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise DataError(f"{where}: 'data' is {got}; expected uint8 of shape (n, 3072); {_REMEDY}")
    if not isinstance(labels, list) or len(labels) != len(images) or not all(type(label) is int for label in labels):
        raise DataError(f"{where}: 'labels' must be a list of {len(images)} integers; {_REMEDY}")
    return images.reshape(-1, *SHAPE), np.array(labels)


def _entry(where: str, batch: Any, key: str) -> Any:
    """The entry of a batch whose keys are texts or, written by Python 2, bytes."""
    entries: Mapping[Any, Any] = batch if isinstance(batch, dict) else {}
    for spelling in (key.encode(), key):
        if spelling in entries:
            return entries[spelling]
    found = ", ".join(repr(found) for found in entries) or f"none, it is a {type(batch).__name__}"
    raise DataError(f"{where} is not a batch of CIFAR-10: it has no {key!r}; its keys are: {found}; {_REMEDY}")


def _content(path: Path) -> bytes:
    """The bytes of a batch on disk."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}; {_REMEDY}") from error


def _unpack(archive: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The contents of the named batches in the archive, in the order of the names; other members are passed over."""
    wanted = {f"{FOLDER}/{name}": name for name in names}
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                file = members.extractfile(member) if member.name in wanted and member.isreg() else None
                if file is not None and member.size <= LARGEST_BATCH:
                    found[wanted[member.name]] = file.read()
                if len(found) == len(wanted):
                    break
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{archive} cannot be read: {error}; {_REMEDY}") from error
    absent = [name for name in names if name not in found]
    if absent:
        raise DataError(f"{archive} holds no usable {', '.join(absent)} in {FOLDER}; {_REMEDY}")
    return {name: found[name] for name in names}


_REMEDY = "delete it and load the data set again with download=True"
