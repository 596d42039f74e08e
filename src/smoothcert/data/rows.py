"""Data by row, wherever it lies: read when it is asked for, and looked through once, so that it need not fit in memory."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import (
    PIXEL_GRID,
    Dataset,
    FloatArray,
    Progress,
    check_indices,
    pixels_of,
    pixels_to_inputs,
)
from smoothcert.errors import DataError

CHUNK = 1 << 22
"""Bytes that are read together when all rows are looked through."""
EXACT = 1 << 24
"""Whole numbers up to this are themselves in float32."""


class Rows(ABC):
    """Inputs of one type by number: all that a place where data lie must be able to give."""

    shape: tuple[int, ...]
    """(number of inputs, *shape of one)."""
    dtype: np.dtype[Any]
    fixed = False
    """Nobody else can change them, as in this process's own memory."""

    @abstractmethod
    def read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The inputs of these numbers, (n, *shape of one), in memory of their own."""

    @property
    def at_once(self) -> int:
        """How many are read together when all are."""
        return max(1, CHUNK // (self.dtype.itemsize * math.prod(self.shape[1:])))

    def runs(self, indices: npt.NDArray[np.int64]) -> Iterator[range]:
        """The indices as runs of neighbours, in order."""
        for part in np.split(indices, np.flatnonzero(np.diff(indices) != 1) + 1) if len(indices) else ():
            yield range(int(part[0]), int(part[-1]) + 1)


class ArrayRows(Rows):
    """The rows of an array, which may be mapped from a file by ``numpy.memmap``."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.fixed = not isinstance(values, np.memmap)

    def read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return self.values[indices]


class Survey:
    """What one look at all rows finds: whether they are pixels, a digest of their content, and a mark of each.

    uint8 is pixels; so are floats that are all k/255, unless all lie on a coarser grid (zeros and ones, fifths): these need
    not come from pixels. Other floats, booleans and integers are real values, rounded to float32. Integers that could be
    either, and those that float32 would change, are refused.
    """

    def __init__(self, name: str, rows: Rows, progress: Progress | None = None) -> None:
        _check_form(name, rows)
        self.rows, self.step = rows, 255  # the step between two pixels, in 1/255
        self.pixels = rows.dtype == np.uint8 or rows.dtype.kind == "f"
        self.marks = None if rows.fixed else np.empty(rows.shape[0], dtype=np.uint64)
        self._ends: tuple[float, float] = (math.inf, -math.inf)
        header = b"smoothcert array, version 1\n"
        self._of_pixels = hashlib.sha256(header + f"|u1 {rows.shape}\n".encode())
        self._of_floats = hashlib.sha256(header + f"<f4 {rows.shape}\n".encode())
        number, size = rows.shape[0], math.prod(rows.shape) * rows.dtype.itemsize
        for start in range(0, number, rows.at_once):
            stop = min(start + rows.at_once, number)
            self._see(start, rows.read(np.arange(start, stop)))
            if progress is not None:
                progress(size * stop // number, size)
        if rows.dtype != np.uint8:
            self.pixels = self.pixels and self.step == 1
            self._check_integers(name)
        self.digest = self._of_pixels if self.pixels else self._of_floats

    def _see(self, start: int, values: npt.NDArray[Any]) -> None:
        if self.marks is not None:
            self.marks[start : start + len(values)] = marks_of(values)
        if values.dtype == np.uint8:
            self._of_pixels.update(np.ascontiguousarray(values).data)
            return
        floats = as_inputs(values)
        self._of_floats.update(np.ascontiguousarray(floats.astype("<f4", copy=False)).data)
        if values.dtype.kind in "iu":
            self._ends = (min(self._ends[0], int(values.min())), max(self._ends[1], int(values.max())))
        pixels = pixels_of(floats) if self.pixels else None
        self.pixels = pixels is not None
        if pixels is not None:
            self._of_pixels.update(np.ascontiguousarray(pixels).data)
            self.step = int(np.gcd.reduce(np.append(np.unique(pixels), self.step)))

    def _check_integers(self, name: str) -> None:
        least, most = self._ends
        if least >= 0 and 1 < most <= 255:
            raise DataError(
                f"data set {name!r}: the inputs are {self.rows.dtype} from {least} to {most}, which may be 8-bit pixels or numbers; "
                "convert them with .astype('uint8') for pixels, which become k/255, or .astype('float32') for numbers"
            )
        if least <= most and max(-least, most) > EXACT:
            raise DataError(
                f"data set {name!r}: the inputs are {self.rows.dtype} from {least} to {most}; float32, which networks compute with, "
                f"holds whole numbers up to {EXACT} alone; scale them"
            )


class RowDataset(Dataset):
    """A data set whose rows are read when asked for; an input that is no longer what it was at the survey is refused.

    ``labels`` is (n,), integers from 0, or None; real numbers are targets of regression, and have no classes. ``classes``
    defaults to the largest label plus one.
    """

    def __init__(
        self,
        name: str,
        survey: Survey,
        labels: npt.ArrayLike | None = None,
        classes: int | None = None,
        class_names: Sequence[str] = (),
    ) -> None:
        self._rows, self._marks = survey.rows, survey.marks
        self._labels = None if labels is None else _checked_labels(name, np.asarray(labels), len(self), classes)
        self.name, self.class_names = name, tuple(class_names)
        self.shape = self._rows.shape[1:]
        self.grid = PIXEL_GRID if survey.pixels else None
        self.classes = None
        digest = survey.digest.copy()
        if self._labels is None:
            digest.update(b"no labels\n")
        else:
            kind = f"<{self._labels.dtype.kind}8"
            digest.update(f"{kind} {self._labels.shape}\n".encode())
            digest.update(self._labels.astype(kind).data)
        if self._labels is not None and self._labels.dtype.kind == "i":
            self.classes = int(self._labels.max()) + 1 if classes is None else classes
        self._fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return self._rows.shape[0]

    def inputs(self, indices: Sequence[int]) -> FloatArray:
        chosen = check_indices(self.name, indices, len(self))
        values = self._rows.read(chosen)
        if self._marks is not None and not np.array_equal(marks_of(values), self._marks[chosen]):
            (changed, *_) = chosen[marks_of(values) != self._marks[chosen]]
            raise DataError(
                f"input {changed} of {self.name!r} is another one when it is asked for again: the file was changed meanwhile, or its "
                "transform is random (a crop, a flip, noise); leave the file alone, or give the data set without augmentation"
            )
        return as_inputs(values)

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
        """SHA-256 over the type, the shape and the bytes (little-endian) of the inputs, then those of the labels.

        Inputs count as uint8 if they are pixels and else as float32, and the name does not: the same numbers, kept
        otherwise and elsewhere, are the same data.
        """
        return self._fingerprint


class ArrayDataset(RowDataset):
    """A data set held in memory: ``values`` is (n, *shape), of any type that ``Survey`` allows.

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
        super().__init__(name, surveyed(name, values), labels, classes, class_names)


def surveyed(name: str, values: npt.ArrayLike) -> Survey:
    """What a look at an array in memory finds."""
    return Survey(name, ArrayRows(values if isinstance(values, np.memmap) else np.asarray(values)))


def as_inputs(values: npt.NDArray[Any]) -> FloatArray:
    """Values of any type as they are put to a network: pixels k as k/255, all else rounded to float32."""
    if values.dtype == np.uint8:
        return pixels_to_inputs(values)
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and the smoother refuses it by index
        return values.astype(np.float32, copy=False)


def marks_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """64 bits of a hash of each row: two that differ have the same with probability 2**-64."""
    rows = np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8) if len(values) else ()
    digests = (hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _check_form(name: str, rows: Rows) -> None:
    if rows.dtype.kind not in "fiub":
        raise DataError(
            f"data set {name!r}: the inputs are of type {rows.dtype}; allowed are uint8 (images, 0 to 255), floating point and other "
            f"integers (real values); convert them with .astype"
        )
    if len(rows.shape) < 2 or not math.prod(rows.shape):
        raise DataError(
            f"data set {name!r}: the inputs have shape {rows.shape}; allowed is (n, *shape of one input) with at "
            f"least one input and one value each; reshape them"
        )


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
