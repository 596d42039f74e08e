"""smoothcert train: a classifier that keeps its answer under noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, indices_of, noise_of
from smoothcert.cli.console import errors, progress_bar
from smoothcert.config import Settings
from smoothcert.errors import DataError, ModelError

NAME = "train"
EXAMPLE = "smoothcert train --model small_cnn --data digits --recipe consistency --sigma 0.5 --epochs 10 --out cnn"
TRAINING = "Training"
# The same lines as the recipes' own (a test compares them); written out so that --help need not import torch.
RECIPES = """How to train; parameters follow a colon, as in consistency:strength=5. [default: consistency]

- gaussian: cross-entropy on noisy inputs (Cohen et al. 2019)
- stability: cross-entropy on clean inputs, divergence from noisy ones (Li et al. 2019)
- consistency: cross-entropy, and noisy copies answered alike (Jeong and Shin 2020)
- smoothadv: cross-entropy on noisy copies of adversarial inputs (Salman et al. 2019)
- macer: cross-entropy, and a larger soft radius where it is right (Zhai et al. 2020)
- ucan: cross-entropy over several draws, for noise that is learned (UCAN, 2025)
"""


def command(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="The directory for checkpoints and model.safetensors; continued if it exists.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="A built-in model; smoothcert list models shows them. [default: small_cnn]", rich_help_panel=o.MODEL
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Weights of the same network to start from: .safetensors, or .pt read safely. [default: drawn from the seed]",
            rich_help_panel=o.MODEL,
        ),
    ] = None,
    mean: o.Mean = None,
    std: o.Std = None,
    data: o.Data = None,
    root: o.Root = None,
    size: o.Size = None,
    crop: o.Crop = None,
    classes: o.Classes = None,
    limit: o.Limit = None,
    skip: o.Skip = None,
    download: o.Download = None,
    noise: o.NoiseLaw = None,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    loc: o.Loc = None,
    recipe: Annotated[str | None, typer.Option(help=RECIPES, rich_help_panel=TRAINING)] = None,
    data_dependent: Annotated[
        bool | None,
        typer.Option(
            "--data-dependent/--one-sigma",
            help="Each training input finds its own sigma, kept from epoch to epoch (Alfarra et al. 2022, Alg. 2). "
            "[default: one sigma]",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    warmup: Annotated[
        float | None,
        typer.Option(
            help="The share of the run before each input finds its sigma, and before adversarial inputs are at full "
            "strength. [default: 0.1]",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    validation: Annotated[
        int | None,
        typer.Option(
            help="Training inputs held out: the epoch with the best accuracy on them under noise is kept as best.safetensors. "
            "[default: 0]",
            rich_help_panel=TRAINING,
        ),
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
    precision: Annotated[
        str | None,
        typer.Option(
            help="float32, or bfloat16 for mixed precision (autocast). [default: float32]", rich_help_panel=TRAINING
        ),
    ] = None,
    tensorboard: Annotated[
        bool | None,
        typer.Option(
            "--tensorboard/--no-tensorboard",
            help="Write logs for TensorBoard to OUT/tensorboard; needs the extra tensorboard.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(
            help="Learn the noise's shape with the model: dataset (one for all inputs) or per_input. Or the file "
            "of a learned one, for any recipe.",
            rich_help_panel=o.UCAN,
        ),
    ] = None,
    pattern: o.Pattern = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What the generator is rewarded for: volume or radius. [default: volume]", rich_help_panel=o.UCAN
        ),
    ] = None,
    weight: Annotated[float | None, typer.Option(help="Of that reward. [default: 0.1]", rich_help_panel=o.UCAN)] = None,
    least: Annotated[
        float | None, typer.Option(help="Least factor on sigma. [default: 0.1]", rich_help_panel=o.UCAN)
    ] = None,
    most: Annotated[
        float | None, typer.Option(help="Largest factor on sigma. [default: 3]", rich_help_panel=o.UCAN)
    ] = None,
    shift: Annotated[
        bool | None,
        typer.Option(
            "--shift/--no-shift", help="Learn a loc as well (UCAN's μ). [default: no]", rich_help_panel=o.UCAN
        ),
    ] = None,
    seed: o.Seed = None,
    device: o.Device = None,
    config: o.Config = None,
    assign: o.Assign = None,
) -> None:
    """Train a built-in model under noise, so that certifying it with the same noise is worth while.

    A killed training goes on from its last epoch to the same weights. --sigma 0 trains without noise, for
    certify --method hill_climb:keep_label=true.
    """
    path = train_model(o.settings_of(context, "train"), out)
    errors.print(f"model: {path}; certify it with: smoothcert certify --model {path} …")


def _built_in(source: str) -> str:
    """The name of a network to build; a file or a factory is refused, since it cannot be built anew."""
    from smoothcert.models import MODELS

    if source not in MODELS and (Path(source).suffix or Path(source).exists() or ":" in source):
        raise ModelError(
            f"--model {source}: train builds the network itself, and that of a file or a factory it cannot; give a built-in name "
            "(smoothcert list models), with --weights FILE to start from its weights, or train your own nn.Module in Python with "
            "smoothcert.training.train"
        )
    return source


def train_model(settings: Settings, out: Path) -> Path:
    """Train as the settings say, with a progress bar; the path of the weights."""
    import numpy as np

    train_data = dataset_of(settings.data.model_copy(update={"split": "train"}))
    silent = settings.noise.sigma == 0 and settings.noise.scale is None
    noise = None if silent else noise_of(settings.noise, train_data)
    if train_data.classes is None:
        raise DataError(f"{train_data.name} has no labels, so nothing can be trained on it; give data with labels")
    from smoothcert.cli.ucan import shaped_training
    from smoothcert.engine import device_named
    from smoothcert.identity import identity
    from smoothcert.models import load_weights
    from smoothcert.training import BatchReport, EpochReport, TrainSettings, new_model
    from smoothcert.training.batches import held_out
    from smoothcert.training.logs import tensorboard_log

    device_named(settings.train.device)

    section = settings.train.model_dump(exclude={"validation", "tensorboard"})
    recipe_given = "recipe" in settings.train.model_fields_set
    if silent and not recipe_given:
        section["recipe"] = "gaussian"  # without noise it is plain cross-entropy
    train, plan, shaped = shaped_training(
        settings.generator,
        TrainSettings(**section),
        noise,
        train_data.shape,
        recipe_given=recipe_given,
    )
    log = tensorboard_log(out) if settings.train.tensorboard else None
    indices = indices_of(settings.data, train_data)
    kept, judging = held_out(indices, settings.train.validation, plan.seed)
    inputs, labels = train_data.inputs(kept), np.array(train_data.truths(kept))
    validation = (train_data.inputs(judging), np.array(train_data.truths(judging))) if judging else None
    architecture = {
        "name": _built_in(settings.model.source or "small_cnn"),
        "shape": train_data.shape,
        "classes": train_data.classes,
        "mean": settings.model.mean,
        "std": settings.model.std,
    }
    model = new_model(architecture, plan.seed)
    if settings.model.weights is not None:
        load_weights(model, settings.model.weights)
        plan = replace(plan, start=f"weights {identity(model)[:16]}")
    with progress_bar() as bar:
        task = bar.add_task("train", total=plan.epochs, rate="")

        def step(report: BatchReport) -> None:
            bar.update(task, completed=report.epoch - 1 + report.batch / report.batches, rate=f"loss {report.loss:.3f}")

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
