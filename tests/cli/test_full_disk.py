"""A disk without space, and places of the wrong kind: one clear sentence, and nothing half written."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import smoothcert.cli
from smoothcert.store import SqliteStore
from smoothcert.testing.records import RECORD

LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n"


@pytest.fixture
def run(tmp_path: Path) -> str:
    with SqliteStore(tmp_path / "run") as store:
        store.describe({"configuration": {"seed": 0}, "shape": [2]})
        store.append(RECORD, 1.0)
    return str(tmp_path / "run")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with space for names and for no content."""
    place = tmp_path / "disk"
    place.mkdir()
    size = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place]
    if os.geteuid() != 0 or subprocess.run(size, capture_output=True, check=False).returncode:
        pytest.skip("only a root that may mount has a small disk")
    with contextlib.suppress(OSError):
        (place / "filler").write_bytes(bytes(2**17))
    yield place
    subprocess.run(["umount", place], check=True)


def refusal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says that ends with status 2."""
    monkeypatch.setattr(sys, "argv", ["smoothcert", *words])
    monkeypatch.setattr("warnings.showwarning", None)
    with pytest.raises(SystemExit) as stop:
        smoothcert.cli.main()
    assert stop.value.code == 2
    return " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize("command", ["report", "export", "import"])
def test_a_full_disk(
    command: str,
    run: str,
    disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "log.tsv").write_text(LOG)
    words, file = {
        "report": ((run, "--out", str(disk / "new")), "new/table-1.csv: No space left on device"),
        "export": ((run, "--out", str(disk / "new")), "new: No space left on device"),
        "import": (
            (str(tmp_path / "log.tsv"), "--sigma", "1", "--alpha", "0.001", "--n", "100", "--out", str(disk / "new")),
            "disk is full",
        ),
    }[command]
    told = refusal(monkeypatch, capfd, command, *words)
    assert told.startswith("error: ")
    assert file in told
    left = {path.relative_to(disk) for path in disk.rglob("*") if path.is_file() and path.stat().st_size}
    assert left == {Path("filler")}


def test_places_of_the_wrong_kind(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    assert "is a file, and a report is several; give a directory" in refusal(
        monkeypatch, capfd, "report", run, "--out", str(file)
    )
    assert "is a directory; give the file to write, such as" in refusal(
        monkeypatch, capfd, "export", run, "--out", str(folder)
    )
    assert "file/a.csv: Not a directory" in refusal(monkeypatch, capfd, "export", run, "--out", str(file / "a.csv"))
    assert file.read_text() == "mine"
    assert not list(folder.iterdir())


def test_standard_output_without_space(run: str) -> None:
    program = "import sys; sys.argv[0] = 'smoothcert'; from smoothcert.cli import main; main()"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, "export", run], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: No space left on device; give a place")
