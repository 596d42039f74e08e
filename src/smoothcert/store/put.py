"""A finished run behind a URL: written here, where a crash loses nothing, and put there whole or not at all."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smoothcert.errors import RunError, SettingError, SmoothcertError, without_passwords
from smoothcert.files import is_url, path_of
from smoothcert.identity import differences
from smoothcert.store import Place, directory_of, open_run
from smoothcert.store.sqlite import RESULTS

SETTINGS = "run.toml"


def check_put(run: Place, url: str) -> None:
    """Refuse, before anything is computed, what cannot be put and where nothing can be."""
    if directory_of(run) is None:
        raise SettingError(f"--put copies a run directory, and {run} is kept elsewhere already; leave it out")
    if not is_url(url):
        raise SettingError(f"--put {url!r} is no URL; write s3://bucket/runs/a, file:///mnt/runs/a, …, or use --out")
    with _explained(url):
        (path_of(url) / RESULTS).exists()


def put_run(run: Place, url: str) -> None:
    """Copy a run directory behind a URL, its results last; a run that lies there is replaced if all of it is in this one.

    Each file is put under another name and then renamed, so that whoever reads sees the old one or the new one.
    """
    check_put(run, url)
    directory = directory_of(run)
    assert directory is not None
    with tempfile.TemporaryDirectory() as scratch, open_run(directory), _explained(url):
        there, snapshot = path_of(url), Path(scratch) / RESULTS
        with closing(sqlite3.connect(directory / RESULTS)) as source, closing(sqlite3.connect(snapshot)) as target:
            source.backup(target)
        _check_replaces(there, directory, Path(scratch) / "there")
        there.mkdir(parents=True, exist_ok=True)
        if (directory / SETTINGS).is_file():
            _put(directory / SETTINGS, there / SETTINGS)
        _put(snapshot, there / RESULTS)


def _check_replaces(there: Path, here: Path, scratch: Path) -> None:
    """Refuse to replace a run of another configuration, or records that this one has not."""
    if not (there / RESULTS).exists():
        return
    scratch.mkdir()
    with (there / RESULTS).open("rb") as source, open(scratch / RESULTS, "wb") as target:
        shutil.copyfileobj(source, target)
    with open_run(scratch) as old, open_run(here) as new:
        changes = differences(old.facts().get("configuration", {}), new.facts().get("configuration", {}))
        if changes:
            raise RunError(f"another run lies at {there} ({'; '.join(changes)}); put this one elsewhere")
        own = {record.index: record for record in new.records()}
        other = next((record.index for record in old.records() if own.get(record.index) != record), None)
        if other is not None:
            raise RunError(
                f"the run at {there} holds a record of input {other} that {here} has not; put this one elsewhere, and merge both"
            )


def _put(file: Path, target: Any) -> None:
    """Put a file behind a URL under another name, and rename it there."""
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        target.fs.put_file(str(file), part.path)
        target.fs.mv(part.path, target.path)
    finally:
        if part.exists():
            part.unlink()


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Whatever a network raises, in words; the run itself is safe."""
    try:
        yield
    except SmoothcertError:
        raise
    except Exception as problem:
        raise RunError(
            f"{without_passwords(url)} cannot be reached or written ({problem or type(problem).__name__}); the run is kept in its directory: "
            "the same command puts it there once that works"
        ) from problem
