"""A run on a medium that cannot be written: read as it is, never changed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from smoothcert.errors import StoreError
from smoothcert.recertify import recertify
from smoothcert.report.exports import FORMATS
from smoothcert.report.runs import read_runs
from smoothcert.store import RESULTS, SqliteStore, open_run
from smoothcert.testing.records import RECORD


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with SqliteStore(tmp_path / "run") as store:
        store.describe({"configuration": {"seed": 0}, "shape": [2]})
        store.append(RECORD, 1.0)
    return tmp_path / "run"


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Path]:
    """A folder to copy into, and then nothing can be written: for root, whom no permission stops, a file system of its own."""
    place = tmp_path / "medium"
    place.mkdir()
    root = os.geteuid() == 0
    if root and subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True, check=False).returncode:
        pytest.skip("this root may not mount")
    yield place
    if root:
        subprocess.run(["umount", place], check=True)
    else:
        for folder in (place, *place.iterdir()):
            folder.chmod(0o755)


def close(medium: Path) -> None:
    if os.geteuid() == 0:
        subprocess.run(["mount", "-o", "remount,ro", medium], check=True)
    else:
        for folder in (*medium.iterdir(), medium):
            folder.chmod(0o555)


def test_is_read_and_not_written(written: Path, medium: Path, tmp_path: Path) -> None:
    run = shutil.copytree(written, medium / "run")
    close(medium)
    with open_run(run) as store:
        records = list(store.records())
        assert records == [RECORD]
        assert FORMATS["csv"](records, [1.0])
        with pytest.raises(StoreError, match="cannot use .*readonly"):
            store.append(RECORD, 1.0)
    assert read_runs([run])[0].indices == {RECORD.index}
    with pytest.raises(KeyError):  # it got as far as the plan, which this run lacks
        recertify(run, tmp_path / "again", {"alpha": 0.01})
    assert sorted(path.name for path in Path(run).iterdir()) == [RESULTS]


def test_a_log_that_was_not_folded_in_is_not_passed_over(written: Path, medium: Path) -> None:
    """What is in the log alone would be missing, so such a copy is refused rather than read in part."""
    with SqliteStore(written) as store:
        store.describe({"more": 1})
        run = Path(shutil.copytree(written, medium / "run"))
    assert (run / f"{RESULTS}-wal").stat().st_size > 0
    for name in (f"{RESULTS}-shm",):
        (run / name).unlink(missing_ok=True)
    close(medium)
    with pytest.raises(StoreError, match="cannot use"), open_run(run) as store:
        store.facts()
