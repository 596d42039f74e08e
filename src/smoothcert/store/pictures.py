"""8-bit pictures of inputs, kept with the records so that a report needs neither the data nor torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST = 64  # pixels along the longer side


@dataclass(frozen=True, eq=False)
class Picture:
    """Numbers in 256 steps: pixel k stands for low + (high - low)·k/255; (height, width) or (height, width, 3)."""

    pixels: NDArray[np.uint8]
    low: float
    high: float


def grid_point_of(picture: Picture, shape: Sequence[int]) -> NDArray[np.float64] | None:
    """The input that a picture shows, if it was on the grid of 1/255 and is kept whole: exact; None if it was shrunk.

    >>> grid_point_of(picture_of([[[0.2, 1.0]]]), (1, 1, 2))
    array([[[0.2, 1. ]]])
    """
    pixels = picture.pixels if picture.pixels.ndim == 2 else np.moveaxis(picture.pixels, -1, 0)
    if pixels.size != math.prod(shape) or (picture.low, picture.high) != (0.0, 1.0):
        return None
    return np.asarray(pixels.reshape(tuple(shape)) / 255)


def picture_of(values: ArrayLike) -> Picture | None:
    """A small picture of (height, width), (1, height, width) or (3, height, width); None for any other shape.

    Values within [0, 1] keep that range, others run from their least to their largest. A larger picture is shrunk by the
    means of square blocks.

    >>> picture_of([[0.0, 1.0]]).pixels.tolist(), picture_of([0.0, 1.0])
    ([[0, 255]], None)
    """
    array = np.asarray(values, dtype=float)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3) or array.size == 0 or not np.isfinite(array).all():
        return None
    low, high = float(array.min()), float(array.max())
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    pixels = np.rint(255 * (_shrunk(array) - low) / (high - low if high > low else 1.0)).clip(0, 255).astype(np.uint8)
    return Picture(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1), low, high)


def _shrunk(array: NDArray[np.float64]) -> NDArray[np.float64]:
    channels, height, width = array.shape
    step = -(-max(height, width) // LARGEST)
    rows, columns = max(height // step, 1), max(width // step, 1)
    whole = array[:, : rows * step, : columns * step]
    blocks = whole.reshape(channels, rows, whole.shape[1] // rows, columns, whole.shape[2] // columns)
    return np.asarray(blocks.mean(axis=(2, 4)))
