"""What an adversary may do to an input when it is no ball of numbers: replace coordinates, a patch, a run of places.

A threat is a value, ``patch:5``: its kind, and its size as a whole number. The region of a certificate against it holds
every input that it can make of the center, whatever the new values are, so that it has a size and no volume.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import InputError, SettingError, look_up
from smoothcert.maths import FloatArray

Places = NDArray[np.bool_]  # which places of an input differ: (height, width) of a picture, (length,) of anything else
Sized = TypeVar("Sized", bound="Threat")


@dataclass(frozen=True)
class Threat(ABC):
    """An adversary who gives some places of an input any values at all; size 0 is none.

    A place of a picture is a pixel, with all its channels.
    """

    name: ClassVar[str]
    measure: ClassVar[str]  # what its size counts
    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 0:
            raise SettingError(f"{self.name}: the size of a threat is a whole number from 0 up; got {self.size}")

    @abstractmethod
    def needed(self, places: Places) -> int:
        """The least size at which it can change all of these places."""

    def covers(self, places: Places) -> bool:
        """Can it change all of these places?"""
        return self.needed(places) <= self.size

    @abstractmethod
    def most(self, shape: Sequence[int]) -> int:
        """The size at which an input of this shape has nothing left to change; refuses shapes it does not know."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What may be replaced, as a report says it."""

    def resized(self: Sized, size: int) -> Sized:
        """The same kind of threat with another size."""
        return replace(self, size=size)

    def check(self, shape: Sequence[int]) -> None:
        """Refuse a threat that is larger than the input."""
        most = self.most(shape)
        if self.size > most:
            raise SettingError(
                f"the threat {self} is larger than inputs of shape {tuple(shape)}; "
                f"its size may be up to {most}: {self.name}:{most}"
            )

    def __str__(self) -> str:
        return f"{self.name}:{self.size}"


@dataclass(frozen=True)
class Coordinates(Threat):
    """Any few coordinates, or pixels of a picture, wherever they are: distance in l0 (Hamming)."""

    name = "l0"
    measure = "replaced coordinates (l0)"

    def needed(self, places: Places) -> int:
        return int(places.sum())

    def most(self, shape: Sequence[int]) -> int:
        return int(np.prod(layout(shape)))

    @property
    def words(self) -> str:
        return f"any {self.size} coordinates"


@dataclass(frozen=True)
class Patch(Threat):
    """A square of size × size pixels anywhere in a picture, cut off at its border and never wrapped around it."""

    name = "patch"
    measure = "side of a replaced patch in pixels"

    def needed(self, places: Places) -> int:
        return max(_extent(np.any(places, axis=axis)) for axis in (0, 1))

    def most(self, shape: Sequence[int]) -> int:
        return max(picture(shape))

    @property
    def words(self) -> str:
        return f"a {self.size} × {self.size} patch"


@dataclass(frozen=True)
class Span(Threat):
    """Places in a row, such as tokens or bytes."""

    name = "span"
    measure = "replaced places in a row"

    def needed(self, places: Places) -> int:
        return _extent(places)

    def most(self, shape: Sequence[int]) -> int:
        return line(shape)

    @property
    def words(self) -> str:
        return f"{self.size} places in a row"


THREATS: dict[str, type[Threat]] = {"l0": Coordinates, "patch": Patch, "span": Span}


def threat_named(text: str | Threat) -> Threat:
    """The threat written as ``kind:size``; a Threat is returned as it is.

    >>> str(threat_named("patch:5")), threat_named("l0:3").words
    ('patch:5', 'any 3 coordinates')
    """
    if isinstance(text, Threat):
        return text
    name, _, size = text.partition(":")
    kind = look_up("threat", name, THREATS)
    if not size.isdecimal():
        raise SettingError(f"threat {text!r}: its size {size!r} must be a whole number from 0 up; write {name}:5")
    return kind(int(size))


@dataclass(frozen=True, eq=False)
class ReplacedRegion:
    """All y that differ from center only in places which the threat can change.

    >>> region = ReplacedRegion(np.zeros((1, 4, 4)), Patch(2))
    >>> near, far = np.zeros((2, 1, 4, 4))
    >>> near[0, 1:3, 2:4], far[0, 0, 0], far[0, 0, 2] = 9.0, 1.0, 1.0
    >>> region.contains(near), region.contains(far), region.size
    (True, False, 2)
    """

    center: FloatArray
    threat: Threat

    @property
    def norm(self) -> float:
        """What differs is counted, not measured."""
        return 0.0

    @property
    def inner_radius(self) -> float:
        """The size as a number: what a curve is drawn over."""
        return float(self.size)

    @property
    def size(self) -> int:
        """The number of coordinates, the side of the patch, the places in a row: what is reported, for want of a volume."""
        return self.threat.size

    def contains(self, point: ArrayLike) -> bool:
        """Is the point certified?"""
        return self.threat.covers(self.replaced(point))

    def replaced(self, point: ArrayLike) -> Places:
        """The places in which a point differs from the center."""
        other = np.asarray(point, dtype=float)
        if other.shape != np.shape(self.center):
            raise InputError(
                f"the point has shape {other.shape}; the center has {np.shape(self.center)}: give the same"
            )
        # What is no number differs from everything.
        return places_of(~(other == self.center))


def places_of(changed: NDArray[np.bool_]) -> Places:
    """The places of an input that differ in any channel."""
    return np.asarray(np.any(changed.reshape(-1, *layout(changed.shape)), axis=0))


def layout(shape: Sequence[int]) -> tuple[int, ...]:
    """The places of an input: height and width of a picture (channels, height, width), or the length of a line.

    >>> layout((3, 32, 32)), layout((28, 28)), layout((12,))
    ((32, 32), (28, 28), (12,))
    """
    return tuple(shape[-2:]) if len(shape) >= 2 else tuple(shape)


def picture(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width, or a SettingError for what is no picture."""
    if len(shape) < 2:
        raise SettingError(
            f"inputs of shape {tuple(shape)} are no pictures (channels, height, width); patches, bands and blocks need "
            "pictures: use the threat l0 or span, with ablation or chunks"
        )
    return shape[-2], shape[-1]


def line(shape: Sequence[int]) -> int:
    """The length of a line, or a SettingError for what is none."""
    if len(shape) != 1:
        raise SettingError(
            f"inputs of shape {tuple(shape)} are no lines of places; spans and chunks need inputs of one axis (length,): "
            "use the threat patch, with bands or blocks"
        )
    return shape[0]


def _extent(places: ArrayLike) -> int:
    """From the first marked place to the last, both counted."""
    marked = np.flatnonzero(places)
    return int(marked[-1] - marked[0] + 1) if marked.size else 0
