"""smoothcert explore as a user types it: the address, and clear words for a run that cannot be looked into."""

import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import smoothcert.cli
from smoothcert.explore.server import Server
from smoothcert.store import SqliteStore, open_run
from smoothcert.store.imports import Log, import_log

Cli = Callable[..., tuple[str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """cli(*arguments, status=0): what smoothcert explore printed."""

    def ask(*arguments: object, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["smoothcert", "explore", *map(str, arguments)])
        got = 0
        try:
            smoothcert.cli.main()
        except SystemExit as stop:
            got = int(stop.code or 0)
        printed = capfd.readouterr()
        assert got == status, printed.err
        return printed.out, " ".join(printed.err.split())

    return ask


def settings(run: Path) -> str:
    with open_run(run) as store:
        return str(store.facts()["notes"]["settings"])


def without_records(folder: Path, text: str | None) -> Path:
    """A run directory with these settings and nothing else."""
    folder.mkdir()
    with SqliteStore(folder) as store:
        store.describe({"configuration": {"data": "d"}, "notes": {} if text is None else {"settings": text}})
    return folder


def test_it_prints_an_address_and_ends_with_ctrl_c(
    cli: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def interrupted(server: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    address, notes = cli(run, "--open")
    assert address.startswith("http://127.0.0.1:")
    assert opened == [address.strip()]
    assert notes.endswith("ended")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address.strip(), timeout=5)


def test_what_cannot_be_looked_into(cli: Cli, run: Path, tmp_path: Path) -> None:
    text = settings(run)
    (tmp_path / "log.tsv").write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t1.2\t1\t1\n")
    import_log(tmp_path / "log.tsv", tmp_path / "log", "cohen", Log(sigma=0.5, alpha=0.001, trials=100))
    stranger = tmp_path / "m.safetensors"
    weights = load_file(run.parent / "m.safetensors")
    with safe_open(run.parent / "m.safetensors", "pt") as file:
        save_file({name: 2 * value for name, value in weights.items()}, stranger, file.metadata())
    nowhere = text.replace("m.safetensors", "gone.safetensors")
    wrong = {
        "none is not a run: it holds no results": (tmp_path / "none",),
        "holds no records yet; certify some inputs into it first": (without_records(tmp_path / "empty", text),),
        "log was imported from a log, which holds neither model nor noise": (tmp_path / "log",),
        "does not say how it was certified": (without_records(tmp_path / "python", None),),
        "gone.safetensors": (without_records(tmp_path / "moved", nowhere),),
        "there is no memory at": (run, "--memory", tmp_path / "none"),
        "there is no file lost.npz": (run, "--data", "lost.npz"),
        "this is not what": (run, "--model", stranger),
    }
    for message, arguments in wrong.items():
        assert message in cli(*arguments, status=2)[1], message
