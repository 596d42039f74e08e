"""Views on the command line: train, certify, report, judge again, attack, predict; and what is refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

import smoothcert.cli
from smoothcert.models import CONFIDENCE_KEY, read_metadata
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.store import open_run

CHANCE = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with pictures of two classes: bright above, or bright below."""
    monkeypatch.chdir(tmp_path)
    labels = np.arange(60) % 2
    pictures = CHANCE.integers(0, 60, (60, 1, 8, 8))
    for picture, label in zip(pictures, labels, strict=True):
        picture[0, 4 * label : 4 * label + 4] += 180
    shape = Architecture.of({"name": "mlp", "shape": (1, 8, 8), "classes": 2})
    save_file(shape.build().state_dict(), tmp_path / "any.safetensors", {ARCHITECTURE_KEY: shape.to_json()})
    np.savez(tmp_path / "halves.npz", x=pictures.astype(np.uint8), y=labels)
    return tmp_path


def run(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of smoothcert with these arguments, in this process."""
    monkeypatch.setattr(sys, "argv", ["smoothcert", *map(str, arguments)])
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_from_training_to_the_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ok(*arguments: object) -> str:
        assert run(*arguments, monkeypatch=monkeypatch) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    views = ("--noise", "bands:width=3")
    ok("train", "--model", "mlp", "--data", "halves.npz", *views, "--recipe", "gaussian", "--epochs", 20, "--out", "m")
    kept = read_metadata(folder / "m" / "model.safetensors")
    assert 0 <= float(kept[CONFIDENCE_KEY]) < 1
    given = ("--model", "m/model.safetensors", "--data", "halves.npz", *views, "--threat", "patch:2")
    ok("certify", *given, "--limit", 12, "--out", "a")
    with open_run(folder / "a") as store:
        records = list(store.records())
    assert len(records) == 12
    assert all(record.exact and record.threat == "patch" and record.trials == 8 for record in records)
    assert f"confidence={float(kept[CONFIDENCE_KEY]):g}" in records[0].law
    assert sum(record.correct and record.radius >= 1 for record in records) >= 8
    assert '"exact": true' in json.dumps(json.loads(ok("report", "a", "--json")))
    ok("recertify", "a", "--threat", "l0:1", "--out", "b")
    ok("export", "a", "--format", "csv", "--out", "a.csv")
    assert "exact" in (folder / "a.csv").read_text().splitlines()[0].split(",")
    ok("attack", "a", "--limit", 4, "--budget", 300)
    answers = json.loads(ok("predict", *given, "--limit", 12, "--json"))
    assert [row["answer"] for row in answers] == [record.label for record in records]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--noise", "bands:width=3", "--sigma", 1, "--threat", "patch:1"), "which have no sigma"),
        (("--noise", "bands:width=3", "--threat", "patch:9"), "larger than inputs"),
        (("--noise", "bands:width=3", "--norm", 2), "no certificate against l2"),
        (("--noise", "splitting:lam=0.333", "--norm", 1), "whole number"),
        (("--sigma", 1, "--threat", "patch:1"), "needs views"),
        (("--noise", "bands:width=3", "--threat", "patch:1", "--method", "ancer"), "views are fixed"),
    ],
)
def test_refusals(
    arguments: tuple[object, ...],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = run(
        "certify",
        "--model",
        "any.safetensors",
        "--data",
        "halves.npz",
        *arguments,
        "--out",
        "r",
        monkeypatch=monkeypatch,
    )
    assert status == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (folder / "r").exists()


def test_recipes_that_read_noise_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--model", "mlp", "--data", "halves.npz", "--noise", "bands:width=3", "--out", "m")
    for more, words in (
        (("--recipe", "macer"), "reads the law"),
        (("--recipe", "smoothadv"), "reads the law"),
        (("--data-dependent", "--recipe", "gaussian"), "reads the law"),
        (("--pattern", "l2", "--recipe", "gaussian"), "no scale to be shaped"),
    ):
        assert run("train", *given, *more, monkeypatch=monkeypatch) == 2
        assert words in " ".join(capsys.readouterr().err.split())
