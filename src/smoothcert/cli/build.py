"""From settings to the things they name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.cli.console import errors, progress_bar
from smoothcert.config import DataSettings, ModelSettings, NoiseSettings, Settings
from smoothcert.errors import ModelError, SettingError
from smoothcert.sections import changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from smoothcert.data.base import Dataset
    from smoothcert.fronts import Front
    from smoothcert.maths import FloatArray
    from smoothcert.memory.memory import Memory
    from smoothcert.noise import Noise
    from smoothcert.smoother import Smoother
    from smoothcert.views import View

    Models = dict[ModelSettings, nn.Module]  # those that were loaded already: it may take a while

STAGE = ("model", "weights", "noise", "sigma", "scale", "estimate", "select")  # what a stage of a cascade may say


def dataset_of(settings: DataSettings, split: str = "test") -> Dataset:
    """The data set, downloaded if it is missing; this split of it, if none was named."""
    from smoothcert import data

    with progress_bar("data") as tell:
        return data.load(settings.source, split=split, download=True, progress=tell)


def indices_of(settings: DataSettings, dataset: Dataset) -> list[int]:
    """The inputs that were asked for."""
    from smoothcert.data.selection import choose_indices, parse_indices, shard_of

    chosen = None if settings.indices is None else parse_indices(settings.indices)
    asked = choose_indices(len(dataset), limit=settings.limit, skip=settings.skip, indices=chosen)
    return asked if settings.shard is None else shard_of(asked, settings.shard)


def _is_file(source: str) -> bool:
    """Did training write this model, into a file that says how many classes it has?"""
    return Path(source).suffix == ".safetensors"


def check_told(settings: Settings) -> None:
    """Refuse settings that name no model or no noise; asked before anything that takes time."""
    if settings.model.cascade is not None:
        check_cascade(settings)
        return
    noise_is_told(settings.noise)
    if settings.model.source is None:
        raise ModelError(
            "no model was given; give --model: a .safetensors file, a built-in name with --weights, a .pt2 file, "
            "or package.module:factory"
        )


def noise_is_told(settings: NoiseSettings) -> None:
    """Refuse settings that do not say how large the noise is; views say it in their name."""
    from smoothcert.views import REGISTRY

    if REGISTRY.knows(settings.law):
        return
    if (settings.sigma is None) == (settings.scale is None):
        raise SettingError(
            "give --sigma (a standard deviation) or --scale (the law's own), one of them; for example --sigma 0.25"
        )


def front_source(settings: NoiseSettings, model: str | None) -> str | None:
    """The name of a front, or the file of the one that training wrote beside the model."""
    from smoothcert.fronts import FILE

    if settings.front is not None or model is None or not _is_file(model):
        return settings.front
    beside = Path(model).with_name(FILE)
    return str(beside) if beside.is_file() else None


def front_of(settings: NoiseSettings, data: DataSettings, dataset: Dataset, model: str | None = None) -> Front | None:
    """The front that is named, or the one that training wrote beside the model; U is of training data alone."""
    from smoothcert.fronts import Ground, front_named
    from smoothcert.maths.boxed import Box

    source = front_source(settings, model)
    if source is None:
        return None
    box = dataset.box if settings.box in ("auto", "none") else Box.read(settings.box)
    return front_named(source).make(Ground(dataset, lambda: dataset_of(data, "train"), box))


def noise_of(
    settings: NoiseSettings, dataset: Dataset, model: str | None = None, front: Front | None = None
) -> Noise | View:
    """Views by their name; or noise by sigma, or by scale, on the data set's grid, or the front's, unless another is named."""
    from smoothcert.laws import law_named
    from smoothcert.maths.boxed import Box
    from smoothcert.noise import Noise
    from smoothcert.views import REGISTRY

    if REGISTRY.knows(settings.law):
        return _views(settings, model)
    noise_is_told(settings)
    grid = {"auto": dataset.grid, "none": None}[settings.grid] if isinstance(settings.grid, str) else settings.grid
    law, loc = law_named(settings.law), _array(settings.loc, "loc")
    if front is not None:  # a box is what inputs lie in, and behind the front they are other numbers
        settings, grid = replace(settings, box="none"), 1 / front.levels
    gaining = dataset.box if law.boxed_radii else None
    box = {"auto": gaining, "none": None}[settings.box] if settings.box in ("auto", "none") else Box.read(settings.box)
    if settings.sigma is not None:
        return Noise(law, Noise.isotropic(law, settings.sigma).scale, loc, grid, box)
    assert settings.scale is not None
    return Noise(law, _array(settings.scale, "scale"), loc, grid, box)


def _views(settings: NoiseSettings, model: str | None) -> View:
    """The views, and nothing that is said of noise only; training chose their confidence, unless it is given."""
    from smoothcert.views import view_named

    for name in changed(settings, "sigma", "scale", "loc", "grid", "box", "front"):
        raise SettingError(
            f"--noise {settings.law} names views, which have no {name}; leave it out: what they have is written after "
            "their name (smoothcert list views)"
        )
    view = view_named(settings.law)
    if model is None or Path(model).suffix != ".safetensors" or "confidence=" in settings.law:
        return view
    from smoothcert.models import CONFIDENCE_KEY, read_metadata

    kept = read_metadata(model)
    trained = kept.get("smoothcert.noise", "").partition(" ")[0]
    chosen = float(kept.get(CONFIDENCE_KEY, 0.0)) if trained == str(view) else 0.0
    if chosen:
        errors.print(
            f"views vote from a softmax of {chosen:g} on, as training chose; confidence=… after their name is another"
        )
    return replace(view, confidence=chosen)


def smoother_of(
    settings: Settings,
    dataset: Dataset,
    memory: Memory | None = None,
    *,
    front: Front | None = None,
    models: Models | None = None,
    passes: bool = False,
) -> Smoother:
    """The smoothed classifier, all settings checked before anything is computed or written.

    front, models: what the settings name, where it was made already; passes: it may have a class more.
    """
    from smoothcert.engine import device_named
    from smoothcert.smoother import Smoother
    from smoothcert.tuners import tuner_named

    check_told(settings)
    if settings.model.cascade is not None:
        if settings.noise.front is not None:
            raise SettingError("a cascade asks networks of inputs; leave --front out, or --cascade")
        return cascade_of(settings, dataset, models)
    front = front or front_of(settings.noise, settings.data, dataset, settings.model.source)
    noise, votes = noise_of(settings.noise, dataset, settings.model.source, front), settings.votes
    tuner = tuner_named(method_of(votes.method, settings.model.source))
    device_named(settings.engine.device)
    regression, known = settings.task.kind == "regression", {} if models is None else models
    if regression:
        _check_regression(settings)
    if settings.model not in known:
        shape = dataset.shape if front is None or front.decodes else front.seen
        known[settings.model] = _model_of(settings, shape, 1 if regression else dataset.classes, passes=passes)
    model = known[settings.model]
    if regression:
        if front is not None:
            raise SettingError("fronts are for classifiers; leave --front out, or certify classes")
        return _regressor_of(settings, model, noise)
    if front is not None and front.decodes:
        from smoothcert.models.decoding import Decoding

        model = Decoding(front, model).eval()
    return Smoother(
        model,
        noise,
        votes.norm,
        threat=votes.threat,
        select=votes.select,
        estimate=votes.trials,
        alpha=votes.alpha,
        estimator=votes.estimator,
        radii=votes.radii,
        seed=votes.seed,
        front=front,
        tuner=tuner,
        memory=memory,
        engine=settings.engine,
        identity=settings.model.identity,
        check=votes.check,
        own_randomness=votes.own_randomness,
    )


def _model_of(settings: Settings, shape: Sequence[int], classes: int | None, *, passes: bool) -> nn.Module:
    """The network, with its normalisation; the file of one that may pass on says itself how many classes it has."""
    from smoothcert.models import load_model

    source = settings.model
    assert source.source is not None
    return load_model(
        source.source,
        weights=source.weights,
        shape=shape,
        classes=None if passes and _is_file(source.source) else classes,
        mean=source.mean or None,
        std=source.std or None,
    )


def _regressor_of(settings: Settings, model: nn.Module, noise: Noise | View) -> Smoother:
    """The smoothed regressor of the settings."""
    from smoothcert.maths.boxed import Box
    from smoothcert.regressor import SmoothedRegressor

    votes, clipped = settings.votes, None if settings.task.bounds is None else Box.read(settings.task.bounds)
    return SmoothedRegressor(
        model,
        noise,  # type: ignore[arg-type]
        votes.norm,
        radii=votes.radii,
        bounds=None if clipped is None else (clipped.low, clipped.high),
        estimate=votes.trials,
        alpha=votes.alpha,
        seed=votes.seed,
        engine=settings.engine,
        identity=settings.model.identity,
        check=votes.check,
        own_randomness=votes.own_randomness,
    )


def _check_regression(settings: Settings) -> None:
    """Refuse what is said of classes only."""
    for name in changed(settings.votes, "threat", "method", "memory", "estimator"):
        raise SettingError(
            f"--task regression certifies numbers under one noise for all inputs, and has no {name}; leave --{name} out"
        )


def check_cascade(settings: Settings) -> None:
    """Refuse what the stages of a cascade say for themselves, and what a cascade has not."""
    own = {
        "noise": ("law", "sigma", "scale"),
        "model": ("source", "weights"),
        "votes": ("threat", "method", "memory", "estimator"),
        "task": ("kind",),
    }
    given = [f"{section}.{name}" for section in own for name in changed(getattr(settings, section), *own[section])]
    if given:
        raise SettingError(
            f"--cascade {settings.model.cascade} names the models and their noise, and a cascade has no "
            f"{given[0].partition('.')[2]} of its own; leave {', '.join(given)} out"
        )


def cascade_of(settings: Settings, dataset: Dataset, models: Models | None = None) -> Smoother:
    """The cascade that a TOML file names: stages with model and sigma, and margins if there are any; paths are of its folder."""
    from smoothcert.cascade import Cascade

    file = Path(str(settings.model.cascade))
    told = _cascade_file(file)
    stages = [_stage_of(settings, dataset, file, stage, models) for stage in told["stage"]]
    chosen = told.get("chosen_on")
    seen = None if chosen is None else dataset_of(DataSettings(chosen), "train")
    return Cascade(stages, told.get("margins"), alpha=settings.votes.alpha, radii=settings.votes.radii, chosen_on=seen)


def _cascade_file(file: Path) -> dict[str, Any]:
    """What the file says, once every name in it is one that is known."""
    import tomllib

    from smoothcert.errors import look_up

    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise SettingError(f"--cascade {file} cannot be read as TOML: {problem}; see docs/cascades.md") from problem
    for name in told:
        look_up("part of a cascade", name, dict.fromkeys(("stage", "margins", "chosen_on")))
    stages = told.get("stage")
    if not isinstance(stages, list) or not stages or not all(isinstance(stage, dict) for stage in stages):
        raise SettingError(f"--cascade {file} names no stages; write a table [[stage]] with model and sigma for each")
    for stage in stages:
        for name in stage:
            look_up("setting of a stage", name, dict.fromkeys(STAGE))
    return told


def _stage_of(
    settings: Settings, dataset: Dataset, file: Path, told: dict[str, Any], models: Models | None
) -> Smoother:
    """One stage: its own model, noise and votes; all else is that of the run."""
    named = {name: str(told[name]) for name in ("model", "weights") if name in told}
    placed = {name: str(file.parent / text) if (file.parent / text).exists() else text for name, text in named.items()}
    noise = {name: told[name] for name in ("sigma", "scale") if name in told}
    try:
        own = replace(
            settings,
            model=replace(settings.model, cascade=None, source=placed.get("model"), weights=placed.get("weights")),
            noise=replace(settings.noise, law=told.get("noise", NoiseSettings.law), **noise),
            votes=replace(
                settings.votes,
                radii=(),
                trials=told.get("estimate", settings.votes.trials),
                select=told.get("select", settings.votes.select),
            ),
        )
    except TypeError as problem:
        raise SettingError(f"a stage of {file} is {told}: {problem}; see docs/cascades.md") from problem
    return smoother_of(own, dataset, models=models, passes=True)


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
    import numpy as np

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
