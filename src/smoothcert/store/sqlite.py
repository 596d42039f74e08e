"""The default store: one SQLite file, safe against a crash at any moment."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.errors import StoreError
from smoothcert.maths import FloatArray
from smoothcert.records import Record
from smoothcert.store.pictures import Picture

FORMAT = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (idx INTEGER PRIMARY KEY, body TEXT NOT NULL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS arrays (address TEXT PRIMARY KEY, shape TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pictures (idx INTEGER PRIMARY KEY, shape TEXT NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
    data BLOB NOT NULL);
"""


class SqliteStore:
    """Records, facts and arrays of one run in one file, with a write-ahead log and full synchronisation."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise StoreError(f"there is no file of results at {self.path}; certify into that directory first")
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA busy_timeout=60000")
            tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables and "facts" not in tables:
                self.close()
                raise StoreError(
                    f"{self.path} is a database of something else; give a run directory made by smoothcert"
                )
            if create:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(
                    f"BEGIN IMMEDIATE; {SCHEMA} INSERT OR IGNORE INTO facts VALUES ('format', '{FORMAT}'); COMMIT;"
                )
            found = self.facts().get("format")
        if not isinstance(found, int) or found > FORMAT:
            self.close()
            raise StoreError(
                f"{self.path} has format {found}; this smoothcert reads up to {FORMAT}: install a newer one"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into what a user can do."""
        try:
            yield
        except sqlite3.OperationalError as problem:
            if "full" in str(problem) or "I/O" in str(problem):
                raise StoreError(
                    f"the disk of {self.path} is full or failing ({problem}); the records already written are safe: "
                    "free some space and give the same command again"
                ) from problem
            if "no such table" in str(problem):
                raise StoreError(
                    f"{self.path} is empty: nothing was kept in it yet; certify into that directory"
                ) from problem
            raise StoreError(
                f"cannot use {self.path}: {problem}; check its permissions and that no other program holds it"
            ) from problem
        except sqlite3.DatabaseError as problem:
            raise StoreError(
                f"{self.path} is not a file of results ({problem}); give a run directory made by smoothcert"
            ) from problem

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        self._db.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, record: Record, seconds: float, picture: Picture | None = None) -> None:
        self.append_all([(record, seconds, picture)])

    def append_all(self, rows: Iterable[tuple[Record, float, Picture | None]]) -> None:
        """Append several records, all or none of them."""
        with self._explained(), self._db:  # commits, or rolls back
            self._db.execute("BEGIN IMMEDIATE")
            for record, seconds, picture in rows:
                row = (record.index, record.to_json(), seconds)
                self._db.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?)", row)
                if picture is not None:
                    shape, data = json.dumps(picture.pixels.shape), zlib.compress(picture.pixels.tobytes())
                    drawn = (record.index, shape, picture.low, picture.high, data)
                    self._db.execute("INSERT OR IGNORE INTO pictures VALUES (?, ?, ?, ?, ?)", drawn)

    def records(self) -> Iterator[Record]:
        with self._explained():
            for (body,) in self._db.execute("SELECT body FROM records ORDER BY idx"):
                yield Record.from_json(body)

    def indices(self) -> set[int]:
        """The inputs that are done."""
        with self._explained():
            return {index for (index,) in self._db.execute("SELECT idx FROM records")}

    def seconds(self) -> dict[int, float]:
        with self._explained():
            return dict(self._db.execute("SELECT idx, seconds FROM records ORDER BY idx"))

    def pictured(self) -> list[int]:
        """The inputs whose picture is kept, by index; none in a store written before pictures were."""
        with self._explained():
            known = self._db.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pictures'"
            ).fetchone()
            return [index for (index,) in self._db.execute("SELECT idx FROM pictures ORDER BY idx")] if known else []

    def picture(self, index: int) -> Picture:
        """The picture of one of the inputs that ``pictured`` names."""
        with self._explained():
            row = self._db.execute("SELECT shape, low, high, data FROM pictures WHERE idx = ?", (index,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} holds no picture of input {index}; the run is incomplete")
        pixels = np.frombuffer(zlib.decompress(row[3]), dtype=np.uint8).reshape(json.loads(row[0]))
        return Picture(pixels, row[1], row[2])

    def describe(self, facts: Mapping[str, Any]) -> None:
        rows = [(name, json.dumps(value, sort_keys=True)) for name, value in facts.items()]
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
            self._db.execute("COMMIT")

    def claim(self, name: str, value: Any) -> Any:
        """Keep a fact unless there is one of this name already, in one step; the one that is kept."""
        with self._explained():
            self._db.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, json.dumps(value, sort_keys=True)))
        return self.facts()[name]

    def facts(self) -> dict[str, Any]:
        with self._explained():
            return {name: json.loads(value) for name, value in self._db.execute("SELECT name, value FROM facts")}

    def put(self, array: FloatArray) -> str:
        exact = np.ascontiguousarray(array, dtype="<f8")
        shape = json.dumps(exact.shape)
        address = hashlib.sha256(shape.encode() + exact.tobytes()).hexdigest()
        with self._explained():
            row = (address, shape, zlib.compress(exact.tobytes(), 1))
            self._db.execute("INSERT OR IGNORE INTO arrays VALUES (?, ?, ?)", row)
        return address

    def get(self, address: str) -> FloatArray:
        with self._explained():
            row = self._db.execute("SELECT shape, data FROM arrays WHERE address = ?", (address,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} holds no array {address[:12]}…; the run is incomplete")
        return np.frombuffer(zlib.decompress(row[1]), dtype="<f8").reshape(json.loads(row[0])).astype(float)

    @property
    def keeps_promises(self) -> bool:
        """Does the run hold a memory with promises in it?"""
        with self._explained():
            found = self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_promises'").fetchone()
            return bool(found and self._db.execute("SELECT 1 FROM memory_promises LIMIT 1").fetchone())
