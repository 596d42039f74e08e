"""From settings to the things they name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.cli.console import progress_bar
from smoothcert.config import DataSettings, NoiseSettings, Settings, kept_settings
from smoothcert.errors import ModelError, RunError, SettingError

if TYPE_CHECKING:
    from smoothcert.data.base import Dataset
    from smoothcert.maths import FloatArray
    from smoothcert.memory.memory import Memory
    from smoothcert.noise import Noise
    from smoothcert.smoother import Smoother
    from smoothcert.store import Place


def settings_of_run(run: Place, changes: Mapping[str, str | None]) -> Settings:
    """The settings that a run was certified with, with some of them changed."""
    from smoothcert.store import open_run

    with open_run(run) as store:
        facts = store.facts()
    text = facts.get("notes", {}).get("settings")
    if "imported_from" in facts.get("configuration", {}):
        raise RunError(
            f"{run} was imported from a log, which holds neither model nor noise, so there is nothing to ask; "
            "give a run of smoothcert certify (smoothcert report shows imported ones)"
        )
    if text is None:
        raise RunError(
            f"{run} does not say how it was certified (it was not made by smoothcert certify), so its model is unknown; "
            "attack it from Python: smoothcert.attack(certificates, smoother, x); explore it from Python: "
            "smoothcert.explore.explorer.Explorer(smoother, dataset, run)"
        )
    return kept_settings(text, changes)


def certified_with(
    run: Place, *, model: str | None, weights: str | None, data: str | None, root: str | None, device: str | None
) -> tuple[Smoother, Dataset]:
    """The classifier and the data of a run, from its own settings or from where its files have moved."""
    moved = {
        "model.source": model,
        "model.weights": weights,
        "data.source": data,
        "data.root": root,
        "certify.device": device,
    }
    settings = settings_of_run(run, moved)
    dataset = dataset_of(settings.data)
    return smoother_of(settings, dataset), dataset


def dataset_of(settings: DataSettings) -> Dataset:
    """The data set, downloaded if it is missing."""
    from smoothcert import data

    with progress_bar() as bar:
        task = bar.add_task("download", total=None, visible=False, rate="bytes")

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        return data.load(
            settings.source,
            root=settings.root,
            split=settings.split,
            download=settings.download,
            size=settings.size,
            crop=settings.crop,
            classes=settings.classes,
            progress=show,
        )


def indices_of(settings: DataSettings, dataset: Dataset) -> list[int]:
    """The inputs that were asked for."""
    from smoothcert.data.selection import choose_indices, parse_indices

    chosen = None if settings.indices is None else parse_indices(settings.indices)
    return choose_indices(len(dataset), limit=settings.limit, skip=settings.skip, indices=chosen)


def noise_of(settings: NoiseSettings, dataset: Dataset) -> Noise:
    """The noise: by sigma, or by scale; on the data set's grid unless another is named."""
    from smoothcert.noise import Noise

    if (settings.sigma is None) == (settings.scale is None):
        raise SettingError(
            "give --sigma (a standard deviation) or --scale (the law's own), one of them; for example --sigma 0.25"
        )
    grid = {"auto": dataset.grid, "none": None}[settings.grid] if isinstance(settings.grid, str) else settings.grid
    loc = _array(settings.loc, "loc")
    if settings.sigma is None:
        assert settings.scale is not None
        return Noise(settings.law, _array(settings.scale, "scale"), loc, grid)
    plain = Noise.isotropic(settings.law, settings.sigma, grid)
    return Noise(plain.law, plain.scale, loc, grid)


def smoother_of(settings: Settings, dataset: Dataset, memory: Memory | None = None) -> Smoother:
    """The smoothed classifier, all settings checked before anything is computed or written."""
    from smoothcert.engine import Engine, device_named
    from smoothcert.models import load_model
    from smoothcert.smoother import Smoother
    from smoothcert.tuners import tuner_named

    noise, votes = noise_of(settings.noise, dataset), settings.certify
    tuner = tuner_named(method_of(votes.method, settings.model.source))
    if votes.rows < 1:
        raise SettingError(f"rows={votes.rows} must be at least 1")
    device_named(votes.device)
    runtime = (
        f"{'compiled' if votes.compiled else 'torch'}:precision={votes.precision},channels_last={votes.channels_last}"
    )
    if settings.model.source is None:
        raise ModelError(
            "no model was given; give --model: a .safetensors file, a built-in name with --weights, a .pt2 file, "
            "or package.module:factory"
        )
    source = settings.model
    assert source.source is not None
    model = load_model(
        source.source,
        weights=source.weights,
        shape=dataset.shape,
        classes=dataset.classes,
        mean=source.mean,
        std=source.std,
    )
    return Smoother(
        model,
        noise,
        votes.norm,
        select=votes.select,
        estimate=votes.estimate,
        alpha=votes.alpha,
        estimator=votes.estimator,
        radii=votes.radii,
        seed=votes.seed,
        engine=Engine(votes.block, votes.device, votes.workers, votes.shared_noise, runtime),
        check=votes.check,
        own_randomness=votes.own_randomness,
        tuner=tuner,
        memory=memory,
        identity=votes.identity,
    )


def method_of(spec: str, source: str | None) -> str:
    """The method; a learned generator that is not named is the one that training wrote beside the model."""
    from smoothcert.registry import split_spec

    method, given = split_spec(spec)
    if method not in ("dataset", "per_input") or given:
        return spec
    from smoothcert.models import read_metadata
    from smoothcert.tuners.ucan import generator_beside

    model = Path(source or "model.safetensors")
    beside = generator_beside(model)
    if not beside.is_file():
        raise SettingError(
            f"--method {method} needs a generator, and there is no {beside}; give --method {method}:generator=FILE, the file "
            f"that smoothcert train --generator {method} writes beside its model"
        )
    if model.suffix == ".safetensors":
        epochs = [read_metadata(file).get("smoothcert.epoch") for file in (model, beside)]
        if epochs[0] != epochs[1]:
            raise SettingError(
                f"{model} is of epoch {epochs[0]} and {beside} of epoch {epochs[1]}: training was stopped between the two; "
                f"use model.safetensors, or give --method {method}:generator=FILE"
            )
    return f"{method}:generator={beside}"


def _array(value: float | str, name: str) -> float | FloatArray:
    """A number, or the array in an .npy file."""
    if isinstance(value, float):
        return value
    if not Path(value).is_file():
        raise SettingError(f"{name}={value!r} is neither a number nor an existing .npy file")
    try:
        return np.asarray(np.load(value, allow_pickle=False), dtype=float)
    except (ValueError, OSError) as problem:
        raise SettingError(
            f"{name}={value!r} is not a readable .npy file of numbers ({problem}); save it with numpy.save"
        ) from problem
