"""smoothcert train: a classifier that keeps its answer under noise."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli.build import dataset_of, front_of, indices_of, noise_is_told, noise_of
from smoothcert.cli.console import errors, print_json, progress_bar
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.options import Json
from smoothcert.cli.ucan import LEARNING
from smoothcert.config import DataSettings, NoiseSettings, Settings
from smoothcert.errors import DataError, ModelError
from smoothcert.training.settings import TrainSettings

if TYPE_CHECKING:
    from torch import nn

    from smoothcert.data.base import Dataset
    from smoothcert.fronts import Front

NAME = "train"
EXAMPLE = "smoothcert train --model small_cnn --data digits --recipe consistency --sigma 0.5 --epochs 10 --out cnn"


@takes(
    Settings,
    *("model", "data", "noise", "train", "generator"),
    without=("model.identity", "model.cascade"),
    defaults={"model.source": "small_cnn"},
)
def command(
    given: Given,
    out: Annotated[
        Path, typer.Option(help="The directory for checkpoints and model.safetensors; continued if it exists.")
    ],
    json: Json = False,
) -> None:
    """Train a network, built in or your own (package.module:factory), under noise, so that certifying it with the same noise is worth while.

    A killed training goes on from its last epoch to the same weights, and with --schedule constant --warmup 0 and more --epochs it
    goes on to those of a training of that length. --sigma 0 trains without noise, for
    certify --method hill_climb:keep_label=true.
    """
    usual = usual_recipe(given.over(Settings))
    settings = given.over(Settings, {"train.recipe": usual})
    path = train_model(settings, out)
    if json:
        print_json(_numbers(path))
    source = settings.model.source or ""
    again = f"--model {source} --weights {path}" if ":" in source and source == _network(source) else f"--model {path}"
    errors.print(f"model: {path}; certify it with: smoothcert certify {again} …")


def _numbers(path: Path) -> dict[str, object]:
    """The file of a trained network, and what it says of its accuracy under noise."""
    from smoothcert.models import read_metadata

    told = read_metadata(path)
    names = ("epoch", "accuracy", "validation_accuracy")
    return {"model": str(path)} | {name: jsonlib.loads(told.get(f"smoothcert.{name}", "null")) for name in names}


def _network(source: str) -> str:
    """The shortest text of a network to build; a file is refused, since it cannot be built anew."""
    from smoothcert.models import REGISTRY
    from smoothcert.models.factory import is_factory
    from smoothcert.models.networks import is_network

    if is_factory(source) and not is_network(source):
        return source
    if not is_network(source) and (Path(source).suffix or Path(source).exists() or ":" in source):
        raise ModelError(
            f"--model {source}: train builds the network itself, and that of a file it cannot; give a name (smoothcert list models), with "
            "--weights FILE to start from its weights, or your own as package.module:factory"
        )
    return REGISTRY.make(source).title


def is_silent(noise: NoiseSettings) -> bool:
    """Was no noise at all asked for?"""
    return noise.sigma == 0 and noise.scale is None


def usual_recipe(settings: Settings) -> str:
    """The recipe if none is named: without noise plain cross-entropy, and ucan for a generator that learns."""
    if is_silent(settings.noise):
        return "gaussian"
    return "ucan" if settings.generator.source in LEARNING else TrainSettings.recipe


def _told(settings: DataSettings, dataset: Dataset) -> str:
    """Which inputs are trained on, as the file of weights says it: of which content, and how they were chosen."""
    chosen = {name: value for name, value in asdict(settings).items() if name != "source"}
    return jsonlib.dumps({"fingerprint": dataset.fingerprint()} | chosen)


def behind(front: Front, model: nn.Module, out: Path) -> None:
    """Keep the front beside the model that is trained behind it, and have the model decode its numbers, if it is to."""
    from smoothcert.fronts import FILE
    from smoothcert.models.decoding import Decoding

    out.mkdir(parents=True, exist_ok=True)
    front.save(out / FILE)
    if front.decodes:
        decoding = Decoding(front, model)
        model.register_forward_pre_hook(lambda _, given: (decoding.decoded(given[0]),))


def train_model(settings: Settings, out: Path) -> Path:
    """Train as the settings say, with a progress bar; the path of the weights."""
    if not is_silent(settings.noise):
        noise_is_told(settings.noise)
    import numpy as np

    train_data = dataset_of(settings.data, "train")
    front = front_of(settings.noise, settings.data, train_data)
    noise = None if is_silent(settings.noise) else noise_of(settings.noise, train_data, front=front)
    if train_data.classes is None:
        raise DataError(f"{train_data.name} has no labels, so nothing can be trained on it; give data with labels")
    from smoothcert.cli.ucan import shaped_training
    from smoothcert.engine import device_named
    from smoothcert.identity import identity
    from smoothcert.models import load_weights
    from smoothcert.models.networks import is_network
    from smoothcert.training import BatchReport, EpochReport, new_model
    from smoothcert.training.batches import held_out
    from smoothcert.training.logs import tensorboard_log
    from smoothcert.training.recipes import recipe_named

    device_named(settings.train.device)

    seen = train_data if front is None else front.over(train_data)
    train, plan, shaped = shaped_training(settings.generator, settings.train, noise, seen.shape)
    log = tensorboard_log(out) if plan.tensorboard else None
    indices = indices_of(settings.data, train_data)
    kept, judging = held_out(indices, plan.validation, plan.seed)
    inputs, labels = seen.inputs(kept), np.array(seen.truths(kept))
    validation = (seen.inputs(judging), np.array(seen.truths(judging))) if judging else None
    architecture = {
        "name": _network(settings.model.source or "small_cnn"),
        "shape": train_data.shape if front is not None and front.decodes else seen.shape,
        "classes": train_data.classes + recipe_named(plan.recipe).passes,
        "mean": settings.model.mean or None,
        "std": settings.model.std or None,
    }
    model = new_model(architecture, plan.seed)
    if settings.model.weights is not None:
        load_weights(model, settings.model.weights)
        plan = replace(plan, start=f"weights {identity(model)[:16]}")
    elif not is_network(str(architecture["name"])):  # another network must not go on where this one stopped
        plan = replace(plan, start=f"factory {identity(model)[:16]}")
    plan = replace(plan, data=_told(settings.data, train_data))
    if front is not None:
        behind(front, model, out)
    with progress_bar("train", plan.epochs) as tell:

        def step(report: BatchReport) -> None:
            tell(report.epoch - 1 + report.batch / report.batches, words=f"loss {report.loss:.3f}")

        def epoch(report: EpochReport) -> None:
            held = report.validation_accuracy
            errors.print(
                f"epoch {report.epoch}/{report.epochs}: loss {report.loss:.4f}, "
                f"accuracy under noise {report.accuracy:.1%}"
                f"{'' if held is None else f', {held:.1%} on {len(judging)} held out'}",
            )
            if log is not None:
                log(report)

        return train(
            model,
            inputs,
            labels,
            plan,
            noise=shaped,
            out=out,
            architecture=architecture,
            validation=validation,
            progress=epoch,
            batch_progress=step,
        )
