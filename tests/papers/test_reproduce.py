"""smoothcert reproduce: tables from ordinary runs, the same after every interruption, and clear refusals."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smoothcert as sc
import smoothcert.cli
from smoothcert.cli import reproduce as command
from smoothcert.errors import DataError, RunError, SettingError
from smoothcert.metrics.curves import average_certified_radius, certified_accuracy
from smoothcert.papers import catalogue, entry_named
from smoothcert.papers.planning import planned

NAME = "ds-table-4"  # the cheapest: one training, two methods, one with a memory


def run(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of smoothcert with these arguments, in this process."""
    monkeypatch.setattr(sys, "argv", ["smoothcert", *map(str, arguments)])
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


class Killed(Exception):
    """Stands for a process that ends in the middle of something."""


def test_a_table_is_of_ordinary_runs_and_the_same_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "whole", tmp_path / "stopped"
    assert run("reproduce", NAME, "--out", out, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr().out
    assert printed == (out / "table.md").read_text()
    assert set(files(out)) == {"entry.json", "table.md", "table.csv", "table.json"}

    # The numbers, read by hand from the runs of sigma 0.25 and 0.5.
    block = planned(entry_named(NAME), "smoke")[0]
    found = [sc.Run(out / "runs" / each.folder) for each in block.runs["yang", "fixed"]]
    table = json.loads((out / "table.json").read_text())
    cells = {(cell["row"], cell["column"]): cell for cell in table["cells"] if cell["part"] == block.title}
    for column, radius in (("0.0", 0.0), ("0.25", 0.25)):
        best = max(certified_accuracy(each.records, [radius])[0] for each in found)
        assert cells["Yang: fixed sigma", column]["ours"] == 100 * best
    assert cells["Yang: fixed sigma", "0.25"]["published"] == 83
    assert cells["Yang: fixed sigma", "ACR"]["ours"] >= max(average_certified_radius(each.records) for each in found)
    assert {cell["label"] for cell in table["cells"]} == {"global", "memory"}
    assert "clipped" not in found[0].records[0].domain  # the papers clip nothing

    # Stopped in the second run and begun again.
    certify, calls = command.certify_run, []

    def dying(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise Killed
        return certify(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "certify_run", dying)
    with pytest.raises(Killed):
        sc.reproduce(NAME, other)
    assert set(files(other)) == {"entry.json"}
    sc.reproduce(NAME, other)
    assert files(other) == files(out)


def test_a_figure_of_radii_needs_no_network(tmp_path: Path) -> None:
    cells = sc.reproduce("unicr-figure-6", tmp_path)
    assert {cell.label for cell in cells} == {"global"}
    by_hand = sc.certified_radius("laplace", 1, 0.999, 64, sigma=1.0).lower
    assert [cell.ours for cell in cells if (cell.row, cell.column) == ("laplace", "p = 0.999")] == [by_hand]
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_where_it_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        sc.reproduce(NAME, tmp_path / "file")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("")
    with pytest.raises(RunError, match="not empty and holds no entry"):
        sc.reproduce(NAME, tmp_path / "foreign")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "entry.json").write_text('"ancer-table-2 at scale smoke"')
    with pytest.raises(RunError, match=r'holds "ancer-table-2 at scale smoke", not ds-table-4 at scale smoke'):
        sc.reproduce(NAME, tmp_path / "taken")
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["thesis.tex"]


def test_what_cannot_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingError, match=r"ds-figure-1 .* cannot be run: a drawing"):
        sc.reproduce("ds-figure-1", tmp_path)
    with pytest.raises(DataError, match=r"unicr-table-5 cannot be run at scale small: imagenet is too large"):
        sc.reproduce("unicr-table-5", tmp_path, scale="small")
    with pytest.raises(DataError, match="no folder of them was given; give --imagenet DIR"):
        sc.reproduce("unicr-table-5", tmp_path, scale="paper")
    with pytest.raises(DataError, match="is no folder"):
        sc.reproduce("unicr-table-5", tmp_path, scale="paper", imagenet=tmp_path / "none")
    (tmp_path / "val").mkdir()
    with pytest.raises(DataError, match=r"3 networks are missing, the first .*model.safetensors: a resnet50"):
        sc.reproduce("unicr-table-5", tmp_path / "out", scale="paper", imagenet=tmp_path / "val")
    assert run("reproduce", monkeypatch=monkeypatch) == 2
    assert run("reproduce", "ancer-tabel-1", "--out", tmp_path / "x", monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr().err
    assert "give a table or figure and a folder" in printed
    assert "did you mean 'ancer-table-1'" in printed
    assert not (tmp_path / "x").exists()


def test_the_list_names_everything(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "--list", "--json", monkeypatch=monkeypatch) == 0
    told = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(told) == set(catalogue())
    assert told["ancer-table-1"]["parts"][0]["network"] == "resnet18"
    assert run("reproduce", "--list", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in told)


def test_the_cost_is_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left() -> dict[str, int]:
        arguments = ("reproduce", NAME, "--out", tmp_path / "out", "--dry-run", "--json")
        assert run(*arguments, monkeypatch=monkeypatch) == 0
        told: dict[str, int] = json.loads(capsys.readouterr().out)
        return told

    before = left()
    assert not (tmp_path / "out").exists()
    # Two sigmas: two networks that see 400 digits twice, and four runs of 4 inputs with 220 votes.
    assert (before["networks"], before["passes"], before["runs"], before["votes"]) == (2, 1600, 4, 4 * 4 * 220)
    assert before["seconds"] > 0
    sc.reproduce(NAME, tmp_path / "out")
    after = left()
    assert (after["networks"], after["passes"], after["runs"], after["votes"], after["seconds"]) == (0, 0, 0, 0, 0)


@pytest.mark.slow
def test_a_killed_process_is_gone_on_with(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "smoothcert", "reproduce", NAME, "--out"]
    child = subprocess.Popen([*line, str(tmp_path / "killed")], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _ in range(6000):
        if list(tmp_path.glob("killed/runs/*/run.toml")) or child.poll() is not None:  # one run of four is done
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "table.md").exists()
    for name in ("killed", "whole"):
        subprocess.run([*line, str(tmp_path / name)], check=True, capture_output=True)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the generat:UserWarning")  # one epoch teaches a generator little
def test_every_entry_at_scale_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, entry in catalogue().items():
        if entry.reason:
            continue
        cells = sc.reproduce(name, tmp_path / name, runs=tmp_path / "shared")
        ours = [cell for cell in cells if cell.ours is not None]
        assert ours, name
        assert all(cell.label for cell in ours)
        shown = entry.draw is not None or entry.curve is not None
        assert (tmp_path / name / "figure.png").exists() == shown
        assert name in (tmp_path / name / "table.md").read_text()
    block = planned(entry_named(NAME), "smoke")[0]
    runs = [tmp_path / "shared" / "runs" / each.folder for own in block.runs.values() for each in own]
    assert run("report", *runs, "--out", tmp_path / "report", monkeypatch=monkeypatch) == 0
