"""The default store: a run directory with one SQLite file in it, safe against a crash at any moment."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from smoothcert.errors import RunError, StoreError
from smoothcert.registry import setting
from smoothcert.store.base import Keeper
from smoothcert.store.keeper import MemoryFile
from smoothcert.store.sql import SqlStore

RESULTS = "results.sqlite"
FORMAT = 2
WAIT = 60  # seconds for another writer
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
class SqliteStore(SqlStore):
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
        return self.file.is_file() and self._made()

    def _made(self) -> bool:
        """Are the tables there? Who made the file may have been killed before them; once there, they stay."""
        if "_tables" not in self.__dict__:
            with self._explained():
                if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'facts'").fetchall():
                    return False
            self.__dict__["_tables"] = True
        return True

    @property
    def _place(self) -> str:
        return str(self.file)

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
            raise StoreError(
                f"cannot use {self.file}: {problem}; check its permissions and that no other program holds it"
            ) from problem
        except (sqlite3.DatabaseError, UnicodeDecodeError) as problem:
            raise StoreError(
                f"{self.file} is not a file of results ({problem}); give a run directory made by smoothcert"
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
        db = sqlite3.connect(address, timeout=WAIT, isolation_level=None, check_same_thread=False, uri=True)
        try:
            db.execute(f"PRAGMA busy_timeout={1000 * WAIT}")
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
        if not self.file.is_file() or (left.exists() and left.stat().st_size):
            return False
        try:
            with tempfile.TemporaryFile(dir=self.file.parent):
                return False
        except OSError:
            return True

    def _check(self, db: sqlite3.Connection) -> None:
        """Refuse another program's file, and one of another form."""
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "facts" not in tables:
            raise StoreError(f"{self.file} is a database of something else; give a run directory made by smoothcert")
        found = db.execute("SELECT value FROM facts WHERE name = 'format'").fetchone() if tables else (str(FORMAT),)
        if found is None or found[0] != str(FORMAT):
            raise StoreError(
                f"{self.file} has format {found and found[0]}; this smoothcert reads format {FORMAT} alone: use the one that made it"
            )

    def check_own(self) -> None:
        """Refuse a directory in which something else lies."""
        directory = self.file.parent
        foreign = directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
        if foreign and not self.file.is_file():  # asked last: another process may just have begun the same run
            raise RunError(f"{directory} exists, is not empty and is not a run; give --out another directory")

    @cached_property
    def _writable(self) -> sqlite3.Connection:
        """The connection, once the directory, the file and its tables are there."""
        self.check_own()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            _write_ahead(self._db)
            self._db.executescript(
                f"BEGIN IMMEDIATE; {SCHEMA} INSERT OR IGNORE INTO facts VALUES ('format', '{FORMAT}'); COMMIT;"
            )
        return self._db

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query finds; nothing is made where there is no file."""
        if not self.begun:
            raise StoreError(
                f"there is no file of results at {self.file}, or nothing in it yet; certify into that directory first"
            )
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        self.__dict__.pop("_tables", None)
        for name in ("_writable", "_db"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def _found(self, columns: str, table: str, more: str = "", *values: object) -> list[tuple[Any, ...]]:
        return self._rows(f"SELECT {columns} FROM {table} WHERE true {more.replace('%s', '?')}", *values)

    def _transacted(self, act: Callable[[], None]) -> None:
        with self._explained(), self._writable as db:  # commits, or rolls back
            db.execute("BEGIN IMMEDIATE")
            act()

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]], replace: bool) -> None:
        if not rows:
            return
        places = ", ".join("?" * len(rows[0]))
        self._db.executemany(f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO {table} VALUES ({places})", rows)

    def keeper(self, *, create: bool = False) -> Keeper | None:
        """The same file; its promises have tables of their own."""
        if create or self._keeps_promises():
            return MemoryFile(self.file, create=create)
        return None

    def _keeps_promises(self) -> bool:
        made = self._rows("SELECT 1 FROM sqlite_master WHERE name = 'memory_promises'")
        return bool(made and self._rows("SELECT 1 FROM memory_promises LIMIT 1"))


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch to a log that is written ahead; SQLite itself does not wait where another process does so at once."""
    until = time.monotonic() + WAIT
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > until:
                raise
            time.sleep(0.02)
