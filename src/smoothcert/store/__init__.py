"""Where results are kept: a run directory, or any other store that is written as name:key=value or handed in open."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from pathlib import Path

from smoothcert.errors import RunError, SettingError
from smoothcert.registry import Registry, usage
from smoothcert.store.base import Keeper, ResultStore
from smoothcert.store.in_memory import InMemoryStore
from smoothcert.store.postgres import PostgresStore
from smoothcert.store.server import is_server
from smoothcert.store.sqlite import RESULTS, SqliteStore

__all__ = [
    "REGISTRY",
    "RESULTS",
    "STORES",
    "VOID",
    "InMemoryStore",
    "Keeper",
    "Place",
    "PostgresStore",
    "ResultStore",
    "SqliteStore",
    "check_filled",
    "check_free",
    "check_not_void",
    "directory_of",
    "new_run",
    "open_run",
    "opened",
    "store_of",
]

STORES: dict[str, type[ResultStore]] = {
    "sqlite": SqliteStore,
    "in_memory": InMemoryStore,
    "postgres": PostgresStore,
}
REGISTRY: Registry[ResultStore] = Registry("store", "smoothcert.stores", STORES, ResultStore)  # type: ignore[type-abstract]
Place = Path | str | ResultStore
VOID = "void"  # the fact that says why nothing in a run may be used


def store_of(place: Place) -> ResultStore:
    """The store at a place: a directory, URL#run, a text in the grammar of plug-ins (which has a colon), or a store itself.

    >>> str(store_of("runs/a")), str(store_of("sqlite:path=runs/a"))
    ('sqlite:path=runs/a', 'sqlite:path=runs/a')
    """
    if isinstance(place, ResultStore):
        return place
    if isinstance(place, str) and is_server(place):
        return PostgresStore.at(place)
    if isinstance(place, Path) or ":" not in place or Path(place).drive or Path(place).is_dir():
        if place in REGISTRY.names and not Path(place).exists():
            raise SettingError(
                f"{place!r} is the name of a store; write {usage(REGISTRY.find(str(place)))}, or ./{place} for a directory"
            )
        return SqliteStore(place)
    return REGISTRY.make(place)


def directory_of(place: Place) -> Path | None:
    """The directory that a place is, None for any other store."""
    if is_server(place):
        return None
    store = store_of(place)
    return Path(store.path) if isinstance(store, SqliteStore) else None


@contextmanager
def opened(place: Place) -> Iterator[ResultStore]:
    """The store at a place, begun or not; it is closed afterwards, unless it was handed in open."""
    store = store_of(place)
    if store is place:
        yield store
    elif not store.lasting:
        raise SettingError(
            f"{place} ends with this call, and what it keeps would be lost; make a {type(store).__name__} in Python and hand it in"
        )
    else:
        with store:
            yield store


@contextmanager
def open_run(run: Place) -> Iterator[ResultStore]:
    """The store of an existing run."""
    with opened(run) as store:
        if not store.begun:
            raise RunError(f"{run} is not a run: it holds no results; give one that smoothcert certify wrote")
        check_not_void(store)
        yield store


def check_not_void(store: ResultStore) -> None:
    """Refuse a run whose classifier changed while it voted."""
    reason = store.facts().get(VOID)
    if reason is not None:
        raise RunError(f"the run in {directory_of(store) or store} is void ({reason}); certify into a new directory")


def check_filled(run: Place, records: Sized) -> None:
    """Refuse a run that has no record yet."""
    if not records:
        raise RunError(f"{run} holds no records yet; certify some inputs into it first")


def check_free(out: Place) -> None:
    """Refuse a place for a new run that holds something."""
    path = directory_of(out)
    if path is not None:
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
    else:
        with opened(out) as store:
            taken = store.begun
    if taken:
        raise RunError(f"{out} exists and is not an empty {'store' if path is None else 'directory'}; give another one")


@contextmanager
def new_run(out: Place) -> Iterator[ResultStore]:
    """The store of a new run; a run directory gets its name only when all is in it."""
    check_free(out)
    path, own = directory_of(out), uuid.uuid4().hex  # of several that find it free one goes on
    if path is None:
        with opened(out) as store:
            if store.claim("maker", own) != own:
                raise RunError(f"another program is writing to {out}; give another place")
            yield store
        return
    part = path.with_name(f".{path.name}.{own}.part")
    try:
        with SqliteStore(part) as store:
            yield store
        check_free(out)
        os.replace(part, path)  # no directory that is not empty
    finally:
        shutil.rmtree(part, ignore_errors=True)
