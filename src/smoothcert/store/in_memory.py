"""A store that ends with the program, for trying things out and for tests; and what it needs for that, for others."""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from smoothcert.errors import StoreError
from smoothcert.maths import FloatArray
from smoothcert.records.findings import Finding
from smoothcert.records.record import Record
from smoothcert.registry import setting
from smoothcert.store.base import ResultStore, Row
from smoothcert.store.pictures import Picture


@dataclass
class Tables:
    """All that a run holds. Texts are kept, so that what was handed in may change without changing what was kept."""

    facts: dict[str, str] = field(default_factory=dict)
    records: dict[int, str] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    pictures: dict[int, Picture] = field(default_factory=dict)
    arrays: dict[str, FloatArray] = field(default_factory=dict)
    findings: dict[tuple[str, float, int], str] = field(default_factory=dict)


class TableStore(ResultStore):
    """A store whose tables are had as a whole, one reader or writer at a time: all the rest follows from them."""

    @abstractmethod
    def tables(self) -> AbstractContextManager[Tables]:
        """The tables, which nobody else has meanwhile; what was changed in them is kept at the end, unless by an error."""

    def facts(self) -> dict[str, Any]:
        with self.tables() as tables:
            return {name: json.loads(value) for name, value in tables.facts.items()}

    def describe(self, facts: Mapping[str, Any]) -> None:
        with self.tables() as tables:
            tables.facts |= {name: json.dumps(value) for name, value in facts.items()}

    def claim(self, name: str, value: Any) -> Any:
        with self.tables() as tables:
            return json.loads(tables.facts.setdefault(name, json.dumps(value)))

    def enlarge(self, name: str, values: Iterable[int]) -> None:
        with self.tables() as tables:
            kept = json.loads(tables.facts.get(name, "[]"))
            tables.facts[name] = json.dumps(sorted({*kept, *values}))

    def append_all(self, rows: Iterable[Row]) -> None:
        new: dict[int, tuple[str, float, Picture | None]] = {}
        for record, seconds, picture in rows:
            new.setdefault(record.index, (record.to_json(), seconds, picture))
        with self.tables() as tables:
            for index in new.keys() - tables.records.keys():
                tables.records[index], tables.seconds[index], picture = new[index]
                if picture is not None:
                    tables.pictures[index] = replace(picture, pixels=picture.pixels.copy())

    def records(self) -> Iterator[Record]:
        with self.tables() as tables:
            texts = [tables.records[index] for index in sorted(tables.records)]
        return map(Record.from_json, texts)

    def seconds(self) -> dict[int, float]:
        with self.tables() as tables:
            return dict(sorted(tables.seconds.items()))

    def pictured(self) -> list[int]:
        with self.tables() as tables:
            return sorted(tables.pictures)

    def picture(self, index: int) -> Picture:
        with self.tables() as tables:
            if index not in tables.pictures:
                raise StoreError(f"{self} holds no picture of input {index}; the run is incomplete")
            return replace(tables.pictures[index], pixels=tables.pictures[index].pixels.copy())

    def keep_array(self, address: str, array: FloatArray) -> None:
        with self.tables() as tables:
            tables.arrays.setdefault(address, array)

    def kept_array(self, address: str) -> FloatArray | None:
        with self.tables() as tables:
            return tables.arrays[address].copy() if address in tables.arrays else None

    def keep(self, effort: str, finding: Finding) -> None:
        text = finding.to_json(self.put(finding.offset))
        with self.tables() as tables:
            tables.findings[effort, finding.times, finding.index] = text

    def findings(self, effort: str | None = None) -> Iterator[Finding]:
        with self.tables() as tables:
            texts = [text for key, text in sorted(tables.findings.items()) if effort in (None, key[0])]
        return (Finding.from_json(text, self.get) for text in texts)


@dataclass(frozen=True, eq=False)
class InMemoryStore(TableStore):
    """Records, facts and arrays of one run in the memory of this program.

    >>> store = InMemoryStore()
    >>> store.claim("configuration", {"alpha": 0.001}), store.claim("configuration", {"alpha": 0.01})
    ({'alpha': 0.001}, {'alpha': 0.001})
    """

    name = "in_memory"
    lasting: ClassVar[bool] = False

    label: str | None = setting(None, help="to tell it from others in a report", changes="nothing")
    _tables: Tables = field(default_factory=Tables, init=False, repr=False)
    _lock: Any = field(default_factory=threading.RLock, init=False, repr=False)

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        with self._lock:
            yield self._tables
