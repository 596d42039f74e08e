"""A store on a server: a run by name in a Postgres database that many runs, machines and memories share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from smoothcert.errors import StoreError
from smoothcert.registry import setting
from smoothcert.store.base import Keeper
from smoothcert.store.server import Server, lock_key, named, parted
from smoothcert.store.server_keeper import ServerKeeper
from smoothcert.store.sql import KEYS, REPLACED, SqlStore


@dataclass(frozen=True, eq=False)
class PostgresStore(SqlStore):
    """One run of the many in a database; written URL#run for short.

    A password in the URL is used and told to nobody: who makes the store again from its text has it in PGPASSWORD or
    in ~/.pgpass.
    """

    name = "postgres"
    keeps_memory: ClassVar[bool] = True

    url: str = setting(help="postgresql://user@host:port/database", changes="nothing")
    run: str = setting(help="the run's name there", changes="nothing")
    _given: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_given", self.url)
        object.__setattr__(self, "url", parted(self.url)[0])

    @classmethod
    def at(cls, place: str) -> PostgresStore:
        """The run at URL#run.

        >>> str(PostgresStore.at("postgresql://me:secret@host/db#runs/a"))
        'postgres:url=postgresql://me@host/db,run=runs/a'
        """
        return cls(*named(place))

    @cached_property
    def _server(self) -> Server:
        return Server(self._given)

    @property
    def _place(self) -> str:
        return f"{self.url}#{self.run}"

    @property
    def begun(self) -> bool:
        if not self._server.has_tables():
            return False
        held = [f"EXISTS (SELECT 1 FROM smoothcert.{table} WHERE run = %s)" for table in KEYS]
        [(found,)] = self._server.rows(f"SELECT {' OR '.join(held)}", *[self.run] * len(held))
        return bool(found)

    def close(self) -> None:
        self._server.close()

    def _found(self, columns: str, table: str, more: str = "", *values: object) -> list[tuple[Any, ...]]:
        if not self._server.has_tables():
            raise StoreError(f"there are no results at {self._place}; certify into it first")
        return self._server.rows(f"SELECT {columns} FROM smoothcert.{table} WHERE run = %s {more}", self.run, *values)

    def _transacted(self, act: Callable[[], None]) -> None:
        """Every write may be done twice, which is what makes it safe to do it again after a lost connection."""

        def once() -> None:
            with self._server.transaction(lock_key(f"run {self.run}")):
                act()

        self._server.insist(once)

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]], replace: bool) -> None:
        if not rows:
            return
        same, places = "DO NOTHING", ", ".join(["%s"] * (1 + len(rows[0])))
        if replace:
            same = f"(run, {KEYS[table]}) DO UPDATE SET {REPLACED[table]} = EXCLUDED.{REPLACED[table]}"
        query = f"INSERT INTO smoothcert.{table} VALUES ({places}) ON CONFLICT {same}"
        self._server.write(query, [(self.run, *row) for row in rows])

    def keeper(self, *, create: bool = False) -> Keeper | None:
        """The memory that is called as the run is."""
        made = "SELECT 1 FROM smoothcert.memory_promises WHERE memory = %s LIMIT 1"
        if create or (self._server.has_tables() and self._server.rows(made, self.run)):
            return ServerKeeper(self._given, self.run, create=create)
        return None
