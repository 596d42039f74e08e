"""Whatever is typed, or lies in a file: an answer or an error in words, never a traceback.

Every case is made from its number alone, so that a failure is repeated by its number.
"""

import os
import random
import shutil
import sqlite3
import sys
import traceback
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import save_file

import smoothcert.cli
from smoothcert.explore.server import Server
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.store import RESULTS

VALUES = (
    *(
        "",
        "0",
        "1",
        "2",
        "-1",
        "7",
        "0.5",
        "1e-320",
        "1e-12",
        "1e300",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "1/0",
        "1/3",
        "none",
        "auto",
    ),
    *(
        "abc",
        "a:b=c",
        ":",
        "=",
        ",",
        "0.25,0.5",
        "1,,2",
        "0-3",
        "3-0",
        "99999999999999999999",
        "é∞",
        "%s",
        "--",
        "-",
        "true",
        "x" * 300,
    ),
    *(
        "net.safetensors",
        "x.npz",
        "run",
        "log.tsv",
        "run.toml",
        "m.sqlite",
        "nope",
        ".",
        "/",
        "/dev/null",
        "text.txt",
        "a\0b",
    ),
    *("gaussian", "laplace", "pareto:beta=0.1", "cauchy", "ancer:steps=0", "fixed", "reuse:run=run", "hill_climb:x=1"),
    *(
        "sequential:tolerance=2",
        "union",
        "torch:precision=int8",
        "digits:split=all",
        "os:getcwd",
        "mlp",
        "small_cnn",
        "gaussian:a=b",
    ),
    *(
        "random",
        "cohen",
        "csv",
        "parquet",
        "beta=0.5,1",
        "laws",
        "sqlite:path=run",
        "in_memory",
        "noise.sigma=0.2",
        "votes.x=1",
    ),
)
# What keeps a case short, whatever was drawn before it: the last of a flag wins.
SHORT = {
    "certify": ("--limit", "1", "-n", "40", "--block", "20", "--select", "10", "--set", "engine.workers=1"),
    "predict": ("--limit", "1", "--votes", "20", "--block", "20", "--select", "10", "--set", "engine.workers=1"),
    "train": ("--limit", "20", "--epochs", "1", "--model", "mlp", "--validation", "0"),
    "attack": ("--limit", "1", "--budget", "100", "--votes", "100", "--attack", "random"),
    "curve": ("--dim", "3", "--points", "2", "--noise", "gaussian"),
    "search": ("--limit", "nope"),
    "demo": ("--limit", "nope"),
}
BASE = {
    "certify": ("--model", "net.safetensors", "--sigma", "0.1", "--out", "OUT"),
    "predict": ("run",),
    "train": ("--sigma", "0.1", "--out", "OUT"),
    "attack": ("run",),
    "explore": ("run",),
    "serve": ("run", "--port", "0"),
    "report": ("run", "--out", "OUT"),
    "recertify": ("run", "--alpha", "0.01", "--out", "OUT"),
    "export": ("run", "--out", "OUT"),
    "import": ("log.tsv", "--sigma", "0.5", "--alpha", "0.001", "--n", "200", "--out", "OUT"),
    "cite": ("run",),
    "list": ("laws",),
    "curve": ("--dim", "3", "--p", "0.9", "--out", "OUT"),
}
READERS = ("report", "recertify", "export", "cite", "predict", "attack", "explore")


@dataclass(frozen=True)
class Case:
    """A command in a folder of its own, after something in it was spoiled."""

    words: tuple[str, ...]
    spoil: Callable[[Path], None] = lambda folder: None


def flags() -> dict[str, list[str]]:
    """Every flag of every command, as the help knows them."""
    group = typer.main.get_command(smoothcert.cli.app)
    commands = group.commands.items()  # type: ignore[attr-defined]
    return {
        name: [opt for p in command.params for opt in (*p.opts, *p.secondary_opts) if opt[0] == "-"]
        for name, command in commands
    }


def spoiled_bytes(content: bytes, rng: random.Random) -> bytes:
    """The content with some bytes changed, a piece cut out, doubled or replaced, or nothing of it."""
    data = bytearray(content)
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.choice((1, 5, 50))):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        del data[at : at + rng.choice((1, 10, 1000))]
    elif kind == 3:
        data[at:at] = data[: rng.choice((1, 20, 400))]
    elif kind == 4:
        word = rng.choice(VALUES).encode()
        data[at : at + len(word)] = word
    else:
        data = bytearray(
            rng.choice((b"", b"\0" * 100, b"PK\3\4", b"{}", b"[noise]\nsigma=1\nsigma=2", "é∞".encode("utf-16")))
        )
    return bytes(data)


def spoiled_file(name: str, rng: random.Random) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(spoiled_bytes((folder / name).read_bytes(), rng))

    return spoil


def spoiled_table(rng: random.Random) -> Callable[[Path], None]:
    """Damage inside a file of results that SQLite takes for whole."""
    table, column = rng.choice(
        (
            ("facts", "value"),
            ("records", "body"),
            ("records", "seconds"),
            ("arrays", "data"),
            ("pictures", "data"),
            ("facts", "name"),
            ("records", "idx"),
        )
    )

    def spoil(folder: Path) -> None:
        with sqlite3.connect(folder / "run" / RESULTS) as db:
            rows = db.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
            if rows and rng.random() < 0.8:
                row, value = rng.choice(rows)
                old = value if isinstance(value, bytes) else str(value).encode()
                new: object = spoiled_bytes(old or b"x", rng)
                if column != "data" and rng.random() < 0.8:
                    new = rng.choice(
                        (new.decode(errors="replace"), "null", "[]", "{}", "3", '"text"', "1e999", "[[1]]", -1, "NaN")
                    )  # type: ignore[attr-defined]
                if column == "idx":
                    new = rng.choice((-1, 7, 2**62))
                db.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?", (new, row))
            elif rng.random() < 0.5:
                db.execute(f"DELETE FROM {table}")
            else:
                db.execute(f"DROP TABLE {table}")
        db.close()

    return spoil


def drawn(number: int, known: dict[str, list[str]]) -> Case:
    """The case of this number."""
    rng = random.Random(number)
    kind = rng.choice(
        (
            "command",
            "command",
            "command",
            "config",
            "weights",
            "log",
            "results",
            "results",
            "table",
            "table",
            "table",
            "data",
        )
    )
    if kind == "config":
        command = rng.choice(("certify", "predict", "train"))
        return Case((command, *BASE[command], "--config", "run.toml", *SHORT[command]), spoiled_file("run.toml", rng))
    if kind == "weights":
        return Case(("certify", *BASE["certify"], *SHORT["certify"]), spoiled_file("net.safetensors", rng))
    if kind == "data":
        return Case(("certify", *BASE["certify"], "--data", "x.npz", *SHORT["certify"]), spoiled_file("x.npz", rng))
    if kind == "log":
        return Case(
            ("import", *BASE["import"], "--format", rng.choice(("cohen", "ancer"))), spoiled_file("log.tsv", rng)
        )
    if kind in ("results", "table"):
        command = rng.choice(READERS)
        spoil = spoiled_table(rng) if kind == "table" else spoiled_file(f"run/{RESULTS}", rng)
        return Case((command, *BASE[command], *SHORT.get(command, ())), spoil)
    command = rng.choice([*known])
    words = list(BASE.get(command, ()) if rng.random() < 0.8 else ())
    if words and rng.random() < 0.3:
        words[rng.randrange(len(words))] = rng.choice(VALUES)
    for _ in range(rng.randrange(1, 4)):
        words.append(rng.choice([*known[command], "--help"]))
        if rng.random() < 0.9:
            words.append(rng.choice(VALUES))
    return Case((command, *words, *SHORT.get(command, ())))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything."""
    folder = tmp_path_factory.mktemp("template")
    torch.manual_seed(0)
    made = Architecture.of({"name": "mlp", "shape": (1, 28, 28), "classes": 10})
    save_file(made.build().state_dict(), folder / "net.safetensors", {ARCHITECTURE_KEY: made.to_json()})
    pixels = np.random.default_rng(0).integers(0, 256, (3, 1, 28, 28), dtype=np.uint8)
    np.savez(folder / "x.npz", x=pixels, y=np.arange(3))
    (folder / "text.txt").write_text("just text\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        np.save("scale.npy", np.full((1, 28, 28), 0.05))
        common = ("--model", "net.safetensors", "--limit", "2", "-n", "200", "--block", "50")
        for words in (
            ("certify", *common, "--scale", "scale.npy", "--memory", "--out", "run"),
            ("certify", *common, "--sigma", "0.05", "--memory", "m.sqlite", "--out", "plain"),
            ("export", "run", "--format", "cohen", "--out", "log.tsv"),
        ):
            assert status_of(words, patch) == 0
        shutil.copy("run/run.toml", "run.toml")
    return folder


def status_of(words: tuple[str, ...], patch: pytest.MonkeyPatch) -> int | str:
    """The exit status of smoothcert with these words, or its traceback."""

    def interrupted(self: object, **_: object) -> None:
        raise KeyboardInterrupt

    patch.setattr(Server, "serve_forever", interrupted)
    patch.setattr("uvicorn.Server.run", interrupted)
    patch.setattr(webbrowser, "open", lambda address: True)
    patch.setattr("warnings.showwarning", None)
    patch.setattr(sys, "argv", ["smoothcert", *words])
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    except BaseException:
        return traceback.format_exc()
    return 0


def broken(numbers: range, template: Path, place: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """The cases that end in a traceback, each with its number."""
    known, found = flags(), []
    for number in numbers:
        case, folder = drawn(number, known), place / str(number)
        shutil.copytree(template, folder)
        case.spoil(folder)
        patch.chdir(folder)
        status = status_of(case.words, patch)
        if not isinstance(status, int):
            found.append(f"{number}: smoothcert {' '.join(case.words)}\n{status}")
        os.chdir(place)
        shutil.rmtree(folder)
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_few(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = broken(range(60), template, tmp_path, monkeypatch)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_thousand(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = broken(range(60, 1260), template, tmp_path, monkeypatch)
    assert not wrong, "\n".join(wrong)
