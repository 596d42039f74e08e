"""What stores in a database share: a run's rows as five tables, whichever database keeps them."""

from __future__ import annotations

import json
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from smoothcert.errors import StoreError
from smoothcert.maths import FloatArray
from smoothcert.records.findings import Finding
from smoothcert.records.record import Record
from smoothcert.store.base import ResultStore, Row
from smoothcert.store.pictures import Picture

# Of which kind the facts of a run are.
KINDS = {"configuration": dict, "notes": dict, "subset": list, "shape": list, "classes": int | None, "probe": list}
# What makes two rows of a table the same; of those in REPLACED the later one stays, of all others the first.
KEYS = {"facts": "name", "records": "idx", "arrays": "address", "pictures": "idx", "findings": "effort, times, idx"}
REPLACED = {"facts": "value", "findings": "body"}


class SqlStore(ResultStore):
    """A store that reads and writes rows; a database says how, all the rest follows."""

    @abstractmethod
    def _found(self, columns: str, table: str, more: str = "", *values: object) -> list[tuple[Any, ...]]:
        """These columns of the run's rows in a table; ``more`` begins with AND or ORDER BY and has %s for each value."""

    @abstractmethod
    def _transacted(self, act: Callable[[], None]) -> None:
        """Do this as one transaction: all of it is kept, or nothing. It may be done again, after nothing was kept."""

    @abstractmethod
    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]], replace: bool) -> None:
        """Put rows, if any, into a table, inside a transaction; those that are there stay, or are replaced."""

    @property
    @abstractmethod
    def _place(self) -> str:
        """Where it is, in an error's words."""

    @contextmanager
    def _whole(self, what: str) -> Iterator[None]:
        """Refuse content that cannot be what was written."""
        try:
            yield
        except (ValueError, KeyError, TypeError, zlib.error) as problem:
            raise StoreError(
                f"{what} in {self._place} is damaged ({problem}); restore it from a copy, or certify anew into another "
                "place"
            ) from problem

    def _keep(self, table: str, row: tuple[Any, ...]) -> None:
        self._transacted(lambda: self._insert(table, [row], table in REPLACED))

    def facts(self) -> dict[str, Any]:
        rows = self._found("name, value", "facts", "AND name <> 'format'")
        with self._whole("a fact"):
            return {name: _fact(name, value) for name, value in rows}

    def describe(self, facts: Mapping[str, Any]) -> None:
        rows = [(name, json.dumps(value, sort_keys=True)) for name, value in facts.items()]
        self._transacted(lambda: self._insert("facts", rows, replace=True))

    def claim(self, name: str, value: Any) -> Any:
        row = (name, json.dumps(value, sort_keys=True))
        self._transacted(lambda: self._insert("facts", [row], replace=False))
        return self.facts()[name]

    def enlarge(self, name: str, values: Iterable[int]) -> None:
        def act() -> None:
            there = self._found("value", "facts", "AND name = %s", name)
            kept = {value for (text,) in there for value in _fact(name, text)}
            self._insert("facts", [(name, json.dumps(sorted(kept.union(values))))], replace=True)

        self._transacted(act)

    def append_all(self, rows: Iterable[Row]) -> None:
        first: dict[int, Row] = {}
        for row in rows:
            first.setdefault(row[0].index, row)
        if not first:
            return

        def act() -> None:
            there = self._found("idx", "records", "AND idx BETWEEN %s AND %s", min(first), max(first))
            new = {index: first[index] for index in first.keys() - {index for (index,) in there}}
            told = [(index, record.to_json(), seconds) for index, (record, seconds, _) in new.items()]
            drawn = [_drawn(index, picture) for index, (_, _, picture) in new.items() if picture is not None]
            self._insert("records", told, replace=False)
            self._insert("pictures", drawn, replace=False)

        self._transacted(act)

    def records(self) -> Iterator[Record]:
        for index, body in self._found("idx, body", "records", "ORDER BY idx"):
            with self._whole(f"the record of input {index}"):
                record = Record.from_json(body)
                if record.index != index:
                    raise ValueError(f"it is that of input {record.index}")
            yield record

    def seconds(self) -> dict[int, float]:
        with self._whole("a time"):
            return {index: float(took) for index, took in self._found("idx, seconds", "records", "ORDER BY idx")}

    def pictured(self) -> list[int]:
        return [index for (index,) in self._found("idx", "pictures", "ORDER BY idx")]

    def picture(self, index: int) -> Picture:
        found = self._found("shape, low, high, data", "pictures", "AND idx = %s", index)
        if not found:
            raise StoreError(f"{self._place} holds no picture of input {index}; the run is incomplete")
        [(shape, low, high, data)] = found
        with self._whole(f"the picture of input {index}"):
            return Picture(_unpacked(data, "u1", shape), low, high)

    def keep_array(self, address: str, array: FloatArray) -> None:
        if self.begun and self._found("address", "arrays", "AND address = %s", address):
            return  # one scale or matrix of many records is packed and written once
        self._keep("arrays", (address, json.dumps(array.shape), _pressed(array)))

    def kept_array(self, address: str) -> FloatArray | None:
        for shape, data in self._found("shape, data", "arrays", "AND address = %s", address):
            with self._whole(f"the array {address[:12]}…"):
                bytes_ = np.frombuffer(zlib.decompress(data), dtype="u1")
                return bytes_.reshape(8, len(bytes_) // 8).T.copy().view("<f8").reshape(json.loads(shape))
        return None

    def keep(self, effort: str, finding: Finding) -> None:
        body = finding.to_json(self.put(finding.offset))
        self._keep("findings", (effort, finding.times, finding.index, body))

    def findings(self, effort: str | None = None) -> Iterator[Finding]:
        told = () if effort is None else (effort,)
        rows = self._found("effort, times, idx, body", "findings", "AND effort = %s" if told else "", *told)
        for *_, index, body in sorted(rows):  # here: databases order texts each in its own way
            with self._whole(f"a finding at input {index}"):
                found = Finding.from_json(body, self.get)
            yield found


def _fact(name: str, text: str) -> Any:
    """A fact read back; one that other code looks into must be of its kind."""
    value = json.loads(text)
    kind = KINDS.get(name)
    if kind is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is a {type(value).__name__}")
    return value


def _drawn(index: int, picture: Picture) -> tuple[Any, ...]:
    """A picture as a row."""
    data = zlib.compress(picture.pixels.tobytes())
    return index, json.dumps(picture.pixels.shape), picture.low, picture.high, data


def _pressed(array: FloatArray) -> bytes:
    """All first bytes of its numbers, then all second ones, pressed: a tuned scale of 3 × 224 × 224 takes three quarters so."""
    numbers = np.ascontiguousarray(array, dtype="<f8").reshape(-1, 1)
    return zlib.compress(numbers.view("u1").T.tobytes(), 1)


def _unpacked(data: bytes, kind: str, shape: str) -> Any:
    """An array from the bytes that were pressed, writable."""
    return np.frombuffer(zlib.decompress(data), dtype=kind).reshape(json.loads(shape)).copy()
