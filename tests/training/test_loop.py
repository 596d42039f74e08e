"""The training loop: deterministic, resumed without a trace, and clear about what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.errors import DataError, ModelError, RunError, SettingError, UnknownName
from smoothcert.models import fingerprint, load_model, read_metadata, read_state
from smoothcert.training import RECIPES, BatchReport, EpochReport, TrainSettings, new_model, train

SHAPE = (1, 8, 8)
ARCHITECTURE = {"name": "small_cnn", "shape": SHAPE, "classes": 3, "mean": (0.5,), "std": (0.5,)}
SETTINGS = TrainSettings(sigma=0.1, epochs=4, batch=32, learning_rate=3e-3, seed=7)


@dataclass(frozen=True)
class GaussianNoise:
    sigma: float = 0.1

    def noisy(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x + self.sigma * torch.randn(x.shape, generator=generator, device=x.device)


class Stop(Exception):
    """The run is killed."""


def stripes(count: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images whose bright third of the columns is their label."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, count)
    inputs = generator.integers(0, 90, (count, *SHAPE)).astype(np.uint8)
    for image, label in zip(inputs, labels, strict=True):
        image[:, :, 2 * label : 2 * label + 3] += 150
    return inputs, labels


def run(out: Path, settings: TrainSettings = SETTINGS, model: nn.Module | None = None, **options: Any) -> Path:
    inputs, labels = options.pop("data", None) or stripes()
    model = model or new_model(ARCHITECTURE, settings.seed)
    given = {"noise": GaussianNoise(), "out": out, "architecture": ARCHITECTURE} | options
    return train(model, inputs, labels, settings, **given)


def stop_after(epoch: int) -> Callable[[EpochReport], None]:
    def progress(report: EpochReport) -> None:
        if report.epoch == epoch:
            raise Stop

    return progress


def same(a: Path, b: Path) -> bool:
    first, second = read_state(a), read_state(b)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("unbroken"))


def test_it_learns_and_reports(tmp_path: Path) -> None:
    epochs: list[EpochReport] = []
    batches: list[BatchReport] = []
    held_out = stripes(60, seed=1)
    run(tmp_path, validation=held_out, progress=epochs.append, batch_progress=batches.append)
    assert [report.epoch for report in epochs] == [1, 2, 3, 4]
    assert epochs[-1].loss < epochs[0].loss
    assert epochs[-1].accuracy > 0.9
    assert epochs[-1].validation_accuracy is not None
    assert epochs[-1].validation_accuracy > 0.9
    assert [(b.epoch, b.batch, b.batches) for b in batches[4:6]] == [(1, 5, 5), (2, 1, 5)]


def test_the_file_rebuilds_the_model_and_records_the_run(tmp_path: Path) -> None:
    model = new_model(ARCHITECTURE, 7)
    path = run(tmp_path, model=model, validation=stripes(60, seed=1))
    x = torch.rand(3, *SHAPE)
    loaded = load_model(path, shape=SHAPE)
    assert torch.equal(loaded(x), model.eval()(x))
    assert fingerprint(loaded) == fingerprint(model)
    metadata = read_metadata(path)
    assert metadata["smoothcert.recipe"] == "gaussian"
    assert TrainSettings(**json.loads(metadata["smoothcert.settings"])) == SETTINGS
    assert float(metadata["smoothcert.accuracy"]) > 0.9
    assert float(metadata["smoothcert.validation_accuracy"]) > 0.9


def test_one_seed_one_model(unbroken: Path, tmp_path: Path) -> None:
    torch.rand(17)  # the state of torch's own generator must not matter
    assert same(run(tmp_path / "again"), unbroken)
    other = run(tmp_path / "other", replace(SETTINGS, seed=8), new_model(ARCHITECTURE, 7))
    assert not same(other, unbroken)


def test_every_draw_of_noise_is_fresh(tmp_path: Path) -> None:
    first_values: list[float] = []

    class Recorded(GaussianNoise):
        def noisy(self, x: Tensor, generator: torch.Generator) -> Tensor:
            noisy = super().noisy(x, generator)
            first_values.append(float((noisy - x).flatten()[0]))
            return noisy

    run(tmp_path, noise=Recorded(), validation=stripes(60, seed=1))
    assert len(first_values) == 4 * (5 + 5 + 2)
    assert len(set(first_values)) == len(first_values)


def test_torch_generator_is_left_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    model = new_model(ARCHITECTURE, 7)
    run(tmp_path, replace(SETTINGS, epochs=1), model)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_a_stopped_run_resumes_to_the_same_weights(epoch: int, unbroken: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        run(tmp_path, progress=stop_after(epoch))
    assert not (tmp_path / "model.safetensors").exists()
    seen: list[EpochReport] = []
    path = run(tmp_path, model=new_model(ARCHITECTURE, 99), progress=seen.append)
    assert [report.epoch for report in seen] == list(range(epoch + 1, 5))
    assert same(path, unbroken)


def test_a_run_killed_within_an_epoch_resumes_to_the_same_weights(unbroken: Path, tmp_path: Path) -> None:
    def kill(report: BatchReport) -> None:
        if (report.epoch, report.batch) == (3, 2):
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, batch_progress=kill)
    assert same(run(tmp_path), unbroken)


@pytest.mark.parametrize("change", [{"optimizer": "sgd"}, {"schedule": "constant"}, {"augment": True, "flip": True}])
def test_every_option_resumes(change: dict[str, Any], unbroken: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=2, **change)
    dropout = {"name": "own:dropout", "shape": SHAPE, "classes": 3}

    def model() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 3))

    whole = run(tmp_path / "whole", settings, model(), architecture=dropout)
    with pytest.raises(Stop):
        run(tmp_path / "part", settings, model(), architecture=dropout, progress=stop_after(1))
    assert same(run(tmp_path / "part", settings, model(), architecture=dropout), whole)


def test_a_finished_run_is_not_trained_again(unbroken: Path) -> None:
    seen: list[EpochReport] = []
    before = read_metadata(unbroken)
    assert run(unbroken.parent, progress=seen.append) == unbroken
    assert (seen, read_metadata(unbroken)) == ([], before)


def test_other_settings_in_the_folder_are_named(unbroken: Path) -> None:
    with pytest.raises(RunError, match=r"batch was 32, is 64; sigma was 0\.1, is 0\.2"):
        run(unbroken.parent, replace(SETTINGS, batch=64, sigma=0.2))
    with pytest.raises(RunError, match="data was"):
        run(unbroken.parent, data=stripes(seed=5))
    with pytest.raises(RunError, match="architecture was"):
        run(unbroken.parent, architecture=ARCHITECTURE | {"mean": (0.4,)})


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 half"])
def test_a_damaged_checkpoint_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(RunError, match="cannot be read as a checkpoint; delete it"):
        run(tmp_path)


def test_a_foreign_checkpoint_is_named(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "checkpoint.pt")
    with pytest.raises(RunError, match="not a training checkpoint"):
        run(tmp_path)


def test_a_checkpoint_of_another_model_is_named(tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=1)
    run(tmp_path, settings)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(RunError, match="of another model"):
        run(tmp_path, settings, flat)


def test_full_disk_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stop):
        run(tmp_path, progress=stop_after(1))
    before = (tmp_path / "checkpoint.pt").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match=r"epoch 2.*No space left"):
        run(tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


def test_nan_loss_says_where_and_keeps_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def loss(model: nn.Module, x: Tensor, y: Tensor, noise_draw: Callable[[Tensor], Tensor]) -> Tensor:
        nonlocal steps
        steps += 1
        value = nn.functional.cross_entropy(model(noise_draw(x)), y)
        return value * float("nan") if steps == 8 else value

    monkeypatch.setitem(RECIPES, "gaussian", loss)
    with pytest.raises(ModelError, match="became nan at step 3 of 5 of epoch 2; the checkpoint of epoch 1 is kept"):
        run(tmp_path)
    assert os.listdir(tmp_path) == ["checkpoint.pt"]
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["epoch"] == 1
    monkeypatch.undo()
    run(tmp_path)


def test_diverging_weights_never_reach_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor, noise_draw: Callable[[Tensor], Tensor]) -> Tensor:
        zero = 0 * next(model.parameters()).sum()  # the square root at 0 is finite, its slope is not
        return nn.functional.cross_entropy(model(noise_draw(x)), y) + zero.sqrt()

    monkeypatch.setitem(RECIPES, "gaussian", loss)
    settings = replace(SETTINGS, batch=1000)
    with pytest.raises(ModelError, match="infinite or NaN at the last step of epoch 1; there is no checkpoint yet"):
        run(tmp_path, settings)
    assert os.listdir(tmp_path) == []


def bad_labels() -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = stripes()
    labels[3] = 3
    return inputs, labels


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bad_labels(), "from 0 to 2, for 3 classes; got 0 to 3"),
        ((stripes()[0], stripes()[1] - 1), "got -1 to 1"),
        ((stripes()[0][:0], stripes()[1][:0]), "not empty"),
        ((stripes()[0][:5], stripes()[1]), "one label each"),
        ((stripes()[0].astype(np.float64), stripes()[1]), "uint8 or float32; got float64"),
        ((stripes()[0], stripes()[1].astype(np.float32)), "must be integers"),
        ((stripes()[0].astype(np.float32) * np.nan, stripes()[1]), "NaN"),
    ],
)
def test_bad_data_is_refused(data: tuple[np.ndarray, np.ndarray], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        run(tmp_path, data=data)
    with pytest.raises(DataError, match="validation"):
        run(tmp_path, validation=data)


def test_a_model_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\(batch, 3\); got \(1, 5\)"):
        run(tmp_path, model=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    with pytest.raises(ModelError, match="the data has"):
        run(tmp_path, architecture=ARCHITECTURE | {"shape": (1, 9, 9)})


def test_floats_train_as_bytes_do(unbroken: Path, tmp_path: Path) -> None:
    inputs, labels = stripes()
    assert same(run(tmp_path, data=((inputs / np.float32(255)).astype(np.float32), labels)), unbroken)


def test_unknown_recipe_and_device(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown recipe 'gausian'; did you mean 'gaussian'"):
        run(tmp_path, replace(SETTINGS, recipe="gausian"))
    with pytest.raises(SettingError, match="cannot train on device 'abacus'"):
        run(tmp_path, replace(SETTINGS, device="abacus"))


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot make the folder"):
        run(tmp_path / "file" / "out")
