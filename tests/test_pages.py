"""Every command line of README and docs, word for word: run, or where it needs what is not here, read.

A block of shell whose first line is ``# needs …`` is read only; every other one is run, and so is each command in the text.
"""

import re
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
import uvicorn
from safetensors.torch import save_file
from torch import nn

import smoothcert.cli
from smoothcert.config import Settings
from smoothcert.explore.server import Server
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.sections import read

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Every block of a page, and every command in its text that says more than its name.
PARTS = re.compile(r"^```(\w*)\n(.*?)^```|`(smoothcert [a-z]+ [^`]+)`", flags=re.DOTALL | re.MULTILINE)
# The shell expands variables and loops; smoothcert only notes its words, a line at once since several may run side by side, and no
# other program is there.
NOTING = """smoothcert() { printf '%s\\n' "$(printf '%s\\x1f' "$@")"; }; command_not_found_handle() { :; }; PATH=/nowhere; """
# What the pages take for granted: a network and data of one's own, in mynet.py, best.pt and images.npz.
NETWORK = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
"""


def commands(page: Path) -> list[tuple[bool, list[str]]]:
    """The words of every command of a page, and whether they can be run here."""
    found = []
    for kind, block, inline in PARTS.findall(page.read_text(encoding="utf-8")):
        if block and kind != "sh":
            assert not re.search("^smoothcert ", block, flags=re.MULTILINE), f"{page.name}: write ```sh before {block}"
            continue
        told = subprocess.run(
            ["bash", "-c", NOTING + (block or " ".join(inline.split()))], capture_output=True, check=True
        )
        lines = [line.split("\x1f")[:-1] for line in told.stdout.decode().splitlines()]
        found += [(not block.startswith("# needs "), words) for words in lines]
    # A command in the text whose parameters are to be filled in is no line to be typed.
    return [(here, words) for here, words in found if not any("|" in word or "…" in word for word in words)]


def read_only(words: list[str]) -> None:
    """Refuse unknown commands and flags, and values that are none."""
    group = typer.main.get_command(smoothcert.cli.app)
    with group.make_context("smoothcert", words) as context:
        command = group.get_command(context, words[0])  # type: ignore[attr-defined]
        assert command is not None, f"there is no command {words[0]}"
        said = command.make_context(words[0], words[1:]).params
    read(Settings, {name.replace("__", "."): value for name, value in said.items() if "__" in name})


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command as it stands; a page that it serves is ended at once."""

    def interrupted(self: Server) -> None:
        raise KeyboardInterrupt

    def ended(self: uvicorn.Server, sockets: list[socket.socket]) -> None:
        for each in sockets:
            each.close()

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    monkeypatch.setattr(uvicorn.Server, "run", ended)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    monkeypatch.setattr(sys, "argv", ["smoothcert", *words])
    monkeypatch.setattr("warnings.showwarning", None)
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        if stop.code:
            raise AssertionError(f"smoothcert {' '.join(words)} ended with status {stop.code}") from stop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user sits: a network and data of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    torch.manual_seed(0)
    (tmp_path / "mynet.py").write_text(NETWORK)
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).state_dict(), tmp_path / "best.pt")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 1, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=pixels, y=np.array([0, 2]))
    made = Architecture.of({"name": "mlp", "shape": (1, 28, 28), "classes": 10})
    save_file(made.build().state_dict(), tmp_path / "cnn.safetensors", {ARCHITECTURE_KEY: made.to_json()})
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_is_a_command(page: Path) -> None:
    for _, words in commands(page):
        read_only(words)


def printed(page: Path) -> list[tuple[str, str]]:
    """Every program of a page that is followed by what it prints."""
    return re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M
    )


@pytest.mark.parametrize("page", [page for page in PAGES if printed(page)], ids=lambda page: page.name)
def test_programs_print_what_the_page_says(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for program, said in printed(page):
        exec(compile(program, str(page), "exec"), {})
        assert capsys.readouterr().out == said


def test_the_readme_shows_what_ten_lines_print() -> None:
    (program, said), *_ = printed(ROOT / "README.md")
    assert "smoothed.certify(" in program
    assert said.count("[global]") == 5


def test_every_example_of_the_help_is_a_command() -> None:
    for module in smoothcert.cli.MODULES:
        read_only(module.EXAMPLE.partition(" > ")[0].split()[1:])


def test_a_line_that_is_none_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\n# needs MNIST\nsmoothcert certify \\\n  --sigmas 1 --out x\n```\nor `smoothcert lis laws`")
    flag, name = commands(page)
    assert (flag, name) == ((False, ["certify", "--sigmas", "1", "--out", "x"]), (True, ["lis", "laws"]))
    for words in (flag[1], name[1]):
        with pytest.raises(Exception, match="unknown option|no command"):
            read_only(words)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
class TestRun:
    """In the order of the page, in one folder."""

    def run_all(self, page: Path, monkeypatch: pytest.MonkeyPatch) -> int:
        here = [words for here, words in commands(page) if here]
        for words in here:
            run(words, monkeypatch)
        return len(here)

    def test_quickstart(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run_all(ROOT / "docs/quickstart.md", monkeypatch) >= 9

    def test_falsifier(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run_all(ROOT / "docs/falsifier.md", monkeypatch) == 2

    def test_reproduce(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run_all(ROOT / "docs/reproduce.md", monkeypatch) == 2

    def test_report_and_extending(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        certify = [
            "certify",
            "--model",
            "mynet:build",
            "--weights",
            "best.pt",
            "--data",
            "images.npz",
            "--sigma",
            "0.5",
        ]
        for name, more in {"a": ["-n", "500"], "b": ["-n", "200"], "mine": ["-n", "300"]}.items():
            run([*certify, *more, "--out", f"runs/{name}"], monkeypatch)
        run(["export", "runs/mine", "--format", "cohen", "--out", "cohen.tsv"], monkeypatch)
        assert self.run_all(ROOT / "docs/report.md", monkeypatch) >= 5
        page = ROOT / "docs/extending.md"
        for name, code in re.findall(r"```python\n# (my\w+\.py)\n(.*?)```", page.read_text(), flags=re.DOTALL):
            (folder / name).write_text(code)
            monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
        monkeypatch.syspath_prepend(folder)
        assert self.run_all(page, monkeypatch) >= 2
