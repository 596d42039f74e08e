"""What a data set is: inputs by index, their true classes, and a fingerprint of both."""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.errors import DataError
from smoothcert.maths.boxed import Box

FloatArray = npt.NDArray[np.float32]
Progress = Callable[[int, int | None], None]
"""Told of a download: bytes done, and bytes in all or None when the server does not say."""

PIXEL_GRID = 1 / 255
"""The distance of two neighbouring values of an 8-bit pixel."""
PIXEL_BOX = Box(0.0, 1.0)
"""What pixels lie in."""


class Dataset(ABC):
    """Inputs of one shape, numbered from 0, with or without true classes.

    name     what it is called in records and reports
    shape    the shape of one input: (1, 28, 28), (30,), …
    classes  how many classes there are; None when there are no labels
    grid     1/255 when the inputs are 8-bit images, with pixels k/255 as float32; None for real values
    class_names  what the classes are called, in order; none where they are numbers
    """

    name: str
    shape: tuple[int, ...]
    classes: int | None
    grid: float | None
    class_names: tuple[str, ...] = ()

    @property
    def box(self) -> Box | None:
        """What every coordinate of every input lies in: 0..1 for 8-bit images; None where nobody has said."""
        return None if self.grid is None else PIXEL_BOX

    @abstractmethod
    def __len__(self) -> int:
        """How many inputs there are."""

    @abstractmethod
    def inputs(self, indices: Sequence[int]) -> FloatArray:
        """The inputs of these indices, float32, (n, *shape); an index outside is a DataError."""

    @abstractmethod
    def truths(self, indices: Sequence[int]) -> list[int | None]:
        """The true class of each of these indices, None where it is not known."""

    def targets(self, indices: Sequence[int]) -> list[float | None]:
        """The true number of each of these indices, None where it is not known: what regression is compared with."""
        return [None if truth is None else float(truth) for truth in self.truths(indices)]

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the inputs and their labels: the same for the same content, anywhere."""


class ArrayDataset(Dataset):
    """A data set held in memory: uint8 values are images on the grid, and so are floats that are all k/255; see ``pixels_of``.

    ``values`` is (n, *shape); real values are rounded to float32, and the rounded value is the input. ``labels`` is
    (n,), integers from 0, or None; real numbers are targets of regression, and have no classes. ``classes`` defaults to
    the largest label plus one.

    >>> images = np.array([[[[0, 51]]], [[[255, 102]]]], dtype=np.uint8)
    >>> two = ArrayDataset("two", images, labels=[1, 0])
    >>> len(two), two.shape, two.classes, two.grid == 1 / 255
    (2, (1, 1, 2), 2, True)
    >>> two.inputs([1]).tolist(), two.truths([1, 0])
    ([[[[1.0, 0.4000000059604645]]]], [0, 1])
    """

    def __init__(
        self,
        name: str,
        values: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        classes: int | None = None,
        class_names: Sequence[str] = (),
    ) -> None:
        self._values = _checked_values(name, np.asarray(values))
        self._labels = None if labels is None else _checked_labels(name, np.asarray(labels), len(self._values), classes)
        self.name, self.class_names = name, tuple(class_names)
        self.shape = self._values.shape[1:]
        self.grid = PIXEL_GRID if self._values.dtype == np.uint8 else None
        self.classes = None
        if self._labels is not None and self._labels.dtype.kind == "i":
            self.classes = int(self._labels.max()) + 1 if classes is None else classes

    def __len__(self) -> int:
        return len(self._values)

    def inputs(self, indices: Sequence[int]) -> FloatArray:
        chosen = self._values[check_indices(self.name, indices, len(self))]
        return pixels_to_inputs(chosen) if self.grid is not None else chosen

    def truths(self, indices: Sequence[int]) -> list[int | None]:
        if self._labels is not None and self._labels.dtype.kind == "f":
            raise DataError(
                f"data set {self.name!r}: the labels are of type {self._labels.dtype}, such as {self._labels[0]:g}; a classifier needs "
                "integers from 0: convert them with .astype(int), leave them out to certify without labels, or certify numbers "
                "(sc.SmoothedRegressor, --task regression)"
            )
        return self._known(indices)

    def targets(self, indices: Sequence[int]) -> list[float | None]:
        return [None if value is None else float(value) for value in self._known(indices)]

    def _known(self, indices: Sequence[int]) -> list[Any]:
        """What is known of these inputs, None where there are no labels."""
        chosen = check_indices(self.name, indices, len(self))
        return [None] * len(chosen) if self._labels is None else self._labels[chosen].tolist()

    def fingerprint(self) -> str:
        """SHA-256 over the type, the shape and the bytes (little-endian) of the values, then those of the labels.

        The name is not part of it: the same numbers under another name are the same data.
        """
        digest = hashlib.sha256(b"smoothcert array, version 1\n")
        for array in (self._values, self._labels):
            if array is None:
                digest.update(b"no labels\n")
                continue
            little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            digest.update(f"{little.dtype.str} {little.shape}\n".encode())
            digest.update(little.data)
        return digest.hexdigest()


def pixels_to_inputs(pixels: npt.NDArray[np.uint8]) -> FloatArray:
    """8-bit pixels k as the float32 nearest to k/255, the values that torchvision's ToTensor gives too.

    >>> pixels_to_inputs(np.array([0, 255], dtype=np.uint8)).tolist()
    [0.0, 1.0]
    """
    return pixels.astype(np.float32) / np.float32(255)


def pixels_of(values: FloatArray) -> npt.NDArray[np.uint8] | None:
    """The 8-bit pixels k whose k/255 these values all are, to the last bit, every one of them looked at; None if they are not.

    Values on a coarser grid (zeros and ones, fifths) are taken for real numbers: they need not come from pixels.

    >>> pixels_of(np.float32([[0.0, 1 / 255, 1.0]])), pixels_of(np.float32([[0.0, 0.5, 1.0]])), pixels_of(np.float32([[0.0, 1.0]]))
    (array([[  0,   1, 255]], dtype=uint8), None, None)
    """
    first = values.reshape(-1)[:4096]  # most real values are told by a few of them
    for part in (first, values):
        if not (part.min() >= 0 and part.max() <= 1):
            return None
        pixels = np.rint(part * np.float32(255)).astype(np.uint8)
        if not np.array_equal(pixels_to_inputs(pixels), part):
            return None
    coarse = int(np.gcd.reduce(np.append(np.unique(pixels), 255))) > 1
    return None if coarse else pixels


def check_indices(name: str, indices: Sequence[int], length: int) -> npt.NDArray[np.int64]:
    """The indices as an array, once each is found to lie in 0 … length - 1."""
    # Compared as Python integers: one too large for int64 must get our words, not an OverflowError.
    chosen = [operator.index(index) for index in indices]
    for index in chosen:
        if not 0 <= index < length:
            raise DataError(
                f"data set {name!r} has no input {index}: it holds {length} inputs, 0 to {length - 1}; "
                f"choose an index in that range"
            )
    return np.array(chosen, dtype=np.int64)


def _checked_values(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values as uint8 or float32, or a DataError."""
    if values.dtype != np.uint8 and values.dtype.kind != "f":
        raise DataError(
            f"data set {name!r}: the inputs are of type {values.dtype}; allowed are uint8 (images, 0 to 255) and "
            f"floating point (real values); convert them with .astype"
        )
    if values.ndim < 2 or values.size == 0:
        raise DataError(
            f"data set {name!r}: the inputs have shape {values.shape}; allowed is (n, *shape of one input) with at "
            f"least one input and one value each; reshape them"
        )
    if values.dtype == np.uint8:
        return values
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and the smoother refuses it by index
        rounded = values.astype(np.float32, copy=False)
    pixels = pixels_of(rounded)
    return rounded if pixels is None else pixels


def _checked_labels(name: str, labels: npt.NDArray[Any], length: int, classes: int | None) -> npt.NDArray[Any]:
    """The labels, one per input: int64, each from 0 and below ``classes``, or float64 and finite; or a DataError."""
    if labels.dtype.kind not in "iuf":
        raise DataError(
            f"data set {name!r}: the labels are of type {labels.dtype}; allowed are integers from 0, or real numbers for regression; "
            f"convert them with .astype(int), or leave them out to certify without labels"
        )
    if labels.shape != (length,):
        raise DataError(
            f"data set {name!r}: the labels have shape {labels.shape}; allowed is ({length},), one per input; "
            f"reshape or select them"
        )
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise DataError(f"data set {name!r}: a target is no finite number; repair it, or leave its input out")
        return labels.astype(np.float64)
    whole = labels.astype(np.int64)
    if whole.min() < 0 or (classes is not None and whole.max() >= classes):
        allowed = "integers from 0" if classes is None else f"0 to {classes - 1}"
        raise DataError(
            f"data set {name!r}: the labels run from {whole.min()} to {whole.max()}; allowed are {allowed}; "
            f"number the classes from 0, or give numbers that are to be predicted as floats"
        )
    return whole
