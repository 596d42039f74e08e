"""Cascades from the command line: a pass class is trained, a file names the stages, and wrong files are refused."""

import json

import numpy as np
import pytest
from tests.cli.conftest import run

from smoothcert.errors import SmoothcertError
from smoothcert.report.runs import Run

MODEL = """
import torch

class Side(torch.nn.Module):
    def __init__(self, *sides):
        super().__init__()
        self.sides = sides
    def forward(self, x):
        return torch.stack([sign * x[:, 0] - gap for sign, gap in self.sides], dim=1)

def shy():
    return Side((1, 0.6), (-1, 0.6), (0, 0))

def bold():
    return Side((1, 0), (-1, 0))

def four():
    return Side((1, 0), (-1, 0), (2, 0), (3, 0))
"""
FILE = """
margins = [0.05, 0.0]

[[stage]]
model = "sides:shy"
sigma = 0.5

[[stage]]
model = "sides:bold"
sigma = 0.25
estimate = 1000
"""
FEW = ["--data", "table.csv", "-n", "2000", "--cascade", "cascade.toml"]


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A folder with two networks, a table of two classes, and a cascade."""
    (tmp_path / "sides.py").write_text(MODEL)
    (tmp_path / "cascade.toml").write_text(FILE)
    x = np.random.default_rng(0).normal(size=(8, 2))
    rows = [f"{a:.4f},{b:.4f},{int(a < 0)}" for a, b in x]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,label", *rows]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_from_a_file_to_a_report(at_home):
    run("certify", *FEW, "--limit", "3", "--out", "runs/a")
    assert json.loads(run("certify", *FEW, "--out", "runs/a", "--json"))["inputs"] == 8
    [told] = json.loads(run("report", "runs/a", "--json"))
    assert told["noise"] == "cascade gaussian 0.5 → gaussian 0.25"
    assert (told["label"], told["inputs"]) == ("global", 8)
    assert told["clean_accuracy"] >= 0.75
    answers = json.loads(run("predict", "runs/a", "--json", "--votes", "1000"))
    assert sum(row["answer"] == row["truth"] for row in answers) >= 6
    effort = ["--budget", "100", "--votes", "500", "--attack", "random"]
    assert json.loads(run("attack", "runs/a", "--limit", "2", "--json", *effort))[0]["violated"] == 0
    assert "stages" in run("export", "runs/a").splitlines()[0]


def test_margins_chosen_on_the_certified_data_freeze(at_home):
    (at_home / "cascade.toml").write_text('chosen_on = "table.csv"\n' + FILE)
    run("certify", *FEW, "--limit", "2", "--out", "runs/a")
    assert [line.soundness.value for line in Run("runs/a").lines] == ["frozen"]


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("margins = [", [], "cannot be read as TOML"),
        ("margins = [0.0]", [], "names no stages"),
        ("order = 1\n" + FILE, [], "unknown part of a cascade 'order'"),
        (FILE.replace("estimate", "estimates"), [], "unknown setting of a stage 'estimates'"),
        (FILE.replace("[0.05, 0.0]", "[0.05]"), [], "one for each"),
        (FILE.replace("0.25", "1.25"), [], "most noise first"),
        (FILE.replace("sides:bold", "sides:four"), [], "classes"),
        (FILE.replace("sigma = 0.25", ""), [], "--sigma"),
        (FILE.replace("sigma = 0.25", "sigma = 'much'"), [], "sigma"),
        (FILE, ["--sigma", "0.5"], "names the models and their noise"),
        (FILE, ["--model", "sides:bold"], "leave"),
        (FILE, ["--method", "ancer"], "no method"),
        (FILE, ["--task", "regression"], "no kind"),
    ],
)
def test_what_is_refused(at_home, text, words, message):
    (at_home / "cascade.toml").write_text(text)
    with pytest.raises(SmoothcertError, match=message):
        run("certify", *FEW, *words, "--out", "runs/b")
    assert not (at_home / "runs").exists()


@pytest.mark.slow
def test_a_class_to_pass_on_is_trained(at_home):
    words = ["--data", "digits", "--limit", "300", "--model", "mlp:width=16", "--sigma", "1", "--epochs", "2"]
    run("train", *words, "--recipe", "gambler:odds=1.2", "--warmup", "0.2", "--out", "shy")
    run("train", *words, "--recipe", "gaussian", "--out", "bold")
    stages = "".join(f'[[stage]]\nmodel = "{name}/model.safetensors"\nsigma = 1\n' for name in ("shy", "bold"))
    (at_home / "digits.toml").write_text(stages)
    run("certify", "--cascade", "digits.toml", "--data", "digits", "-n", "500", "--limit", "4", "--out", "runs/d")
    exported = run("export", "runs/d").splitlines()
    assert len(exported) == 5
