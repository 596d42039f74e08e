"""The default store: a run directory with one SQLite file in it, safe against a crash at any moment."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from smoothcert.errors import RunError, StoreError
from smoothcert.maths import FloatArray
from smoothcert.records.findings import Finding
from smoothcert.records.record import Record
from smoothcert.registry import setting
from smoothcert.store.base import Keeper, ResultStore, Row
from smoothcert.store.keeper import MemoryFile
from smoothcert.store.pictures import Picture

RESULTS = "results.sqlite"
FORMAT = 1
# Of which kind the facts of a run are.
KINDS = {"configuration": dict, "notes": dict, "subset": list, "shape": list, "classes": int | None, "probe": list}
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (idx INTEGER PRIMARY KEY, body TEXT NOT NULL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS arrays (address TEXT PRIMARY KEY, shape TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pictures (idx INTEGER PRIMARY KEY, shape TEXT NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
    data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS findings (effort TEXT NOT NULL, times REAL NOT NULL, idx INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (effort, times, idx));
"""


@dataclass(frozen=True, eq=False)
class SqliteStore(ResultStore):
    """A run directory: all of it in one file, with a write-ahead log and full synchronisation.

    Several processes may read and write one directory; each of their writes is a transaction.
    """

    name = "sqlite"
    keeps_memory: ClassVar[bool] = True

    path: str | Path = setting(help="the run directory", changes="nothing")

    @property
    def file(self) -> Path:
        """The file that holds everything."""
        return Path(self.path) / RESULTS

    @property
    def begun(self) -> bool:
        return self.file.is_file()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into what a user can do."""
        try:
            yield
        except sqlite3.OperationalError as problem:
            if "full" in str(problem) or "I/O" in str(problem):
                raise StoreError(
                    f"the disk of {self.file} is full or failing ({problem}); the records already written are safe: "
                    "free some space and give the same command again"
                ) from problem
            if "no such table" in str(problem):
                raise StoreError(
                    f"{self.file} is empty: nothing was kept in it yet; certify into that directory"
                ) from problem
            raise StoreError(
                f"cannot use {self.file}: {problem}; check its permissions and that no other program holds it"
            ) from problem
        except (sqlite3.DatabaseError, UnicodeDecodeError) as problem:
            raise StoreError(
                f"{self.file} is not a file of results ({problem}); give a run directory made by smoothcert"
            ) from problem

    @contextmanager
    def _whole(self, what: str) -> Iterator[None]:
        """Refuse content that cannot be what was written."""
        try:
            yield
        except (ValueError, KeyError, TypeError, zlib.error) as problem:
            raise StoreError(
                f"{what} in {self.file} is damaged ({problem}); restore the file from a copy, or certify anew into another "
                "directory"
            ) from problem

    @cached_property
    def _db(self) -> sqlite3.Connection:
        """The connection, made when it is first needed."""
        with self._explained():
            try:
                return self._connected()
            except sqlite3.OperationalError:
                if not self._unwritable():
                    raise
                return self._connected("?mode=ro&immutable=1")

    def _connected(self, how: str = "") -> sqlite3.Connection:
        """A connection, once the file has shown that it is one of results."""
        address = self.file.absolute().as_uri() + how
        db = sqlite3.connect(address, timeout=60, isolation_level=None, check_same_thread=False, uri=True)
        try:
            db.execute("PRAGMA busy_timeout=60000")
            db.execute("PRAGMA synchronous=FULL")
            self._check(db)
        except BaseException:
            db.close()
            raise
        return db

    def _unwritable(self) -> bool:
        """May the file be taken for one that nobody changes: on a medium that cannot be written, with no log left to fold in?

        SQLite needs a file beside one that was written ahead, even to read it; and what is in a log is not in the file.
        """
        left = self.file.with_name(self.file.name + "-wal")
        if not self.begun or (left.exists() and left.stat().st_size):
            return False
        try:
            with tempfile.TemporaryFile(dir=self.file.parent):
                return False
        except OSError:
            return True

    def _check(self, db: sqlite3.Connection) -> None:
        """Refuse another program's file, and one of a newer form."""
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "facts" not in tables:
            raise StoreError(f"{self.file} is a database of something else; give a run directory made by smoothcert")
        found = db.execute("SELECT value FROM facts WHERE name = 'format'").fetchone() if tables else (str(FORMAT),)
        if found is None or not found[0].isdigit() or int(found[0]) > FORMAT:
            raise StoreError(
                f"{self.file} has format {found and found[0]}; this smoothcert reads up to {FORMAT}: install a newer one"
            )

    @cached_property
    def _writable(self) -> sqlite3.Connection:
        """The connection, once the directory, the file and its tables are there."""
        directory = self.file.parent
        foreign = directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
        if foreign and not self.begun:  # asked last: another process may just have begun the same run
            raise RunError(f"{directory} exists, is not empty and is not a run; give --out another directory")
        directory.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(
                f"BEGIN IMMEDIATE; {SCHEMA} INSERT OR IGNORE INTO facts VALUES ('format', '{FORMAT}'); COMMIT;"
            )
        return self._db

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query finds; nothing is made where there is no file."""
        if not self.begun:
            raise StoreError(f"there is no file of results at {self.file}; certify into that directory first")
        with self._explained():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or nothing."""
        with self._explained(), self._writable as db:  # commits, or rolls back
            db.execute("BEGIN IMMEDIATE")
            yield db

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        for name in ("_writable", "_db"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def facts(self) -> dict[str, Any]:
        rows = self._rows("SELECT name, value FROM facts WHERE name <> 'format'")
        with self._whole("a fact"):
            return {name: _fact(name, value) for name, value in rows}

    def describe(self, facts: Mapping[str, Any]) -> None:
        rows = [(name, json.dumps(value, sort_keys=True)) for name, value in facts.items()]
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def claim(self, name: str, value: Any) -> Any:
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, json.dumps(value, sort_keys=True)))
        return self.facts()[name]

    def append_all(self, rows: Iterable[Row]) -> None:
        with self._writing() as db:
            for record, seconds, picture in rows:
                row = (record.index, record.to_json(), seconds)
                new = db.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?)", row).rowcount
                if new and picture is not None:
                    shape, data = json.dumps(picture.pixels.shape), zlib.compress(picture.pixels.tobytes())
                    drawn = (record.index, shape, picture.low, picture.high, data)
                    db.execute("INSERT OR IGNORE INTO pictures VALUES (?, ?, ?, ?, ?)", drawn)

    def records(self) -> Iterator[Record]:
        for index, body in self._rows("SELECT idx, body FROM records ORDER BY idx"):
            with self._whole(f"the record of input {index}"):
                record = Record.from_json(body)
                if record.index != index:
                    raise ValueError(f"it is that of input {record.index}")
            yield record

    def seconds(self) -> dict[int, float]:
        with self._whole("a time"):
            return {i: float(took) for i, took in self._rows("SELECT idx, seconds FROM records ORDER BY idx")}

    def pictured(self) -> list[int]:
        return [index for (index,) in self._rows("SELECT idx FROM pictures ORDER BY idx")]

    def picture(self, index: int) -> Picture:
        found = self._rows("SELECT shape, low, high, data FROM pictures WHERE idx = ?", index)
        if not found:
            raise StoreError(f"{self.file} holds no picture of input {index}; the run is incomplete")
        [(shape, low, high, data)] = found
        with self._whole(f"the picture of input {index}"):
            return Picture(_unpacked(data, "u1", shape), low, high)

    def keep_array(self, address: str, array: FloatArray) -> None:
        row = (address, json.dumps(array.shape), zlib.compress(array.tobytes(), 1))
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO arrays VALUES (?, ?, ?)", row)

    def kept_array(self, address: str) -> FloatArray | None:
        for shape, data in self._rows("SELECT shape, data FROM arrays WHERE address = ?", address):
            with self._whole(f"the array {address[:12]}…"):
                return np.asarray(_unpacked(data, "<f8", shape), dtype=float)
        return None

    def keep(self, effort: str, finding: Finding) -> None:
        row = (effort, finding.times, finding.index, finding.to_json(self.put(finding.offset)))
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?)", row)

    def findings(self, effort: str | None = None) -> Iterator[Finding]:
        query = "SELECT idx, body FROM findings WHERE effort = coalesce(?, effort) ORDER BY effort, times, idx"
        for index, body in self._rows(query, effort):
            with self._whole(f"a finding at input {index}"):
                found = Finding.from_json(body, self.get)
            yield found

    def keeper(self, *, create: bool = False) -> Keeper | None:
        """The same file; its promises have tables of their own."""
        if create or self._keeps_promises():
            return MemoryFile(self.file, create=create)
        return None

    def _keeps_promises(self) -> bool:
        made = self._rows("SELECT 1 FROM sqlite_master WHERE name = 'memory_promises'")
        return bool(made and self._rows("SELECT 1 FROM memory_promises LIMIT 1"))


def _fact(name: str, text: str) -> Any:
    """A fact read back; one that other code looks into must be of its kind."""
    value = json.loads(text)
    kind = KINDS.get(name)
    if kind is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is a {type(value).__name__}")
    return value


def _unpacked(data: bytes, kind: str, shape: str) -> Any:
    """An array from the bytes that were pressed, writable."""
    return np.frombuffer(zlib.decompress(data), dtype=kind).reshape(json.loads(shape)).copy()
