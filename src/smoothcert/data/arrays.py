"""Data sets in ``.npy`` and ``.npz`` files, by row.

Rows are read from the place in the file where they lie, which needs no more memory than they do; a file cut short meanwhile is
an error, where a mapping would end the process. So are ``.npy`` files and the members of ``.npz`` files that ``numpy.savez``
wrote, uncompressed and in C order. What is compressed (``numpy.savez_compressed``) or in Fortran order is read whole, into memory.
"""

from __future__ import annotations

import math
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from smoothcert.data.base import Progress, reading
from smoothcert.data.rows import ArrayRows, RowDataset, Rows, Survey
from smoothcert.errors import DataError
from smoothcert.files import is_url

INPUTS, LABELS = "x", "y"
"""The keys of the inputs and of the labels."""
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class FileRows(Rows):
    """The rows of an array that lies in a file as it lies in memory, from some byte on."""

    def __init__(self, path: Path, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path, self.start, self.shape, self.dtype = path, start, shape, dtype

    def read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        values = np.empty((len(indices), *self.shape[1:]), dtype=self.dtype)
        size, place = values[:1].nbytes, values.reshape(-1).view(np.uint8).data
        done = 0
        with reading(self.path, "an array", "the file must not change while it is used"), self.path.open("rb") as file:
            for run in self.runs(indices):
                file.seek(self.start + run.start * size)
                _fill(file, place[done : done + len(run) * size])
                done += len(run) * size
        return values


def load_npy(path: Path, labels: Path | None = None, progress: Progress | None = None) -> RowDataset:
    """The data set whose inputs are the array in an .npy file, (n, *shape of one input); and its labels in another, (n,)."""
    rows = _npy_rows(path)
    numbers = None
    if labels is not None:
        found = _npy_rows(labels)
        numbers = found.read(np.arange(found.shape[0]))
    return told(RowDataset(path.name, Survey(path.name, rows, progress), numbers), rows)


def load_npz(path: Path, progress: Progress | None = None) -> RowDataset:
    """The data set in an .npz file.

    ``x`` is (n, *shape of one input), of a type that ``Survey`` allows; floats that are all k/255 are pixels, and that is said.
    ``y`` is (n,), integers from 0; without it the inputs are certified without labels. Pickled content is refused.
    """
    if not is_url(path) and not path.is_file():
        raise DataError(f"there is no file {path}; give the path of an .npz file")
    advice = "save it with numpy.savez(path, x=inputs, y=labels), without objects"
    with reading(path, "an .npz file of plain arrays", advice), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("it is not a zip archive, or is cut short")
        with zipfile.ZipFile(file) as archive:
            keys = [name.removesuffix(".npy") for name in archive.namelist()]
            if INPUTS not in keys:
                raise DataError(
                    f"{path} has no inputs: its keys are {', '.join(keys) or 'none'}; needed is {INPUTS!r}, and {LABELS!r} "
                    f"for the labels if there are any; save it with numpy.savez(path, x=inputs, y=labels)"
                )
            rows = _member(path, archive, INPUTS)
            labels = _member(path, archive, LABELS) if LABELS in keys else None
    numbers = None if labels is None else labels.read(np.arange(labels.shape[0]))
    return told(RowDataset(path.name, Survey(path.name, rows, progress), numbers), rows)


def told(dataset: RowDataset, rows: Rows) -> RowDataset:
    """The data set, once it is said that its floats are taken as pixels, if they are."""
    if dataset.grid is not None and rows.dtype != np.uint8:
        warnings.warn(
            f"all {math.prod(rows.shape):,} values of {dataset.name} are k/255, so they are taken as 8-bit pixels and the noise lies on "
            "their grid; --grid none takes them as real numbers",
            stacklevel=4,
        )
    return dataset


def _npy_rows(path: Path) -> Rows:
    with (
        reading(path, "an .npy file", "save it with numpy.save(path, array), without objects"),
        path.open("rb") as file,
    ):
        rows: Rows | None = _in_place(path, file)
        if rows is None:
            file.seek(0)
            rows = ArrayRows(np.asarray(npy.read_array(file, allow_pickle=False)))
    return rows


def _member(path: Path, archive: zipfile.ZipFile, key: str) -> Rows:
    """The rows of a member of an archive, once its content is found to be what its checksum says."""
    info = archive.getinfo(f"{key}.npy")
    if info.compress_type == zipfile.ZIP_STORED and archive.fp is not None:
        with archive.open(info) as content:
            while content.read(1 << 20):
                pass
        archive.fp.seek(info.header_offset + 26)  # the local header's lengths of name and extra, which follow it
        name, extra = struct.unpack("<HH", archive.fp.read(4))
        archive.fp.seek(info.header_offset + 30 + name + extra)
        rows = _in_place(path, archive.fp)
        if rows is not None:
            return rows
    with archive.open(info) as content:
        return ArrayRows(np.asarray(npy.read_array(content, allow_pickle=False)))


def _in_place(path: Path, file: Any) -> FileRows | None:
    """The rows of the .npy content that begins here, if they lie one after the other; else None."""
    header = HEADERS.get(npy.read_magic(file))
    if header is None:
        return None
    shape, fortran, dtype = header(file)
    if dtype.hasobject or (fortran and len(shape) > 1):
        return None
    rows = FileRows(path, file.tell(), shape, dtype)
    if not shape or file.seek(0, 2) < rows.start + dtype.itemsize * math.prod(shape):
        raise ValueError("it is cut short" if shape else "it holds one number")
    return rows


def _fill(file: BinaryIO, place: memoryview) -> None:
    done = 0
    while done < len(place):
        part = file.readinto(place[done:])  # type: ignore[attr-defined]
        if not part:
            raise EOFError("it ends before its last row")
        done += part
