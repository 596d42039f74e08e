"""The idx format of MNIST and its relatives: arrays of bytes after a short header, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smoothcert.errors import DataError

UNSIGNED_BYTE = 0x08
"""The format's code for elements of one unsigned byte, the only type these data sets use."""


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file (``.gz`` or plain) that must have so many dimensions."""
    content = _content(path)
    # Header: two zero bytes, the element type, the number of dimensions, then each length as a big-endian uint32.
    expected = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    start = 4 + 4 * dimensions
    if content[:4] != expected or len(content) < start:
        raise DataError(
            f"{path} is not an idx file of bytes with {dimensions} dimensions: it begins with "
            f"{content[:4].hex(' ') or 'nothing'}, expected {expected.hex(' ')}; {_remedy(path)}"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} is damaged: its header promises {math.prod(shape)} bytes for the shape {shape}, "
            f"{len(content) - start} follow; {_remedy(path)}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def find_idx(folder: Path, file_name: str) -> Path | None:
    """The plain file of this name in the folder, else its ``.gz``, else None.

    >>> find_idx(Path("no such folder"), "train-labels-idx1-ubyte") is None
    True
    """
    for candidate in (folder / file_name, folder / f"{file_name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def _content(path: Path) -> bytes:
    """The bytes of the file, unpacked when its name ends in .gz."""
    try:
        packed = path.read_bytes()
        return gzip.decompress(packed) if path.suffix == ".gz" else packed
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}; {_remedy(path)}") from error


def _remedy(path: Path) -> str:
    """What to do about a file that is not what it should be."""
    return f"delete {path.name} and load the data set again with download=True"
