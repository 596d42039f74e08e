"""The training loop: deterministic, resumed without a trace, and clear about what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.errors import DataError, ModelError, RunError, SettingError, UnknownName
from smoothcert.identity import identity
from smoothcert.laws import Draws
from smoothcert.laws.gaussian import Gaussian
from smoothcert.maths import Array
from smoothcert.models import load_model, read_metadata, read_state
from smoothcert.noise import Noise
from smoothcert.training import (
    RECIPES,
    Batch,
    BatchReport,
    EpochReport,
    NoiseGenerator,
    Noising,
    TrainSettings,
    new_model,
    train,
)
from smoothcert.training.gaussian import Gaussian as GaussianRecipe

SHAPE = (1, 8, 8)
ARCHITECTURE = {"name": "small_cnn", "shape": SHAPE, "classes": 3, "mean": (0.5,), "std": (0.5,)}
SETTINGS = TrainSettings("gaussian", epochs=4, batch=32, learning_rate=3e-3, seed=7)
NOISE = Noise.isotropic("gaussian", 0.1)


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
    given = {"noise": NOISE, "out": out, "architecture": ARCHITECTURE} | options
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
    assert identity(loaded) == identity(model)
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

    class Recorded(Gaussian):
        def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
            z = super().sample(shape, draws)
            first_values.append(float(z.flatten()[0]))
            return z

    run(tmp_path, noise=Noise(Recorded(), 0.1), validation=stripes(60, seed=1))
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


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": "sgd"},
        {"schedule": "constant"},
        {"augment": True, "flip": True},
        {"precision": "bfloat16"},
        {"data_dependent": True, "warmup": 0.2},
        *({"recipe": name} for name in RECIPES),
    ],
)
def test_every_option_resumes(change: dict[str, Any], unbroken: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=2, **change)
    classes = 3 + RECIPES[settings.recipe].passes
    dropout = {"name": "own:dropout", "shape": SHAPE, "classes": classes}

    def model() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, classes))

    whole = run(tmp_path / "whole", settings, model(), architecture=dropout)
    with pytest.raises(Stop):
        run(tmp_path / "part", settings, model(), architecture=dropout, progress=stop_after(1))
    assert same(run(tmp_path / "part", settings, model(), architecture=dropout), whole)


class Learned(NoiseGenerator):
    """One scale for all, which learns."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(-2.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_scale.exp(), torch.zeros(())

    def penalty(self, scale: Tensor, loc: Tensor) -> Tensor:
        return -10 * scale.mean()


def test_a_generator_learns_with_the_model_and_resumes(tmp_path: Path) -> None:
    settings = replace(SETTINGS, recipe="consistency")
    run(tmp_path / "whole", settings, generator=(whole := Learned()))
    assert float(whole.log_scale.detach()) > -1.975  # Adam cannot go further than 20 steps of half 0.003
    with pytest.raises(Stop):
        run(tmp_path / "part", settings, generator=Learned(), progress=stop_after(2))
    run(tmp_path / "part", settings, generator=(part := Learned()))
    assert same(tmp_path / "part/model.safetensors", tmp_path / "whole/model.safetensors")
    assert part.log_scale == whole.log_scale


def test_the_best_epoch_is_kept_also_across_a_resume(tmp_path: Path) -> None:
    held_out, seen = stripes(60, seed=1), []
    run(tmp_path / "whole", validation=held_out, progress=seen.append)
    best = max(seen, key=lambda report: (report.validation_accuracy, -report.epoch))
    metadata = read_metadata(tmp_path / "whole/best.safetensors")
    assert metadata["smoothcert.epoch"] == str(best.epoch)
    assert float(metadata["smoothcert.validation_accuracy"]) == best.validation_accuracy
    alone = run(tmp_path / "alone", validation=held_out, progress=None)
    assert same(alone, tmp_path / "whole/model.safetensors")
    for epoch in (1, 2, 3):
        with pytest.raises(Stop):
            run(tmp_path / f"{epoch}", validation=held_out, progress=stop_after(epoch))
        run(tmp_path / f"{epoch}", validation=held_out)
        assert same(tmp_path / f"{epoch}/best.safetensors", tmp_path / "whole/best.safetensors")
        assert read_metadata(tmp_path / f"{epoch}/best.safetensors") == metadata
    with pytest.raises(RunError, match="validation was"):
        run(tmp_path / "whole", validation=stripes(60, seed=2))


def test_each_input_keeps_its_own_sigma_across_epochs(tmp_path: Path) -> None:
    run(tmp_path, replace(SETTINGS, data_dependent=True, warmup=0.25))
    factors = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["factors"]
    assert factors.shape == (150,)
    assert len(factors.unique()) > 75
    assert 0.5 <= float(factors.min()) < float(factors.max()) <= 2.0
    run(tmp_path / "warm", replace(SETTINGS, data_dependent=True, warmup=1.0))
    assert (torch.load(tmp_path / "warm/checkpoint.pt", weights_only=True)["factors"] == 1).all()


def test_sigma_goes_with_its_input_through_every_shuffle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sigma that is found is read off the input itself, so one that went to another input shows."""

    def mark(x: Tensor) -> Tensor:
        return 1 + x.flatten(1)[:, 0]

    class Checked(GaussianRecipe):
        def loss(self, model: nn.Module, batch: Batch) -> Tensor:
            assert torch.equal(batch.noising.scale.flatten(), 0.1 * mark(batch.x))
            return super().loss(model, batch)

    found: list[Tensor] = []

    def improved(model: nn.Module, x: Tensor, noising: Noising, factors: Tensor) -> Tensor:
        found.append(factors.clone())
        assert torch.equal(factors, torch.ones(len(x)) if len(found) <= 5 else mark(x))  # kept from the epoch before
        return mark(x)

    monkeypatch.setitem(RECIPES, "gaussian", Checked)
    monkeypatch.setattr("smoothcert.training.loop.improved", improved)
    run(tmp_path, replace(SETTINGS, data_dependent=True, warmup=0.0))
    assert len(found) == 4 * 5
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["factors"]
    assert torch.equal(kept, mark(torch.from_numpy(stripes()[0]).float() / 255))


def test_another_noise_in_the_folder_is_named(unbroken: Path) -> None:
    with pytest.raises(RunError, match=r"noise was gaussian, scale 0\.1, loc 0\.0, is gaussian, scale of shape"):
        run(unbroken.parent, noise=Noise("gaussian", torch.full(SHAPE, 0.1)))


def test_a_finished_run_is_not_trained_again(unbroken: Path) -> None:
    seen: list[EpochReport] = []
    before = read_metadata(unbroken)
    assert run(unbroken.parent, progress=seen.append) == unbroken
    assert (seen, read_metadata(unbroken)) == ([], before)


def test_other_settings_in_the_folder_are_named(unbroken: Path) -> None:
    with pytest.raises(RunError, match=r"batch was 32, is 64; learning_rate was 0\.003, is 0\.002"):
        run(unbroken.parent, replace(SETTINGS, batch=64, learning_rate=0.002))
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
    steps, whole = 0, GaussianRecipe.loss

    def broken(self: GaussianRecipe, model: nn.Module, batch: Batch) -> Tensor:
        nonlocal steps
        steps += 1
        value = whole(self, model, batch)
        return value * float("nan") if steps == 8 else value

    monkeypatch.setattr(GaussianRecipe, "loss", broken)
    with pytest.raises(ModelError, match="became nan at step 3 of 5 of epoch 2; the checkpoint of epoch 1 is kept"):
        run(tmp_path)
    assert os.listdir(tmp_path) == ["checkpoint.pt"]
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["progress"]["epoch"] == 1
    monkeypatch.undo()
    run(tmp_path)


def test_diverging_weights_never_reach_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Steep(GaussianRecipe):
        def loss(self, model: nn.Module, batch: Batch) -> Tensor:
            zero = 0 * next(model.parameters()).sum()  # the square root at 0 is finite, its slope is not
            return super().loss(model, batch) + zero.sqrt()

    monkeypatch.setitem(RECIPES, "gaussian", Steep)
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


class Frozen(nn.Module):
    """What an adapter of a foreign runtime gives: numbers without gradients."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().flatten(1)[:, :3].numpy())


class Blind(nn.Module):
    """Learns, but lets no gradient through to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.detach().flatten(1))
        return logits


def test_models_without_gradients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Frozen has no weights with gradients.*ONNX"):
        run(tmp_path, model=Frozen())
    with pytest.raises(ModelError, match="the recipe smoothadv needs the gradient of the model in its input"):
        run(tmp_path, replace(SETTINGS, recipe="smoothadv"), model=Blind())
    with pytest.raises(ModelError, match="data_dependent needs the gradient"):
        run(tmp_path, replace(SETTINGS, data_dependent=True), model=Blind())
    assert os.listdir(tmp_path) == []
    run(tmp_path, replace(SETTINGS, epochs=1), model=Blind())


def test_convolutions_over_volumes_train_as_well(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Unflatten(1, (1, 1)), nn.Conv3d(1, 4, (1, 3, 3)), nn.Flatten(), nn.LazyLinear(3))
    model(torch.zeros(1, *SHAPE))
    assert run(tmp_path, replace(SETTINGS, epochs=1), model=model).is_file()


def test_tuned_noise_without_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="there is no noise"):
        run(tmp_path, replace(SETTINGS, data_dependent=True), noise=None)


def test_an_empty_class_is_refused(tmp_path: Path) -> None:
    inputs, labels = stripes()
    with pytest.raises(DataError, match="no input of class 1; give more data"):
        run(tmp_path, data=(inputs[labels != 1], labels[labels != 1]))


def test_floats_train_as_bytes_do(unbroken: Path, tmp_path: Path) -> None:
    inputs, labels = stripes()
    assert same(run(tmp_path, data=((inputs / np.float32(255)).astype(np.float32), labels)), unbroken)


def test_unknown_recipe_and_device(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown recipe 'gausian'; did you mean 'gaussian'"):
        run(tmp_path, replace(SETTINGS, recipe="gausian"))
    with pytest.raises(SettingError, match="device 'abacus' cannot be used here"):
        run(tmp_path, replace(SETTINGS, device="abacus"))


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot make the folder"):
        run(tmp_path / "file" / "out")
