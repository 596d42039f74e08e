"""A Postgres database by its URL: connected when first asked, asked again after a lost connection, its password never told."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from smoothcert.errors import SettingError, StoreError
from smoothcert.extras import import_extra

if TYPE_CHECKING:
    from psycopg import Connection

Given = TypeVar("Given")
SCHEMES = ("postgresql://", "postgres://")
FORMAT = 2
PATIENCE = 30.0  # seconds for which a connection that was lost is asked for again
# A settler that stands still holds up all others, so the server ends its transaction, which has promised nothing yet.
# READ COMMITTED, whatever the database prefers: each statement must see what was committed before the lock was had.
BEGIN = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL lock_timeout = '60s';
SET LOCAL idle_in_transaction_session_timeout = '60s';
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
SELECT pg_advisory_xact_lock({key})
"""
SCHEMA = f"""
CREATE SCHEMA IF NOT EXISTS smoothcert;
CREATE TABLE smoothcert.format (version integer NOT NULL);
CREATE TABLE smoothcert.facts (run text, name text, value text NOT NULL, PRIMARY KEY (run, name));
CREATE TABLE smoothcert.records (run text, idx bigint, body text NOT NULL, seconds double precision NOT NULL,
    PRIMARY KEY (run, idx));
CREATE TABLE smoothcert.arrays (run text, address text, shape text NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (run, address));
CREATE TABLE smoothcert.pictures (run text, idx bigint, shape text NOT NULL, low double precision NOT NULL,
    high double precision NOT NULL, data bytea NOT NULL, PRIMARY KEY (run, idx));
CREATE TABLE smoothcert.findings (run text, effort text, times double precision, idx bigint, body text NOT NULL,
    PRIMARY KEY (run, effort, times, idx));
CREATE TABLE smoothcert.memory_facts (memory text, name text, value text NOT NULL, PRIMARY KEY (memory, name));
CREATE TABLE smoothcert.memory_promises (memory text, sequence bigint, run text NOT NULL, idx bigint,
    label bigint NOT NULL, soundness text NOT NULL, radius double precision NOT NULL, norm double precision NOT NULL,
    shapes text NOT NULL, center bytea NOT NULL, scale bytea NOT NULL, details text NOT NULL, checksum bigint NOT NULL,
    PRIMARY KEY (memory, sequence), UNIQUE (memory, run, idx));
INSERT INTO smoothcert.format VALUES ({FORMAT});
"""

# Read from the catalogue: to_regclass may answer from a cache that is older than the lock.
MADE = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'smoothcert' AND c.relname = 'format')
"""


class Lost(Exception):
    """The connection broke; whether the last transaction was committed is not known."""


def is_server(place: object) -> bool:
    """Is it the URL of a Postgres database?"""
    return isinstance(place, str) and place.startswith(SCHEMES)


def named(place: str, default: str = "") -> tuple[str, str]:
    """The database and the name of URL#name.

    >>> named("postgresql://host/db#runs/a"), named("postgresql://host/db", "memory")
    (('postgresql://host/db', 'runs/a'), ('postgresql://host/db', 'memory'))
    """
    url, _, name = place.rpartition("#") if "#" in place else (place, "", default)
    if not name or "@" in name:
        raise SettingError(
            f"{parted(url)[0]} is to be followed by #name, which holds no @; in a password write # as %23 and @ as %40"
        )
    return url, name


def parted(url: str) -> tuple[str, str | None]:
    """A database's URL without its password, and the password.

    >>> parted("postgresql://me:s%23cret@host/db?sslmode=require")
    ('postgresql://me@host/db?sslmode=require', 's#cret')
    """
    if not is_server(url):
        raise SettingError(f"{url!r} is no URL of Postgres; write postgresql://user@host:port/database")
    whole = urlsplit(url)
    login, at, host = whole.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    if whole.fragment or "@" in whole.path + whole.query or not set(url).isdisjoint(" \t\n,"):
        raise SettingError(
            "the URL of Postgres cannot be read; write postgresql://user@host:port/database, and with a password after the user's "
            "name and a colon; in both write / as %2F, ? as %3F, # as %23, @ as %40, a comma as %2C and a space as %20"
        )
    asked = parse_qsl(whole.query, keep_blank_values=True)
    given = [value for name, value in asked if name == "password"] + ([unquote(password)] if colon else [])
    query = urlencode([(name, value) for name, value in asked if name != "password"], safe="/")
    bare = f"{whole.scheme}://{user}{at}{host}{whole.path}" + (f"?{query}" if query else "")
    return bare, given[-1] if given else None


def lock_key(what: str) -> int:
    """The number of the advisory lock for this, 64 bits of a hash."""
    return int.from_bytes(hashlib.sha256(f"smoothcert {what}".encode()).digest()[:8], "big", signed=True)


class Server:
    """A database that may be out of reach for a while: what was acknowledged is there, and nothing is done twice.

    Always the primary: a standby lags behind, and a promise that is not seen would be contradicted.
    """

    def __init__(self, url: str, patience: float | None = None) -> None:
        self._url, self._password = parted(url)
        self._patience = patience  # None: the usual one
        self._connection: Connection[Any] | None = None
        self._owner, self._inside, self._insisting, self._ready = 0, False, False, False
        self._release: Callable[[], object] = lambda: None
        self._turn = threading.RLock()

    def __str__(self) -> str:
        return self._url

    def close(self) -> None:
        """Let go of the connection."""
        if self._owner == os.getpid():  # a fork must not say goodbye on the socket of its parent
            self._release()
        # What is there when it is reached again may be other tables.
        self._connection, self._inside, self._ready = None, False, False

    def insist(self, act: Callable[[], Given]) -> Given:
        """What the act gives; after a lost connection it is done again, so it must find out what it has done before."""
        with self._turn:
            if self._insisting:
                return act()
            self._insisting = True
            try:
                return self._insisted(act)
            finally:
                self._insisting = False

    def _insisted(self, act: Callable[[], Given]) -> Given:
        until, pause, patience = 0.0, 0.05, PATIENCE if self._patience is None else self._patience
        while True:
            try:
                return act()
            except Lost as problem:
                self.close()
                if not until:
                    warnings.warn(f"lost the connection to {self} ({problem}); trying again", stacklevel=5)
                    until = time.monotonic() + patience
                if time.monotonic() > until:
                    raise StoreError(
                        f"lost the connection to {self} ({problem}) and did not get it back within {patience:g} s; all that "
                        "was acknowledged is kept there: give the same command again once the server answers"
                    ) from problem
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query finds: in the transaction, if there is one."""

        def act() -> list[tuple[Any, ...]]:
            with self._explained():
                # In binary: a database may be set to tell floats as texts that are not exact.
                return self._connected().execute(query, values, binary=True).fetchall()

        return self.insist(act)

    def write(self, query: str, rows: list[tuple[Any, ...]]) -> None:
        """A statement for each row, inside a transaction."""
        assert self._inside
        with self._explained(), self._connected().cursor() as cursor:
            if len(rows) == 1:
                cursor.execute(query, rows[0])
            else:  # in a pipeline, after which the server no longer ends a session that stands still
                cursor.executemany(query, rows)

    @contextmanager
    def transaction(self, key: int) -> Iterator[None]:
        """Nobody else who takes this lock is in a transaction; all of it is kept, or nothing; for use in ``insist``."""
        self.make_tables()
        with self._locked(key):
            yield

    @contextmanager
    def _locked(self, key: int) -> Iterator[None]:
        """A transaction that holds a lock, committed at its end, rolled back by an error."""
        self._begin(key)
        try:
            yield
            with self._explained():
                self._connected().execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._inside = False

    def _begin(self, key: int) -> None:
        try:
            with self._explained():
                self._connected().execute(BEGIN.format(key=key))
        except BaseException:
            self._roll_back()
            raise
        self._inside = True

    def _roll_back(self) -> None:
        if self._connection is None:
            return
        with suppress(Exception):  # a connection that is lost has rolled back already
            self._connection.execute("ROLLBACK")

    def has_tables(self) -> bool:
        """Was anything ever kept here? Tables of another version are refused."""
        if self._ready:
            return True
        [(found,)] = self.rows(MADE)
        if found:
            versions = [version for (version,) in self.rows("SELECT version FROM smoothcert.format")]
            if versions != [FORMAT]:
                raise StoreError(
                    f"the tables of {self} have version {', '.join(map(str, versions)) or 'none'}; this smoothcert reads "
                    f"version {FORMAT} alone: use the one that made them, or another database"
                )
            self._ready = True
        return self._ready

    def make_tables(self) -> None:
        """Make what is missing; of several that do so at once, one does."""
        if self.has_tables():
            return
        with self._locked(lock_key("tables")):
            if not self.has_tables():
                with self._explained():
                    self._connected().execute(SCHEMA)

    def _connected(self) -> Connection[Any]:
        """The connection, made if there is none; in a transaction it must be the same."""
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        if self._inside:
            raise Lost("it was closed in a transaction")
        connection = self._opened()
        self._connection, self._owner = connection, os.getpid()
        self._release = weakref.finalize(self, connection.close)
        return connection

    def _opened(self) -> Connection[Any]:
        psycopg = _library()
        secret = {} if self._password is None else {"password": self._password}
        try:
            connection: Connection[Any] = psycopg.connect(
                self._url,
                autocommit=True,
                prepare_threshold=None,  # a pooler hands one session to several clients
                connect_timeout=10,
                target_session_attrs="read-write",
                application_name="smoothcert",
                client_encoding="utf8",  # texts of a database without an encoding would come as bytes
                **secret,
            )
        except psycopg.Error as problem:
            raise self._unreachable(problem) from None  # what a parser says of a URL may quote the password
        [(safe,)] = connection.execute("SELECT current_setting('fsync') = 'on'").fetchall()
        if not safe:
            connection.close()
            raise StoreError(
                f"{self} runs with fsync = off: a crash of it would lose what it has acknowledged; set it to on"
            )
        return connection

    def _unreachable(self, problem: Exception) -> Exception:
        reason = " ".join(str(problem).split())
        if self._password:
            reason = reason.replace(self._password, "…")
        if self._insisting and self._owner:  # it was reached before, so it may come back
            return Lost(reason)
        return StoreError(
            f"cannot reach {self} ({reason}); check that a Postgres answers there, the user's name, and the password: in the "
            "URL, in PGPASSWORD or in ~/.pgpass"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what Postgres says into what a user can do."""
        psycopg = _library()
        try:
            yield
        except psycopg.Error as problem:
            reason = " ".join(str(problem).split())
            if self._connection is None or self._connection.closed:
                raise Lost(reason) from problem
            if isinstance(problem, psycopg.errors.LockNotAvailable):
                raise StoreError(
                    f"another program has held a lock in {self} for more than 60 s; see which in pg_stat_activity, end it, and "
                    "give the same command again"
                ) from problem
            raise StoreError(
                f"{self} refused ({reason}); nothing of this step was kept: check the user's rights, the server's disk, and that "
                "nothing else wrote to the schema smoothcert"
            ) from problem


def _library() -> Any:
    """psycopg, or what to install."""
    return import_extra("psycopg", "Postgres servers", "postgres")
