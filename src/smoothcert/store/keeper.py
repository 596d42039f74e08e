"""The memory's file: every promise in the order it was made, exact, one SQLite file or a part of a run's results."""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from smoothcert.certificates import Soundness
from smoothcert.errors import StoreError
from smoothcert.maths import FloatArray
from smoothcert.records.promise import Promise
from smoothcert.regions import Region

Given = TypeVar("Given")
FORMAT = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS memory_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS memory_promises (sequence INTEGER PRIMARY KEY, run TEXT NOT NULL, idx INTEGER,
    label INTEGER NOT NULL, soundness TEXT NOT NULL, radius REAL NOT NULL, norm REAL NOT NULL, shapes TEXT NOT NULL,
    center BLOB NOT NULL, scale BLOB NOT NULL, details TEXT NOT NULL, checksum INTEGER NOT NULL, UNIQUE (run, idx));
"""


class MemoryFile:
    """Promises and facts in SQLite, with a write-ahead log and full synchronisation; path None is kept in memory only.

    A file that is something else, or damaged, is refused before anything is written to it.
    """

    def __init__(self, path: Path | None, *, create: bool = True) -> None:
        self.name = "kept in memory" if path is None else str(path)
        self.lasting = path is not None
        with self.explained():
            if path is not None and (path.exists() or not create):
                _check(path, create)
            elif path is not None:
                _create(path)
            self._db = _connected(":memory:" if path is None else str(path))
            self._close = weakref.finalize(self, self._db.close)
            if path is not None:
                self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            with self.transaction():  # each table if it is missing: a run's results get theirs here
                for statement in filter(str.strip, SCHEMA.split(";")):
                    self._db.execute(statement)
                self._db.execute("INSERT OR IGNORE INTO memory_facts VALUES ('format', ?)", (str(FORMAT),))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what SQLite says into what a user can do."""
        try:
            yield
        except sqlite3.ProgrammingError as problem:
            raise StoreError(f"the memory {self.name} was closed ({problem}); open it again") from problem
        except (sqlite3.OperationalError, OSError) as problem:
            raise StoreError(
                f"cannot use the memory {self.name}: {problem}; the promises already made are safe. Check its "
                "permissions, free space on its disk, and that no other program holds it"
            ) from problem
        except (sqlite3.DatabaseError, zlib.error, ValueError) as problem:
            raise StoreError(
                f"the memory {self.name} is damaged or is something else ({problem}); give a file made by Memory.open, "
                "or restore it from a copy: without it, earlier promises cannot be kept"
            ) from problem

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Nobody else writes meanwhile; all of it is kept, or nothing."""
        with self.explained():
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self.explained():
                self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def wait(self, seconds: float) -> None:
        """How long to wait for another program that writes."""
        self._db.execute(f"PRAGMA busy_timeout={1000 * seconds:.0f}")

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def insist(self, act: Callable[[], Given]) -> Given:
        """Once: a file is not lost from one moment to the next."""
        return act()

    def facts(self) -> dict[str, Any]:
        """What all promises have in common: format, dim, norm, owner; and void, if they may not be used."""
        with self.explained():
            return {name: json.loads(value) for name, value in self._db.execute("SELECT name, value FROM memory_facts")}

    def describe(self, facts: dict[str, Any]) -> None:
        """Keep facts, inside a transaction."""
        with self.explained():
            rows = [(name, json.dumps(value)) for name, value in facts.items()]
            self._db.executemany("INSERT OR REPLACE INTO memory_facts VALUES (?, ?)", rows)

    def add(self, promise: Promise) -> None:
        """Keep one promise, inside a transaction."""
        with self.explained():
            row = packed(promise)
            self._db.execute(f"INSERT INTO memory_promises VALUES ({'?, ' * len(row)}?)", (*row, checksum(row)))

    def after(self, sequence: int) -> Iterator[Promise]:
        """The promises made after this one, in order."""
        return self._selected("sequence > ? ORDER BY sequence", sequence)

    def at(self, sequence: int) -> Promise:
        """The promise with this number."""
        (promise,) = self._selected("sequence = ?", sequence)
        return promise

    def of(self, run: str, index: int) -> Promise | None:
        """The promise made for this input of a run, if any."""
        found = list(self._selected("run = ? AND idx = ?", run, index))
        return found[0] if found else None

    def settled(self, run: str) -> dict[int, tuple[int, float]]:
        """Label and radius of the promise for each input of a run that has one, by index."""
        query = "SELECT idx, label, radius FROM memory_promises WHERE run = ? AND idx IS NOT NULL"
        with self.explained():
            return {index: (label, radius) for index, label, radius in self._db.execute(query, (run,))}

    def _selected(self, condition: str, *values: str | int) -> Iterator[Promise]:
        with self.explained():
            for row in self._db.execute(f"SELECT * FROM memory_promises WHERE {condition}", values):
                yield unpacked(row)


def _connected(address: str, *, uri: bool = False) -> sqlite3.Connection:
    # Any thread may use it: Memory lets in one at a time.
    connection = sqlite3.connect(address, timeout=60, isolation_level=None, check_same_thread=False, uri=uri)
    connection.execute("PRAGMA busy_timeout=60000")
    return connection


def _check(path: Path, create: bool) -> None:
    """Refuse what is neither a memory nor, to make one in it, a run's results; without writing."""
    if not path.exists():
        raise StoreError(f"there is no memory at {path}; make one with smoothcert certify --memory, or Memory.open")
    if path.is_dir() or path.stat().st_size == 0:
        raise ValueError("it is a directory" if path.is_dir() else "it is empty")
    with closing(_connected(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables >= {"memory_facts", "memory_promises"} and not tables >= {"facts", "records", "arrays"}:
            raise ValueError(f"it holds the tables {sorted(tables)}")
        if not create and "memory_facts" not in tables:
            raise StoreError(f"{path} holds no memory; give a file or a run made by smoothcert certify --memory")
        if "memory_facts" in tables:
            found = db.execute("SELECT value FROM memory_facts WHERE name = 'format'").fetchone()
            if found is None or not found[0].isdigit() or int(found[0]) > FORMAT:
                newer = f"the memory {path} has format {found and found[0]}; this smoothcert reads up to {FORMAT}"
                raise StoreError(f"{newer}: install a newer one")


def _create(path: Path) -> None:
    """A new file appears whole, or was made by another process a moment ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with closing(_connected(str(draft))) as db:
        db.executescript(f"BEGIN; {SCHEMA} INSERT OR IGNORE INTO memory_facts VALUES ('format', '{FORMAT}'); COMMIT;")
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError:  # a file system without links
        if not path.exists():
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def packed(promise: Promise) -> tuple[Any, ...]:
    """A promise as the columns of a row, all but the last, its checksum."""
    region = promise.region
    center, scale = np.asarray(region.center, dtype="<f8"), np.asarray(region.scale, dtype="<f8")
    shapes = json.dumps([center.shape, scale.shape])
    return (
        *(promise.sequence, promise.run, None if promise.index is None else int(promise.index), int(promise.label)),
        *(promise.soundness.value, float(region.radius), float(region.norm), shapes),
        *(_pressed(center), _pressed(scale)),
        json.dumps(promise.details, sort_keys=True),
    )


def unpacked(row: tuple[Any, ...]) -> Promise:
    """The promise in a row; one that was altered is a ValueError."""
    if row[-1] != checksum(row[:-1]):
        raise ValueError(f"promise {row[0]} does not match its checksum")
    sequence, run, index, label, soundness, radius, norm, shapes, center, scale, details, _ = row
    center_shape, scale_shape = json.loads(shapes)
    region = Region(_array(center, center_shape), _array(scale, scale_shape), radius, norm)
    return Promise(sequence, run, index, label, region, Soundness(soundness), json.loads(details))


def _pressed(array: FloatArray) -> bytes:
    return zlib.compress(np.ascontiguousarray(array, dtype="<f8").tobytes(), 1)


def _array(data: bytes, shape: list[int]) -> FloatArray:
    return np.frombuffer(zlib.decompress(data), dtype="<f8").reshape(shape).astype(float)


def checksum(row: tuple[Any, ...]) -> int:
    """CRC-32 of a row: a promise that a failing disk altered must not be kept wrongly."""
    return zlib.crc32(b"|".join(value if isinstance(value, bytes) else repr(value).encode() for value in row))
