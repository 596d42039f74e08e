"""Shaped noise on the command line: each method from files to records, and every way to get it wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import smoothcert.cli
from smoothcert.cli import app
from smoothcert.data import load
from smoothcert.models import ARCHITECTURE_KEY, Architecture, load_model, read_metadata, save_weights
from smoothcert.noise import Noise
from smoothcert.store import open_run
from smoothcert.training.ucan import UcanSettings
from smoothcert.tuners.generators import Design, Generator
from smoothcert.tuners.ucan import save_generator

SHAPE = (1, 28, 28)
QUICK = ("--data", "digits", "--sigma", "0.5", "--limit", "3", "-n", "200", "--block", "50", "--select", "20")
pytestmark = pytest.mark.filterwarnings("ignore:the network seems to answer at random")


def design(kind: str, shape: tuple[int, ...] = SHAPE, **options: Any) -> Design:
    """A generator's design, as training makes it."""
    return UcanSettings(generator=kind, **options).design(shape)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an untrained model, and a generator of each kind in its own."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    architecture = Architecture("mlp", SHAPE, 10)
    for kind in ("dataset", "per_input"):
        (tmp_path / kind).mkdir()
        save_weights(
            tmp_path / kind / "model.safetensors", architecture.build(), {ARCHITECTURE_KEY: architecture.to_json()}
        )
        generator = Generator(design(kind, width=2))
        save_generator(tmp_path / kind / "generator.safetensors", generator, Noise("gaussian", 0.5), {})
    save_weights(tmp_path / "model.safetensors", architecture.build(), {ARCHITECTURE_KEY: architecture.to_json()})
    np.save(tmp_path / "own.npy", np.linspace(0.5, 1.5, 28 * 28).reshape(28, 28))
    return tmp_path


def command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0
) -> str:
    """What smoothcert prints to standard error with these arguments, in this process."""
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr(sys, "argv", ["smoothcert", *arguments])
    got = 0
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        got = int(stop.code or 0)
    printed = " ".join(capfd.readouterr().err.split())
    assert got == status, printed
    return printed


@pytest.mark.parametrize(
    ("method", "options", "label"),
    [
        ("pattern", "", "global"),
        ("pattern", ":source=linf,kappa=1,iota=0.5", "global"),
        ("pattern", ":source=own.npy", "global"),
        ("dataset", "", "global"),
        ("per_input", "", "frozen"),
        ("per_input", ":generator=per_input/generator.safetensors", "frozen"),
    ],
)
def test_certify_with_each_method(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    method: str,
    options: str,
    label: str,
) -> None:
    model = f"{'per_input' if method == 'per_input' else 'dataset'}/model.safetensors"
    command(monkeypatch, capfd, "certify", "--model", model, *QUICK, "--method", method + options, "--out", "run")
    with open_run("run") as store:
        records = list(store.records())
        assert {record.soundness.value for record in records} == {label}
        scales = [store.get(record.scale) for record in records if isinstance(record.scale, str)]
        assert store.facts()["configuration"]["tuner"].startswith(method)
    assert len(scales) == 3
    assert all(scale.shape == SHAPE and scale.min() > 0 for scale in scales)
    assert (np.ptp(np.stack(scales), axis=0).max() > 0) == (method == "per_input")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--method", "dataset", "--model", "model.safetensors"),
            "needs a generator, and there is no generator.safetensors",
        ),
        (("--method", "per_input"), "holds a dataset generator, and per_input was asked for; use --method dataset"),
        (("--method", "dataset:pattern=l2"), "'pattern=l2' is no parameter of it; it has generator"),
        (("--method", "pattern:source=l7"), "there is no pattern and no file 'l7'"),
        (("--method", "paterns"), "did you mean 'pattern'"),
    ],
)
def test_certify_says_what_is_wrong(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    given = ("certify", "--model", "dataset/model.safetensors", *QUICK, *arguments, "--out", "run")
    assert words in command(monkeypatch, capfd, *given, status=2)
    assert not Path("run").exists()


@pytest.mark.parametrize("asked", ["pattern:source=still.npy", "per_input:generator=still.safetensors"])
def test_predict_under_shaped_noise(folder: Path, asked: str) -> None:
    """Factors of almost nothing leave the network's own answers; under sigma 50 they would drown."""
    np.save(folder / "still.npy", np.full((28, 28), 1e-9))
    still = Generator(design("per_input", least=1e-9, most=2e-9, width=2))
    save_generator(folder / "still.safetensors", still, Noise("gaussian", 50.0), {})
    chosen = ["--model", "model.safetensors", "--data", "digits", "--sigma", "50", "--grid", "none", "--limit", "20"]
    done = CliRunner().invoke(app, ["predict", *chosen, "--json", "--method", asked], catch_exceptions=False)
    model, digits = load_model("model.safetensors", shape=SHAPE), load("digits")
    with torch.no_grad():
        expected = model(torch.from_numpy(digits.inputs(range(20)))).argmax(1).tolist()
    assert [row["answer"] for row in json.loads(done.stdout)] == expected
    plain = CliRunner().invoke(app, ["predict", *chosen, "--json"], catch_exceptions=False)
    assert [row["answer"] for row in json.loads(plain.stdout)] != expected


def test_a_generator_of_another_epoch_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    generator = Generator(design("dataset", width=2))
    save_generator(Path("dataset/generator.safetensors"), generator, Noise("gaussian", 0.5), {"smoothcert.epoch": "3"})
    given = ("certify", "--model", "dataset/model.safetensors", *QUICK, "--method", "dataset")
    refused = command(monkeypatch, capfd, *given, "--out", "run", status=2)
    assert "of epoch None and dataset/generator.safetensors of epoch 3" in refused
    given = (*given[:-1], "dataset:generator=dataset/generator.safetensors")
    command(monkeypatch, capfd, *given, "--out", "run")


@pytest.mark.filterwarnings("ignore:the generated noise is isotropic")  # after two steps it is
def test_train_with_a_pattern_a_generator_and_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    train = ("train", "--model", "mlp", "--data", "digits", "--sigma", "0.5", "--limit", "200", "--epochs", "1")
    joint = ("--generator", "dataset", "--weight", "0.1", "--most", "2", "--shift", "--learning-rate", "0.001")
    command(monkeypatch, capfd, *train, *joint, "--out", "joint")
    assert Path("joint/model.safetensors").is_file()
    assert read_metadata(Path("joint/model.safetensors"))["smoothcert.recipe"] == "ucan:draws=5"
    command(monkeypatch, capfd, *train, *joint, "--recipe", "consistency", "--out", "asked")
    assert read_metadata(Path("asked/model.safetensors"))["smoothcert.recipe"].startswith("consistency:")
    for options in (("--pattern", "l2"), ("--generator", "joint/generator.safetensors")):
        command(monkeypatch, capfd, *train, *options, "--out", options[0].strip("-"))
    command(monkeypatch, capfd, *train, "--generator", "per_input/generator.safetensors", "--out", "again")
    refused = command(monkeypatch, capfd, *train, "--generator", "dataste", "--out", "x", status=2)
    assert "neither dataset, per_input nor ancer, nor the file" in refused
    refused = command(monkeypatch, capfd, *train, *joint, "--pattern", "l2", "--out", "x", status=2)
    assert "give one of them" in refused
    command(monkeypatch, capfd, *train, "--out", "mlp")
    command(monkeypatch, capfd, *train, "--out", "mlp")  # a folder of that name is no reason to refuse the network
    for file in ("net.onnx", "joint/model.safetensors"):
        refused = command(monkeypatch, capfd, *train, "--model", file, "--out", "x", status=2)
        assert "train builds the network itself" in refused
    assert not Path("x").exists()


def test_a_map_fitted_by_ancer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fitted to a trained network, trained under, certified: global on test inputs, frozen on those that it was fitted with."""
    train = (
        "train",
        "--model",
        "mlp",
        "--data",
        "digits",
        "--sigma",
        "0.25",
        "--recipe",
        "gaussian",
        "--limit",
        "320",
        "--batch",
        "16",
    )
    command(monkeypatch, capfd, *train, "--epochs", "4", "--out", "plain")
    ancer = (*train, "--epochs", "1", "--generator", "ancer:steps=10,batch=32,draws=4")
    refused = command(monkeypatch, capfd, *ancer, "--out", "map", status=2)
    assert "fitted to a classifier that was trained under the noise: give its weights (--weights FILE)" in refused
    ancer = (*ancer, "--weights", "plain/model.safetensors")
    command(monkeypatch, capfd, *ancer, "--out", "map")
    refused = command(monkeypatch, capfd, *(ancer[:-2]), "--out", "map", status=2)
    assert "asked for is ancer" in refused
    certify = ("certify", "--model", "map/model.safetensors", *QUICK, "--sigma", "0.25", "--method", "dataset")
    command(monkeypatch, capfd, *certify, "--out", "unseen")
    command(monkeypatch, capfd, *certify, "--data", "digits:split=train", "--out", "seen")
    for name, label in (("unseen", "global"), ("seen", "frozen")):
        with open_run(name) as run:
            assert [record.soundness.value for record in run.records()] == [label] * 3
            assert all(record.proxy_radius > record.radius for record in run.records() if record.radius)
