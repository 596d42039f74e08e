"""Every command where a user may sit: a terminal, a pipe, few colours, few columns, few characters."""

import json
import os
import pty
import re
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import smoothcert.cli
from smoothcert.cli.console import print_anywhere

PROGRAM = Path(__file__).with_name("every_command.py")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ESCAPE = re.compile(r"\x1b")
SLOW = pytest.mark.slow


def everything(folder: Path, *, terminal: bool, long: bool = False, **environment: str) -> str:
    """What all commands print in a child process; each must end with status 0."""
    report = folder / "statuses.json"
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "TERM")}
    settings = {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, str(PROGRAM), str(report), "long" if long else "short"]
    printed = (_in_terminal if terminal else _in_pipe)(command, folder, inherited | settings)
    text = printed.decode(settings["PYTHONIOENCODING"])
    assert report.exists(), text
    wrong = [f"{name}: {status}" for name, status in json.loads(report.read_text()) if status != 0]
    assert not wrong, "\n".join(wrong)
    return text


def _in_pipe(command: list[str], folder: Path, environment: dict[str, str]) -> bytes:
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    ).stdout


def _in_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the child has gone, and its side of the terminal with it
            break
        if not part:
            break
        printed += part
    os.close(ours)
    child.wait()
    return printed


def test_every_command_is_among_them() -> None:
    text = PROGRAM.read_text()
    for module in smoothcert.cli.MODULES:
        assert f'("{module.NAME}"' in text, f"{module.NAME} is never run in a terminal"


def test_a_character_that_is_missing_has_a_plainer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = TextIOWrapper(BytesIO(), encoding="cp1252", newline="")
    monkeypatch.setattr(sys, "stdout", narrow)
    print_anywhere()
    print("a ⊇ b, p ≥ ½, σ → ∞, 漢")
    narrow.flush()
    assert narrow.buffer.getvalue().decode("cp1252") == "a contains b, p >= ½, sigma -> inf, ?\n"  # type: ignore[attr-defined]


@SLOW
def test_terminal(tmp_path: Path) -> None:
    text = everything(tmp_path, terminal=True)
    assert COLOUR.search(text)
    assert "predict ━" in COLOUR.sub("", text)  # its bar was drawn


@SLOW
def test_few_characters(tmp_path: Path) -> None:
    text = everything(tmp_path, terminal=False, PYTHONIOENCODING="cp1252")
    assert not ESCAPE.search(text)
    assert "a contains b" in text
    assert "linf" in text


@SLOW
def test_pipe(tmp_path: Path) -> None:
    assert not ESCAPE.search(everything(tmp_path, terminal=False, long=True))


@SLOW
def test_terminal_without_colours(tmp_path: Path) -> None:
    text = everything(tmp_path, terminal=True, NO_COLOR="1", long=True)
    numbers = {int(number) for found in COLOUR.findall(text) for number in re.findall(r"\d+", found)}
    assert max(numbers) < 30  # bold and the like; from 30 on there are colours


@SLOW
def test_narrow_terminal(tmp_path: Path) -> None:
    text = COLOUR.sub("", everything(tmp_path, terminal=True, COLUMNS="60"))
    framed = [line for line in text.splitlines() if line.startswith(("┃", "│", "╭", "┏"))]
    assert framed
    assert max(map(len, framed)) <= 60


@SLOW
def test_dumb_terminal(tmp_path: Path) -> None:
    assert not ESCAPE.search(everything(tmp_path, terminal=True, TERM="dumb"))
