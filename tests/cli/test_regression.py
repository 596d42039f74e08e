"""Intervals from the command line: certify, go on, predict, report, attack, export; and what is refused."""

import json

import numpy as np
import pytest
from tests.cli.conftest import run

from smoothcert.errors import SmoothcertError

MODEL = """
import torch

def total():
    return Total()

class Total(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=1)

def both():
    return torch.nn.Linear(3, 2)
"""
NOISE = ["--sigma", "0.5", "--task", "regression", "--model", "totals:total", "--data", "table.csv"]


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A folder with a model and a table whose targets are real numbers."""
    (tmp_path / "totals.py").write_text(MODEL)
    x = np.random.default_rng(0).normal(size=(6, 3))
    rows = [",".join(f"{value:.4f}" for value in (*row, row.sum() + 0.1)) for row in x]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c,target", *rows]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_from_a_table_to_a_report(at_home):
    few = [*NOISE, "-n", "1000", "--radii", "0.1,0.4", "--out", "runs/a"]
    run("certify", *few, "--limit", "2")
    assert json.loads(run("certify", *few, "--json"))["inputs"] == 6
    told = json.loads(run("report", "runs/a", "--json"))[0]
    assert (told["inputs"], told["label"], told["error_of_estimate"]) == (6, "global", pytest.approx(0.1, abs=0.05))
    assert [row["radius"] for row in told["intervals"]] == [0.1, 0.4]
    assert [row["target_inside"] for row in told["intervals"]] == [1.0, 1.0]
    assert told["intervals"][1]["mean_error"] >= 0.4 * 3**0.5 + 0.1  # what a perturbation reaches
    assert "mean width" in run("report", "runs/a")
    page = (at_home / "runs/a/report/report.html").read_text()
    assert "<svg" in page
    assert "within 0.4" in page
    names = {path.name for path in (at_home / "runs/a/report").iterdir()}
    assert {"intervals.png", "intervals.pdf", "table-1.csv", "table-1.tex", "inputs.csv"} <= names
    rows = json.loads(run("predict", "runs/a", "--json", "--votes", "1000"))
    assert all(row["low"] <= row["truth"] - 0.1 + 1e-3 and row["truth"] - 0.1 - 1e-3 <= row["high"] for row in rows)
    assert run("predict", "runs/a", "--limit", "1").splitlines()[0].split() == [
        "index",
        "truth",
        "answer",
        "low",
        "high",
    ]
    effort = ["--budget", "100", "--votes", "500", "--attack", "random"]
    assert json.loads(run("attack", "runs/a", "--limit", "2", "--json", *effort))[0]["violated"] == 0
    assert "intervals" in run("export", "runs/a").splitlines()[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "ancer"], "has no method"),
        (["--memory"], "has no memory"),
        (["--threat", "l0:2"], "has no threat"),
        (["--estimator", "fixed"], "has no estimator"),
        (["--noise", "bands:width=1"], "no sigma"),
        (["--radii", "5", "-n", "1000"], "largest radius"),
        (["--set", "task.bounds=3"], "LOW..HIGH"),
        (["--model", "totals:both"], "one real number"),
        (["--task", "classification", "--model", "totals:both"], "--task regression"),
        (["--task", "ranking"], "classification"),
    ],
)
def test_what_is_refused(at_home, words, message):
    with pytest.raises(SmoothcertError, match=message):
        run("certify", *NOISE, *words, "--out", "runs/b")
    assert not (at_home / "runs").exists()


@pytest.mark.parametrize("words", [["recertify", "--alpha", "0.01", "--out", "again"], ["export", "--format", "cohen"]])
def test_commands_for_classes_say_that_these_are_numbers(at_home, words):
    run("certify", *NOISE, "-n", "1000", "--limit", "1", "--out", "runs/a")
    with pytest.raises(SmoothcertError, match="certifies numbers"):
        run(words[0], "runs/a", *words[1:])
