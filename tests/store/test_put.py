"""A run behind a URL: all of it, or what lay there before; never in place of another."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

from smoothcert.errors import RunError, SettingError
from smoothcert.store import InMemoryStore, SqliteStore, open_run
from smoothcert.store.put import check_put, put_run
from smoothcert.testing.store_acts import certify_into, texts

URL = "memory://runs/a"


@pytest.fixture(autouse=True)
def _empty() -> None:
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def certified(run: Path, indices: list[int]) -> None:
    with SqliteStore(run) as store:
        certify_into(store, indices)


def fetched(to: Path) -> Path:
    fsspec.filesystem("memory").get("/runs/a", str(to), recursive=True)
    return to


def texts_of(run: Path) -> Any:
    with open_run(run) as store:
        return texts(store)


def test_what_is_put_is_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    certified(run, [0])
    put_run(run, URL)
    assert texts_of(fetched(tmp_path / "first")) == texts_of(run)
    (run / "run.toml").write_text("[data]\n")
    certified(run, [0, 1, 2])
    put_run(run, URL)  # all of what lies there is in it
    there = fetched(tmp_path / "second")
    assert texts_of(there) == texts_of(run)
    assert sorted(path.name for path in there.iterdir() if path.suffix in (".sqlite", ".toml", ".part")) == [
        "results.sqlite",
        "run.toml",
    ]


def test_another_run_is_not_replaced(tmp_path: Path) -> None:
    certified(tmp_path / "one", [0, 1])
    certified(tmp_path / "two", [1, 2])
    certified(tmp_path / "other", [0, 1])
    with SqliteStore(tmp_path / "other") as store:
        store.describe({"configuration": store.facts()["configuration"] | {"seed": 7}})
    put_run(tmp_path / "one", URL)
    before = dict(fsspec.filesystem("memory").store)
    with pytest.raises(RunError, match=f"the run at {URL} holds a record of input 0 that .*two has not"):
        put_run(tmp_path / "two", URL)
    with pytest.raises(RunError, match=f"another run lies at {URL} .*seed"):
        put_run(tmp_path / "other", URL)
    assert fsspec.filesystem("memory").store == before


@pytest.mark.parametrize("act", ["put_file", "mv"])
def test_a_connection_that_breaks_leaves_what_was_there(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified(tmp_path / "run", [0])
    put_run(tmp_path / "run", URL)
    certified(tmp_path / "run", [0, 1])
    before = texts_of(fetched(tmp_path / "before"))

    def broken(files: Any, source: str, target: str) -> None:
        if act == "put_file":
            files.pipe_file(target, Path(source).read_bytes()[:100])
        raise ConnectionResetError("the line is cut")

    with monkeypatch.context() as patched:
        patched.setattr(f"fsspec.implementations.memory.MemoryFileSystem.{act}", broken)
        with pytest.raises(RunError, match=f"{URL} cannot be reached or written .the line is cut.*the same command"):
            put_run(tmp_path / "run", URL)
    assert texts_of(fetched(tmp_path / "after")) == before
    assert not [name for name in fsspec.filesystem("memory").store if "part" in name]
    put_run(tmp_path / "run", URL)
    assert texts_of(fetched(tmp_path / "again")) == texts_of(tmp_path / "run")


KILLED = """
import os, pathlib, signal
from fsspec.implementations.local import LocalFileSystem
from smoothcert.store.put import put_run
def stopped(files, source, target):
    pathlib.Path(target).write_bytes(pathlib.Path(source).read_bytes()[:100])
    os.kill(os.getpid(), signal.SIGKILL)
LocalFileSystem.put_file = stopped
put_run({run!r}, {url!r})
"""


def test_a_process_killed_while_it_puts_leaves_nothing_half(tmp_path: Path) -> None:
    run, there = tmp_path / "run", tmp_path / "there"
    certified(run, [0])
    url = f"file://{there}"
    done = subprocess.run([sys.executable, "-c", KILLED.format(run=str(run), url=url)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (there / "results.sqlite").exists()
    put_run(run, url)
    assert texts_of(there) == texts_of(run)


def test_a_run_that_is_being_written_is_put_as_it_is(tmp_path: Path) -> None:
    """With a log that is not folded into the file yet."""
    certified(tmp_path / "run", [0])
    reader = sqlite3.connect(tmp_path / "run" / "results.sqlite")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM facts").fetchall()
    certified(tmp_path / "run", [0, 1])
    assert os.path.getsize(tmp_path / "run" / "results.sqlite-wal")
    put_run(tmp_path / "run", URL)
    reader.close()
    assert texts_of(fetched(tmp_path / "there")) == texts_of(tmp_path / "run")


def test_what_cannot_be_put_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="--put 'runs/b' is no URL"):
        check_put(tmp_path / "run", "runs/b")
    with pytest.raises(SettingError, match="--put copies a run directory"):
        check_put(InMemoryStore(), URL)
    with pytest.raises(SettingError, match="nowhere://runs/a cannot be reached"):
        check_put(tmp_path / "run", "nowhere://runs/a")
    with pytest.raises(RunError, match="is not a run|no file of results"):
        put_run(tmp_path / "run", URL)
