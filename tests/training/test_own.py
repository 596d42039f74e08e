"""One's own network, trained by name, and a training that is made longer."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothcert import cli
from smoothcert.errors import RunError
from smoothcert.models import load_model, read_state
from smoothcert.noise import Noise
from smoothcert.training import TrainSettings, new_model, train

FIELDS = {"name": "mlp:width=8,depth=1", "shape": (4,), "classes": 2}
RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
ENDLESS = TrainSettings(recipe="gaussian", epochs=2, batch=20, schedule="constant", warmup=0.0)


def trained(out: Path, settings: TrainSettings) -> dict[str, torch.Tensor]:
    model = new_model(FIELDS, settings.seed)
    return read_state(train(model, X, Y, settings, noise=Noise("gaussian", 0.1), out=out, architecture=FIELDS))


@pytest.mark.parametrize("recipe", ["gaussian", "macer:draws=2"])
def test_a_longer_training_goes_on_to_the_same_weights(tmp_path: Path, recipe: str) -> None:
    short = replace(ENDLESS, recipe=recipe)
    long = replace(short, epochs=5)
    first = trained(tmp_path / "a", short)
    extended, at_once = trained(tmp_path / "a", long), trained(tmp_path / "b", long)
    assert all(torch.equal(extended[name], at_once[name]) for name in at_once)
    assert not all(torch.equal(first[name], at_once[name]) for name in at_once)


@pytest.mark.parametrize("change", [{"schedule": "cosine"}, {"warmup": 0.1}])
def test_steps_that_depend_on_the_end_are_not_made_longer(tmp_path: Path, change: dict[str, object]) -> None:
    short = replace(ENDLESS, **change)  # type: ignore[arg-type]
    trained(tmp_path, short)
    with pytest.raises(RunError, match="only with --schedule constant --warmup 0"):
        trained(tmp_path, replace(short, epochs=5))


def test_fewer_epochs_are_another_run(tmp_path: Path) -> None:
    trained(tmp_path, ENDLESS)
    with pytest.raises(RunError, match="epochs was 2, is 1"):
        trained(tmp_path, replace(ENDLESS, epochs=1))


def test_one_s_own_network_is_trained_and_certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_network.py").write_text("from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(4, 2))\n")
    np.savez("data.npz", x=X, y=Y)

    def command(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["smoothcert", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0

    told = ("--model", "own_network:build", "--data", "data.npz", "--sigma", "0.25")
    command("train", *told, "--epochs", "2", "--out", "own")
    model = load_model("own_network:build", weights="own/model.safetensors", shape=(4,))
    assert not torch.equal(
        model(torch.ones(1, 4)), new_model(FIELDS | {"name": "own_network:build"}, 0)(torch.ones(1, 4))
    )
    command("certify", *told, "--weights", "own/model.safetensors", "-n", "200", "--limit", "2", "--out", "run")
    Path("own_network.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(4, 2, bias=False))\n"
    )
    del sys.modules["own_network"]
    monkeypatch.setattr(sys, "argv", ["smoothcert", "train", *told, "--epochs", "2", "--out", "own"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
