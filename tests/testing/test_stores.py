"""Both stores pass the suite, and broken ones fail at the test that is meant for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smoothcert.errors import StoreError
from smoothcert.maths import FloatArray
from smoothcert.records.findings import Finding
from smoothcert.records.record import Record
from smoothcert.store import STORES, InMemoryStore, PostgresStore, ResultStore, SqliteStore
from smoothcert.store.base import Row
from smoothcert.store.pictures import Picture
from smoothcert.testing.stores import LastingStoreSuite, StoreSuite


def shared(kind: type[ResultStore]) -> Callable[[Path], ResultStore]:
    """To open a place in the memory of this program a second time is to be handed the same object."""
    stores: dict[Path, ResultStore] = {}
    return lambda place: stores.setdefault(place, kind())


class TestSqlite(LastingStoreSuite):
    members = (SqliteStore,)


class TestInMemory(StoreSuite):
    members = (shared(InMemoryStore),)


def test_every_store_is_tested() -> None:
    assert set(STORES.values()) == {
        SqliteStore,
        InMemoryStore,
        PostgresStore,
    }  # the last in tests/store/test_postgres.py


class Forgetful(InMemoryStore):
    """Every append is forgotten once another comes."""

    def append_all(self, rows: Iterable[Row]) -> None:
        with self.tables() as tables:
            tables.records.clear()
            tables.seconds.clear()
        super().append_all(rows)


class Late(InMemoryStore):
    """Records appear when the store is closed."""

    def append_all(self, rows: Iterable[Row]) -> None:
        self.__dict__.setdefault("waiting", []).extend(rows)

    def close(self) -> None:
        super().append_all(self.__dict__.pop("waiting", []))


class Unordered(InMemoryStore):
    """Records come as they were written."""

    def records(self) -> Iterator[Record]:
        with self.tables() as tables:
            return map(Record.from_json, list(tables.records.values()))


class LastWins(InMemoryStore):
    """A second record of an index takes the place of the first."""

    def append_all(self, rows: Iterable[Row]) -> None:
        kept = list(rows)
        with self.tables() as tables:
            for record, *_ in kept:
                tables.records.pop(record.index, None)
        super().append_all(kept)


class OneByOne(InMemoryStore):
    """A batch that breaks off leaves its beginning."""

    def append_all(self, rows: Iterable[Row]) -> None:
        for row in rows:
            super().append_all([row])


class Overwriting(InMemoryStore):
    """A later claim takes the place of an earlier one."""

    def claim(self, name: str, value: Any) -> Any:
        self.describe({name: value})
        return self.facts()[name]


class Flattering(InMemoryStore):
    """Every claim is told that it stands."""

    def claim(self, name: str, value: Any) -> Any:
        super().claim(name, value)
        return value


class Clearing(InMemoryStore):
    """New facts replace all of the old."""

    def describe(self, facts: Mapping[str, Any]) -> None:
        with self.tables() as tables:
            tables.facts.clear()
        super().describe(facts)


class ByShape(InMemoryStore):
    """The address is the shape, so that one array takes the place of another."""

    def put(self, array: FloatArray) -> str:
        self.keep_array(str(array.shape), np.array(array, dtype=float))
        return str(array.shape)

    def get(self, address: str) -> FloatArray:
        found = self.kept_array(address)
        assert found is not None
        return found


class Rounding(InMemoryStore):
    """Arrays are kept in float32."""

    def keep_array(self, address: str, array: FloatArray) -> None:
        super().keep_array(address, array.astype(np.float32).astype(float))


class Lending(InMemoryStore):
    """Arrays are given out and not copied."""

    def kept_array(self, address: str) -> FloatArray | None:
        with self.tables() as tables:
            return tables.arrays.get(address)


class Blank(InMemoryStore):
    """A missing picture is made up."""

    def picture(self, index: int) -> Picture:
        return Picture(np.zeros((1, 1), dtype=np.uint8), 0.0, 1.0)


class Grey(InMemoryStore):
    """Pictures lose their range."""

    def picture(self, index: int) -> Picture:
        return Picture(super().picture(index).pixels, 0.0, 1.0)


class Mixed(InMemoryStore):
    """All efforts are one."""

    def keep(self, effort: str, finding: Finding) -> None:
        super().keep("", finding)

    def findings(self, effort: str | None = None) -> Iterator[Finding]:
        return super().findings("")


class Ending(InMemoryStore):
    """Closing it clears it."""

    def close(self) -> None:
        with self.tables() as tables:
            tables.records.clear()
            tables.seconds.clear()


class Pretending(InMemoryStore):
    """Says that it lasts."""

    lasting = True


class Promising(InMemoryStore):
    """Says that a memory can be kept in it."""

    keeps_memory = True


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Forgetful, "test_records_come_back_by_index"),
        (Late, "test_records_come_back_by_index"),
        (Unordered, "test_records_come_back_by_index"),
        (LastWins, "test_an_index_is_recorded_once"),
        (OneByOne, "test_append_all_keeps_all_or_none"),
        (Overwriting, "test_the_first_claim_stands"),
        (Flattering, "test_of_many_claims_at_once_one_stands"),
        (Clearing, "test_facts_are_replaced_by_name"),
        (ByShape, "test_arrays_are_known_by_their_content"),
        (Rounding, "test_arrays_are_known_by_their_content"),
        (Lending, "test_what_was_handed_over_may_change"),
        (Blank, "test_what_is_missing_is_refused"),
        (Grey, "test_pictures_come_back"),
        (Mixed, "test_findings_come_back"),
        (Ending, "test_it_is_used_again_after_close"),
        (Pretending, "test_it_says_whether_it_lasts"),
        (Promising, "test_a_memory_is_kept_if_it_says_so"),
        (Forgetful, "test_a_run_is_the_same_in_it"),
    ],
)
def test_broken_stores_are_caught(broken: type[ResultStore], test: str) -> None:
    with pytest.raises((AssertionError, StoreError)):
        getattr(StoreSuite(), test)(shared(broken))


def test_a_place_that_is_made_too_early_is_caught() -> None:
    def early(place: Path) -> ResultStore:
        place.mkdir(exist_ok=True)
        return SqliteStore(place)

    with pytest.raises(AssertionError, match="leaves something behind"):
        LastingStoreSuite().test_it_begins_with_the_first_write(early)


# In a file of their own, since another process makes them from their text.
LASTING = """
import time

from smoothcert.store import SqliteStore


class Buffering(SqliteStore):
    name = ""

    def append_all(self, rows):  # at close
        self.__dict__.setdefault("waiting", []).extend(rows)

    def close(self):
        super().append_all(self.__dict__.pop("waiting", []))
        super().close()


class OneByOne(SqliteStore):
    name = ""

    def append_all(self, rows):
        for row in rows:
            super().append_all([row])


class TwoSteps(SqliteStore):
    name = ""

    def claim(self, name, value):
        found = self.facts() if self.begun else {}
        time.sleep(0.3)
        if name not in found:
            self.describe({name: value})
        return found.get(name, value)


class Elsewhere(SqliteStore):
    name = ""

    def __str__(self):
        return super().__str__() + "-other"
"""


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        ("Buffering", "test_what_was_written_survives_a_kill"),
        ("OneByOne", "test_a_kill_amid_append_all_leaves_none"),
        ("TwoSteps", "test_of_processes_that_claim_at_once_one_stands"),
        ("Elsewhere", "test_its_text_reads_back"),
    ],
)
def test_stores_that_lose_something_are_caught(
    broken: str, test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_stores.py").write_text(LASTING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(importlib.sys.modules, "broken_stores", raising=False)  # type: ignore[attr-defined]
    kind = getattr(importlib.import_module("broken_stores"), broken)
    with pytest.raises((AssertionError, StoreError)):
        getattr(LastingStoreSuite(), test)(kind)
