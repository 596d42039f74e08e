"""A memory on a server: its promises in one order that all processes share, kept by an advisory lock."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from smoothcert.errors import StoreError
from smoothcert.records.promise import Promise
from smoothcert.store.keeper import FORMAT, checksum, packed, unpacked
from smoothcert.store.server import Server, lock_key

Given = TypeVar("Given")
AT_ONCE = 500  # promises read in one go, so that a long memory is never held twice
COLUMNS = "sequence, run, idx, label, soundness, radius, norm, shapes, center, scale, details, checksum"


class ServerKeeper:
    """Promises and facts of one memory, by name, in a Postgres database that several memories and runs may share.

    A promise gets its number under the lock that the whole transaction holds, so numbers are committed in order; that
    they are a primary key makes a settler that holds no lock fail, and not contradict.
    """

    lasting = True

    def __init__(self, url: str, memory: str, *, create: bool = True, patience: float | None = None) -> None:
        self._server, self._memory = Server(url, patience), memory
        self.name = f"{self._server}#{memory}"
        self._key = lock_key(f"memory {memory}")
        self._last = (0, 0)  # number and checksum of the last promise that was read
        if create:
            self.insist(self._create)
        elif not _exists(self._server, memory):
            raise StoreError(
                f"there is no memory at {self.name}; make one with smoothcert certify --memory, or Memory.open"
            )
        found = self.facts().get("format")
        if found != FORMAT:
            raise StoreError(
                f"the memory {self.name} has format {found}; this smoothcert reads format {FORMAT} alone: use the one that made it"
            )

    def _create(self) -> None:
        with self.transaction():
            if not _exists(self._server, self._memory):
                self.describe({"format": FORMAT})

    def insist(self, act: Callable[[], Given]) -> Given:
        return self._server.insist(act)

    def transaction(self) -> AbstractContextManager[None]:
        return self._server.transaction(self._key)

    def close(self) -> None:
        self._server.close()

    def facts(self) -> dict[str, Any]:
        query = "SELECT name, value FROM smoothcert.memory_facts WHERE memory = %s"
        return {name: json.loads(value) for name, value in self._server.rows(query, self._memory)}

    def describe(self, facts: dict[str, Any]) -> None:
        rows = [(self._memory, name, json.dumps(value)) for name, value in facts.items()]
        self._server.write(
            "INSERT INTO smoothcert.memory_facts VALUES (%s, %s, %s) "
            "ON CONFLICT (memory, name) DO UPDATE SET value = EXCLUDED.value",
            rows,
        )

    def add(self, promise: Promise) -> None:
        row = packed(promise)
        places = ", ".join(["%s"] * (len(row) + 2))
        self._server.write(
            f"INSERT INTO smoothcert.memory_promises VALUES ({places})", [(self._memory, *row, checksum(row))]
        )

    def after(self, sequence: int) -> Iterator[Promise]:
        """The promises made after this one; if it was the last that was read here, it must still be the same."""
        full = True
        while full:
            rows = self._rows("sequence >= %s ORDER BY sequence LIMIT %s", sequence, AT_ONCE)
            full = len(rows) == AT_ONCE
            if sequence and sequence == self._last[0]:
                self._check_last(rows[:1])
            rows = [row for row in rows if row[0] > sequence]
            for row in rows:
                yield self._unpacked(row)
                sequence = row[0]
                if sequence > self._last[0]:  # who only lists them again must not make what was known here forgotten
                    self._last = (sequence, row[-1])

    def _check_last(self, rows: list[tuple[Any, ...]]) -> None:
        """Refuse a server that has gone back, to a backup or a standby that lagged: what is known here would be contradicted."""
        if [(row[0], row[-1]) for row in rows] != [self._last]:
            raise StoreError(
                f"the memory {self.name} has lost promise {self._last[0]}, which it had acknowledged: the server went back to "
                "a backup or to a standby that lagged. Restore it, or begin a new memory and certify anew"
            )

    def at(self, sequence: int) -> Promise:
        (promise,) = self._selected("sequence = %s", sequence)
        return promise

    def of(self, run: str, index: int) -> Promise | None:
        found = self._selected("run = %s AND idx = %s", run, index)
        return found[0] if found else None

    def settled(self, run: str) -> dict[int, tuple[int, float]]:
        query = "SELECT idx, label, radius FROM smoothcert.memory_promises WHERE memory = %s AND run = %s AND idx IS NOT NULL"
        return {index: (label, radius) for index, label, radius in self._server.rows(query, self._memory, run)}

    def _selected(self, condition: str, *values: str | int) -> list[Promise]:
        return [self._unpacked(row) for row in self._rows(condition, *values)]

    def _rows(self, condition: str, *values: str | int) -> list[tuple[Any, ...]]:
        query = f"SELECT {COLUMNS} FROM smoothcert.memory_promises WHERE memory = %s AND {condition}"
        return self._server.rows(query, self._memory, *values)

    def _unpacked(self, row: tuple[Any, ...]) -> Promise:
        try:
            return unpacked(row)
        except (ValueError, zlib.error) as problem:
            raise StoreError(
                f"the memory {self.name} is damaged ({problem}); restore it from a copy: without it, earlier promises cannot "
                "be kept"
            ) from problem


def has_memory(url: str, memory: str) -> bool:
    """Was a memory of this name made in this database?"""
    server = Server(url)
    try:
        return _exists(server, memory)
    finally:
        server.close()


def _exists(server: Server, memory: str) -> bool:
    query = "SELECT 1 FROM smoothcert.memory_facts WHERE memory = %s LIMIT 1"
    return server.has_tables() and bool(server.rows(query, memory))
