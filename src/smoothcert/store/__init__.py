"""Where results are kept. A run is a directory with one file of results in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from pathlib import Path

from smoothcert.errors import RunError
from smoothcert.store.base import ResultStore
from smoothcert.store.sqlite import SqliteStore

__all__ = [
    "RESULTS",
    "VOID",
    "ResultStore",
    "SqliteStore",
    "check_filled",
    "check_free",
    "check_not_void",
    "new_run",
    "open_run",
]

RESULTS = "results.sqlite"
VOID = "void"  # the fact that says why nothing in a run may be used


def open_run(directory: Path | str) -> SqliteStore:
    """The store of an existing run, for reading."""
    path = Path(directory)
    if not (path / RESULTS).is_file():
        raise RunError(
            f"{path} is not a run: there is no {RESULTS} in it; give a directory that smoothcert certify wrote"
        )
    return check_not_void(SqliteStore(path / RESULTS))


def check_not_void(store: SqliteStore) -> SqliteStore:
    """The store, refused and closed if the classifier changed while it voted."""
    reason = store.facts().get(VOID)
    if reason is not None:
        store.close()
        raise RunError(f"the run in {store.path.parent} is void ({reason}); certify into a new directory")
    return store


def check_filled(directory: Path | str, records: Sized) -> None:
    """Refuse a run that has no record yet."""
    if not records:
        raise RunError(f"{directory} holds no records yet; certify some inputs into it first")


def check_free(out: Path | str) -> None:
    """Refuse a place for a new run that holds something."""
    path = Path(out)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError(f"{path} exists and is not an empty directory; give another one")


@contextmanager
def new_run(out: Path | str) -> Iterator[SqliteStore]:
    """The store of a run directory that gets its name only when all is in it."""
    check_free(out)
    part = Path(out).with_name(f".{Path(out).name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        with SqliteStore(part / RESULTS, create=True) as store:
            yield store
        os.replace(part, out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
