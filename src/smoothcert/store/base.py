"""What a store of results must do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from smoothcert.maths import FloatArray
from smoothcert.records import Record
from smoothcert.store.pictures import Picture


class ResultStore(Protocol):
    """append returns only once the record would survive a crash; appending an index twice is harmless."""

    def append(self, record: Record, seconds: float, picture: Picture | None = None) -> None:
        """Keep one record, how long it took and a picture of its input (which are no part of the record)."""

    def records(self) -> Iterator[Record]:
        """All records, by index."""

    def seconds(self) -> dict[int, float]:
        """How long each index took."""

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Keep facts about the run as a whole, replacing those of the same name."""

    def facts(self) -> dict[str, Any]:
        """What is known about the run."""

    def put(self, array: FloatArray) -> str:
        """Keep an array; its address is the hash of its content."""

    def get(self, address: str) -> FloatArray:
        """The array back, exactly."""
