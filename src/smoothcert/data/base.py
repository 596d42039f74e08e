"""What a data set is: inputs by index, their true classes, and a fingerprint of both."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smoothcert.errors import DataError, SmoothcertError, without_passwords
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


def pixels_to_inputs(pixels: npt.NDArray[np.uint8]) -> FloatArray:
    """8-bit pixels k as the float32 nearest to k/255, the values that torchvision's ToTensor gives too.

    >>> pixels_to_inputs(np.array([0, 255], dtype=np.uint8)).tolist()
    [0.0, 1.0]
    """
    return pixels.astype(np.float32) / np.float32(255)


def pixels_of(values: FloatArray) -> npt.NDArray[np.uint8] | None:
    """The 8-bit pixels k whose k/255 these values all are, to the last bit, every one of them looked at; None if they are not.

    >>> pixels_of(np.float32([[0.0, 1 / 255, 1.0]])), pixels_of(np.float32([[0.0, 0.5, 1.0]]))
    (array([[  0,   1, 255]], dtype=uint8), None)
    """
    if not (values.min() >= 0 and values.max() <= 1):
        return None
    pixels = np.rint(values * np.float32(255)).astype(np.uint8)
    return pixels if np.array_equal(pixels_to_inputs(pixels), values) else None


@contextmanager
def reading(path: Path | str, kind: str, advice: str) -> Iterator[None]:
    """Whatever goes wrong while a file is read, in words: libraries of formats and of networks raise of all kinds."""
    try:
        yield
    except SmoothcertError:
        raise
    except Exception as problem:
        missing = isinstance(problem, FileNotFoundError)  # whose words may be a name alone
        reason = "it is not there" if missing else str(problem) or type(problem).__name__
        raise DataError(f"{without_passwords(str(path))} cannot be read as {kind}: {reason}; {advice}") from problem


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
