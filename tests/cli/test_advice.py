"""What is said before the votes, though nothing is wrong; what machines read; and what a shell completes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc
import smoothcert.cli
from smoothcert.data import ArrayDataset
from smoothcert.models.weights import save_weights

NETWORKS = """
import torch
from torch import nn

def random():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 2))

def fixed():
    torch.manual_seed(0)
    return random()
"""
QUICK = ("--limit", "2", "-n", "100", "--block", "50", "--select", "20")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    (tmp_path / "nets.py").write_text(NETWORKS)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    np.savez(tmp_path / "wide.npz", x=np.full((3, 4), [0.0, 255.0, 3.0, 7.0], dtype=np.float32))
    return tmp_path


def said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    monkeypatch.setattr(sys, "argv", ["smoothcert", *words])
    monkeypatch.setattr("warnings.showwarning", None)
    with pytest.raises(SystemExit) as stop:
        smoothcert.cli.main()
    printed = capfd.readouterr()
    assert not stop.value.code, printed.err
    return printed.out, " ".join(printed.err.split())


def test_random_networks_and_wide_inputs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def notes(model: str, data: str, sigma: str) -> str:
        out = f"runs/{len(list(folder.glob('runs/*')))}"
        words = ("certify", "--model", model, "--data", data, "--sigma", sigma, *QUICK, "--out", out)
        return said(monkeypatch, capfd, *words)[1]

    random, wide = (
        "nets:random gives other weights at every call",
        "the inputs go from 0 to 255, and sigma 0.5 is 0.2% of that",
    )
    assert random in notes("nets:random", "x.npz", "0.5")
    plain = notes("nets:fixed", "x.npz", "0.5")
    assert "note:" not in plain
    assert "2 inputs: at most 240 votes" in plain
    assert wide in notes("nets:fixed", "wide.npz", "0.5")
    assert wide not in notes("nets:fixed", "wide.npz", "50")


def test_other_noise_than_in_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said(
        monkeypatch,
        capfd,
        *["train", "--model", "mlp", "--sigma", "0.3", "--epochs", "1", "--limit", "200", "--out", "net"],
    )
    for sigma, expected in {"0.3": False, "0.5": True}.items():
        words = ("certify", "--model", "net/model.safetensors", "--sigma", sigma, *QUICK, "--out", f"runs/{sigma}")
        told = "was trained with gaussian, scale 0.3, loc 0.0, and is certified with gaussian, scale 0.5"
        assert (told in said(monkeypatch, capfd, *words)[1]) is expected
    rows = json.loads(said(monkeypatch, capfd, "report", "runs/0.3", "--json", "--out", "r")[0])
    assert all(value == value for value in rows[0].values())  # a NaN is no JSON, and not equal to itself


def test_inputs_of_the_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    labels = np.arange(40) % 2
    inputs = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    np.savez(folder / "own.npz", x=inputs, y=labels)
    np.savez(folder / "other.npz", x=inputs + 1, y=labels)
    train = ("train", "--model", "mlp", "--sigma", "0.5", "--epochs", "1", "--out", "net")
    said(monkeypatch, capfd, *train, "--data", "own.npz", "--indices", "0-29")
    asked = {
        ("own.npz", "28-31"): "model.safetensors was trained on 2 of these 4 inputs",
        ("own.npz", "30-31"): "",
        ("other.npz", "0-3"): "",
    }
    for number, ((data, indices), expected) in enumerate(asked.items()):
        words = ("certify", "--model", "net/model.safetensors", "--data", data, "--sigma", "0.5", "--indices", indices)
        told = said(monkeypatch, capfd, *words, *QUICK[2:], "--out", f"runs/{number}")[1]
        assert expected in told
        assert ("was trained on" in told) is bool(expected)


@pytest.mark.parametrize("told", ["[]", "nonsense", '{"data": "[1]"}', '{"data": "{\\"skip\\": 0}"}', '{"data": 7}'])
def test_what_others_write_about_their_training(
    told: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    save_weights(folder / "w.safetensors", network, {"smoothcert.settings": told})
    words = ("--weights", "w.safetensors", "--data", "x.npz", "--sigma", "0.5", *QUICK, "--out", "run")
    assert "note:" not in said(monkeypatch, capfd, "certify", "--model", "nets:fixed", *words)[1]


def test_json_has_null_where_there_is_no_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("certify", "--model", "nets:fixed", "--data", "x.npz", "--sigma", "0.5", *QUICK, "--out", "run")
    said(monkeypatch, capfd, *words)
    text, _ = said(monkeypatch, capfd, "report", "run", "--json", "--out", "r")
    [row] = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert row["clean_accuracy"] is None  # no truths


def test_a_shell_completes() -> None:
    program = "import sys; sys.argv[0] = 'smoothcert'; from smoothcert.cli import main; main()"
    asked = {"_SMOOTHCERT_COMPLETE": "complete_bash", "COMP_WORDS": "smoothcert certify --est", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["--estimator", "--estimate"]


@pytest.mark.parametrize("wanted", [True, False])
def test_python_shows_how_far_it_is(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("smoothcert.progress.FIRST", 0.01)
    monkeypatch.setattr("smoothcert.progress.LONGEST", 0.01)
    data = ArrayDataset("zeros", np.zeros((3, 4), dtype=np.float32))
    smoother = sc.Smoother(
        lambda x: x[:, :2] + torch.tensor([1.0, 0.0]),
        sc.Noise.isotropic("gaussian", 0.1),
        estimate=20_000,
        identity="a",
    )
    sc.certify_all(smoother, data, tmp_path / "run", progress=wanted)
    assert ("certify: 1 of 3, after" in capfd.readouterr().err) is wanted


def test_machines_read_the_numbers_of_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def read(*words: str) -> object:
        return json.loads(said(monkeypatch, capfd, *words, "--json")[0])

    train = ("train", "--model", "mlp", "--sigma", "0.3", "--epochs", "1", "--limit", "200", "--out", "net")
    trained = read(*train, "--validation", "50")
    assert isinstance(trained, dict)
    assert (trained["model"], trained["epoch"]) == ("net/model.safetensors", 1)
    assert all(0 <= trained[name] <= 1 for name in ("accuracy", "validation_accuracy"))
    certify = ("certify", "--model", "net/model.safetensors", "--sigma", "0.3", *QUICK, "--out", "run")
    told = read(*certify, "--dry-run")
    assert isinstance(told, dict)
    assert (told["inputs"], told["votes"]) == (2, 240)
    assert not (folder / "run").exists()
    assert read(*certify) == {"run": "run", "inputs": 2}
    assert read(*certify, "--dry-run") is None  # nothing is left to do
    words = (
        "--model",
        "mlp",
        "--parameter",
        "beta=2",
        "--sigmas",
        "0.3",
        "--norms",
        "2,inf",
        "--limit",
        "2",
        "-n",
        "50",
    )
    rows = read("search", *words, "--epochs", "1", "--train-limit", "100", "--out", "search")
    assert isinstance(rows, list)
    assert {(row["law"], row["score"]["norm"]) for row in rows} == {
        ("generalized_normal:beta=2", 2.0),
        ("generalized_normal:beta=2", "inf"),
    }


@pytest.mark.slow
def test_machines_read_the_demo(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("demo", "--limit", "1", "--estimate", "20", "--epochs", "1", "--out", "demo", "--json")
    rows = json.loads(said(monkeypatch, capfd, *words)[0])
    assert [row["inputs"] for row in rows] == [1] * 4
