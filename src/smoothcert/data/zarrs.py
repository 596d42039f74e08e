"""Data sets in Zarr arrays, here or behind a URL, of which the chunks that hold an input are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.arrays import INPUTS, LABELS, told
from smoothcert.data.base import Progress, reading
from smoothcert.data.rows import RowDataset, Rows, Survey
from smoothcert.errors import DataError
from smoothcert.extras import import_extra
from smoothcert.files import is_url, path_of


class ZarrRows(Rows):
    """The rows of a Zarr array."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, tuple(array.shape), np.dtype(array.dtype)

    @property
    def at_once(self) -> int:
        """Whole chunks, so that none is unpacked twice."""
        high = self.array.chunks[0] if self.shape else 1
        return int(high * math.ceil(super().at_once / high))

    def read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        with reading(str(self.array.store_path), "a Zarr array", "it must not change while it is used"):
            if len(indices) and indices[-1] - indices[0] == len(indices) - 1 and np.all(np.diff(indices) == 1):
                return np.asarray(self.array[int(indices[0]) : int(indices[-1]) + 1])
            return np.asarray(self.array.oindex[indices])


def load_zarr(place: str, progress: Progress | None = None) -> RowDataset:
    """The data set in a Zarr array, or in a group with ``x`` and, if there are labels, ``y``."""
    zarr = import_extra("zarr", "Zarr arrays", "zarr")
    name = path_of(place).name
    advice = "give a Zarr array, or a group that holds x and perhaps y"
    with reading(place, "Zarr", advice):
        found = zarr.open(place if is_url(place) else str(path_of(place)), mode="r")
    inputs, labels = found, None
    if isinstance(found, zarr.Group):
        if INPUTS not in found:
            raise DataError(f"{place} has no array {INPUTS!r}: it holds {', '.join(found) or 'nothing'}; {advice}")
        inputs, labels = found[INPUTS], found[LABELS][:] if LABELS in found else None
    rows = ZarrRows(inputs)
    return told(RowDataset(name, Survey(name, rows, progress), labels), rows)
