"""Data sets in ``.npz`` files: ``x`` holds the inputs and ``y``, when there, the labels."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import ArrayDataset
from smoothcert.errors import DataError

INPUTS, LABELS = "x", "y"
"""The keys of the inputs and of the labels."""


def load_npz(path: Path) -> ArrayDataset:
    """The data set in an .npz file.

    ``x`` is (n, *shape of one input): uint8 for images, whose pixels k become k/255, or floating point for real values; floats
    that are all k/255 are pixels too, and that is said.
    ``y`` is (n,), integers from 0; without it the inputs are certified without labels. Pickled content is refused.
    """
    keys, arrays = _read(path)
    if INPUTS not in arrays:
        raise DataError(
            f"{path} has no inputs: its keys are {', '.join(keys) or 'none'}; needed is {INPUTS!r}, and {LABELS!r} "
            f"for the labels if there are any; save it with numpy.savez(path, x=inputs, y=labels)"
        )
    dataset = ArrayDataset(path.name, arrays[INPUTS], arrays.get(LABELS))
    if dataset.grid is not None and arrays[INPUTS].dtype != np.uint8:
        warnings.warn(
            f"all {arrays[INPUTS].size:,} values of {path.name} are k/255, so they are taken as 8-bit pixels and the noise lies on their "
            "grid; --grid none takes them as real numbers",
            stacklevel=3,
        )
    return dataset


def _read(path: Path) -> tuple[list[str], dict[str, npt.NDArray[Any]]]:
    """Every key of the file, and the arrays of the two that matter."""
    if not path.is_file():
        raise DataError(f"there is no file {path}; give the path of an .npz file")
    try:
        if not zipfile.is_zipfile(path):  # numpy.load would open other formats too
            raise zipfile.BadZipFile("it is not a zip archive, or is cut short")
        with np.load(path, allow_pickle=False) as archive:
            return list(archive.files), {key: archive[key] for key in (INPUTS, LABELS) if key in archive.files}
    except (OSError, ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read as an .npz file of plain arrays: {error}; save it with "
            f"numpy.savez(path, x=inputs, y=labels), without objects"
        ) from error
