"""Where results are kept. A run is a directory with one file of results in it."""

from __future__ import annotations

from pathlib import Path

from smoothcert.errors import RunError
from smoothcert.store.base import ResultStore
from smoothcert.store.sqlite import SqliteStore

__all__ = ["RESULTS", "ResultStore", "SqliteStore", "open_run"]

RESULTS = "results.sqlite"


def open_run(directory: Path | str) -> SqliteStore:
    """The store of an existing run, for reading."""
    path = Path(directory)
    if not (path / RESULTS).is_file():
        raise RunError(
            f"{path} is not a run: there is no {RESULTS} in it; give a directory that smoothcert certify wrote"
        )
    return SqliteStore(path / RESULTS)
