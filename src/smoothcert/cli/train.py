"""smoothcert train: a classifier that keeps its answer under noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, device_of, indices_of, noise_of
from smoothcert.cli.console import errors, progress_bar
from smoothcert.config import Settings
from smoothcert.errors import DataError, SettingError

NAME = "train"
EXAMPLE = "smoothcert train --model small_cnn --data digits --sigma 0.5 --epochs 10 --out cnn"
TRAINING = "Training"


def command(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="The directory for checkpoints and model.safetensors; continued if it exists.")
    ],
    model: Annotated[
        str | None, typer.Option(help="small_cnn or mlp. [default: small_cnn]", rich_help_panel=o.MODEL)
    ] = None,
    mean: o.Mean = None,
    std: o.Std = None,
    data: o.Data = None,
    root: o.Root = None,
    size: o.Size = None,
    limit: o.Limit = None,
    skip: o.Skip = None,
    download: o.Download = None,
    noise: o.NoiseLaw = None,
    sigma: o.Sigma = None,
    grid: o.Grid = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="gaussian: cross-entropy on noisy inputs (Cohen et al. 2019).", rich_help_panel=TRAINING),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data. [default: 10]", rich_help_panel=TRAINING)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Inputs per step. [default: 128]", rich_help_panel=TRAINING)] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="adam or sgd. [default: adam]", rich_help_panel=TRAINING)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Largest step size. [default: 0.003]", rich_help_panel=TRAINING)
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Pull of the weights to zero. [default: 0]", rich_help_panel=TRAINING)
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="cosine or constant. [default: cosine]", rich_help_panel=TRAINING)
    ] = None,
    augment: Annotated[
        bool | None, typer.Option("--augment/--no-augment", help="Random crops of images.", rich_help_panel=TRAINING)
    ] = None,
    flip: Annotated[
        bool | None,
        typer.Option("--flip/--no-flip", help="Mirror half of the images; needs --augment.", rich_help_panel=TRAINING),
    ] = None,
    seed: o.Seed = None,
    device: o.Device = None,
    config: o.Config = None,
    assign: o.Assign = None,
) -> None:
    """Train a built-in model under noise, so that certifying it with the same noise is worth while.

    A killed training goes on from its last epoch to the same weights. --sigma 0 trains without noise, for
    certify --method hill_climb_keep_label.
    """
    path = train_model(o.settings_of(context, "train"), out)
    errors.print(f"model: {path}; certify it with: smoothcert certify --model {path} …")


def train_model(settings: Settings, out: Path) -> Path:
    """Train as the settings say, with a progress bar; the path of the weights."""
    import numpy as np

    train_data = dataset_of(settings.data.model_copy(update={"split": "train"}))
    silent = settings.noise.sigma == 0 and settings.noise.scale is None
    noise = None if silent else noise_of(settings.noise, train_data)
    if train_data.classes is None:
        raise DataError(f"{train_data.name} has no labels, so nothing can be trained on it; give data with labels")
    if settings.noise.sigma is None:
        raise SettingError("training records sigma; give --sigma, the standard deviation of the noise")
    device_of(settings.train.device)
    from smoothcert.training import BatchReport, EpochReport, Silence, TrainSettings, new_model, train

    indices = indices_of(settings.data, train_data)
    inputs, labels = train_data.inputs(indices), np.array(train_data.truths(indices))
    section = settings.train.model_dump()
    plan = TrainSettings(**section, law=settings.noise.law, sigma=settings.noise.sigma)
    architecture = {
        "name": settings.model.source or "small_cnn",
        "shape": train_data.shape,
        "classes": train_data.classes,
        "mean": settings.model.mean,
        "std": settings.model.std,
    }
    with progress_bar() as bar:
        task = bar.add_task("train", total=plan.epochs, rate="")

        def step(report: BatchReport) -> None:
            bar.update(task, completed=report.epoch - 1 + report.batch / report.batches, rate=f"loss {report.loss:.3f}")

        def epoch(report: EpochReport) -> None:
            errors.print(
                f"epoch {report.epoch}/{report.epochs}: loss {report.loss:.4f}, "
                f"accuracy under noise {report.accuracy:.1%}",
            )

        return train(
            new_model(architecture, plan.seed),
            inputs,
            labels,
            plan,
            noise=noise or Silence(),
            out=out,
            architecture=architecture,
            progress=epoch,
            batch_progress=step,
        )
