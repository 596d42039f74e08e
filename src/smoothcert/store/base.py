"""What a store of results must do: all that certifying, judging again, attacking, reporting and exploring ask of it."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from smoothcert.errors import StoreError
from smoothcert.maths import FloatArray
from smoothcert.records.findings import Finding
from smoothcert.records.promise import Promise
from smoothcert.records.record import Record
from smoothcert.registry import Plugin
from smoothcert.store.pictures import Picture

Given = TypeVar("Given")
Row = tuple[Record, float, Picture | None]  # a record, the seconds that it took, and a picture of its input


class ResultStore(Plugin, ABC):
    """One run: facts about it, a record per input with its seconds and picture, arrays, and the findings of attacks.

    A frozen dataclass whose fields say where it is. What holds for every store, and ``smoothcert.testing.stores`` checks:

    - To make the object costs nothing and leaves nothing behind: the place appears with the first thing written to it.
    - What a method wrote survives a crash of the program from the moment when the method returns, unless the store is
      not ``lasting``; and whoever opens the same place sees it.
    - An index is recorded once: to append it again is harmless and changes nothing. ``append_all`` keeps all or none.
    - ``claim`` and ``enlarge`` are one step each, also between processes.
    - An array is known by its content, under the same address in every store.
    - An object is used by one thread at a time, and may be used again after ``close``.
    """

    lasting: ClassVar[bool] = True  # does what it keeps outlive the program?
    keeps_memory: ClassVar[bool] = False  # can a memory keep its promises in it?

    # The run as a whole

    @property
    def begun(self) -> bool:
        """Was anything written here? Nothing else is read from a store that is not begun."""
        return bool(self.facts() or self.seconds())

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What is known about the run, as JSON would give it back."""

    @abstractmethod
    def describe(self, facts: Mapping[str, Any]) -> None:
        """Keep facts about the run, all of them or none, replacing those of the same name."""

    @abstractmethod
    def claim(self, name: str, value: Any) -> Any:
        """Keep a fact unless there is one of this name already, in one step; the one that is kept."""

    @abstractmethod
    def enlarge(self, name: str, values: Iterable[int]) -> None:
        """Add numbers to a fact that is a sorted list of them, begun if there is none, in one step."""

    # Its inputs

    def append(self, record: Record, seconds: float, picture: Picture | None = None) -> None:
        """Keep one record, how long it took and a picture of its input (which are no part of the record)."""
        self.append_all([(record, seconds, picture)])

    @abstractmethod
    def append_all(self, rows: Iterable[Row]) -> None:
        """Keep several records, all or none of them; what is there for an index already stays."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """All records, by index."""

    @abstractmethod
    def seconds(self) -> dict[int, float]:
        """How long each index took, by index."""

    def indices(self) -> set[int]:
        """The inputs that have a record."""
        return set(self.seconds())

    @abstractmethod
    def pictured(self) -> list[int]:
        """The inputs whose picture is kept, by index."""

    @abstractmethod
    def picture(self, index: int) -> Picture:
        """The picture of one of the inputs that ``pictured`` names; any other is a StoreError."""

    # Arrays

    def put(self, array: FloatArray) -> str:
        """Keep an array; its address is the hash of its content."""
        exact = np.array(array, dtype="<f8", order="C")
        address = address_of(exact)
        self.keep_array(address, exact)
        return address

    def get(self, address: str) -> FloatArray:
        """The array back, exactly; one that is missing or damaged is a StoreError."""
        array = self.kept_array(address)
        if array is None:
            raise StoreError(f"{self} holds no array {address[:12]}…; the run is incomplete")
        if address_of(array) != address:
            raise StoreError(
                f"the array {address[:12]}… in {self} is damaged: its content has another hash; restore the run from a "
                "copy, or certify anew into another place"
            )
        return array

    @abstractmethod
    def keep_array(self, address: str, array: FloatArray) -> None:
        """Keep a float64 array at its address; the same address means the same array."""

    @abstractmethod
    def kept_array(self, address: str) -> FloatArray | None:
        """A copy of the array at this address, None if there is none."""

    # Attacks

    @abstractmethod
    def keep(self, effort: str, finding: Finding) -> None:
        """Keep what such an effort (how hard was tried, in words) found at a multiple of an input's radius.

        A later one of the same effort, multiple and input takes its place.
        """

    @abstractmethod
    def findings(self, effort: str | None = None) -> Iterator[Finding]:
        """What such an effort, or without one every effort, has found; those of an effort by multiple and index."""

    # Promises, and the end

    def keeper(self, *, create: bool = False) -> Keeper | None:
        """Where a memory keeps its promises inside this run, used and closed apart from the store.

        None where there are no promises, unless ``create``; and always where a store ``keeps_memory`` not.
        """
        return None

    def close(self) -> None:
        """Let go of what is held open; what was kept stays."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Keeper(Protocol):
    """Promises in the order in which they were made, and facts that they have in common."""

    name: str
    lasting: bool

    def transaction(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile; all of it is kept, or nothing."""

    def insist(self, act: Callable[[], Given]) -> Given:
        """What this act gives, done again while a connection was lost in it; it must find out what it has done before."""

    def facts(self) -> dict[str, Any]:
        """What all promises have in common."""

    def describe(self, facts: dict[str, Any]) -> None:
        """Keep facts, inside a transaction."""

    def add(self, promise: Promise) -> None:
        """Keep one promise, inside a transaction."""

    def after(self, sequence: int) -> Iterator[Promise]:
        """The promises made after this one, in order."""

    def at(self, sequence: int) -> Promise:
        """The promise with this number."""

    def of(self, run: str, index: int) -> Promise | None:
        """The promise made for this input of a run, if any."""

    def settled(self, run: str) -> dict[int, tuple[int, float]]:
        """Label and radius of the promise for each input of a run that has one, by index."""

    def close(self) -> None:
        """Let go of what is held open."""


def address_of(array: FloatArray) -> str:
    """The address of an array: SHA-256 of its shape and its numbers, so that it is the same in every store.

    >>> address_of(np.zeros(2)) == address_of(np.zeros((2, 1))), address_of(np.array([-0.0])) == address_of(np.zeros(1))
    (False, False)
    """
    exact = np.asarray(array, dtype="<f8")
    return hashlib.sha256(json.dumps(exact.shape).encode() + exact.tobytes()).hexdigest()
