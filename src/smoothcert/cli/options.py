"""The flags that several commands share, and the settings they stand for."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from smoothcert.config import Settings, read_settings
from smoothcert.errors import SettingError

IN_RUN = "run"  # the value of --memory alone
MODEL, DATA, NOISE, VOTES, ENGINE = "Model", "Data", "Noise", "Votes", "Engine"
UCAN = "Shaped noise (UCAN)"

Model = Annotated[
    str | None,
    typer.Option(
        help="A .safetensors file written by smoothcert train, a built-in name (small_cnn, mlp, resnet18, …), a torch.export "
        ".pt2, TorchScript .ts or .onnx file, a folder of transformers, timm:name, or package.module:factory.",
        rich_help_panel=MODEL,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="Weights for a built-in name or a factory: .safetensors, or .pt read safely.", rich_help_panel=MODEL
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(help="Channel means, comma-separated: normalisation put into the model.", rich_help_panel=MODEL),
]
Std = Annotated[str | None, typer.Option(help="Channel standard deviations, comma-separated.", rich_help_panel=MODEL)]
Data = Annotated[
    str | None,
    typer.Option(
        help="digits (embedded), mnist, fashion_mnist, cifar10, a folder of class folders or of images, an image, or an "
        ".npz file with x and y. [default: digits]",
        rich_help_panel=DATA,
    ),
]
Run = Annotated[str, typer.Argument(help="A run: its directory, or its store as name:key=value.")]
KeptBy = Annotated[
    str | None, typer.Option(help="The memory that keeps the certificates. [default: the run's own, if any]")
]
MovedData = Annotated[
    str | None, typer.Option(help="Where the data of the run are now: a folder, or an .npz file.", rich_help_panel=DATA)
]
Root = Annotated[str | None, typer.Option(help="Where data sets are kept; else SMOOTHCERT_DATA.", rich_help_panel=DATA)]
Split = Annotated[str | None, typer.Option(help="train or test. [default: test]", rich_help_panel=DATA)]
Size = Annotated[
    int | None,
    typer.Option(help="Resize the shorter side of a folder's images to this, and crop.", rich_help_panel=DATA),
]
Crop = Annotated[
    int | None,
    typer.Option(
        help="After --size, cut out this many pixels: --size 256 --crop 224. [default: --size]", rich_help_panel=DATA
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Classes of a folder's images: numbers (the folders' names), imagenet (wnids in its order), sorted (folders by "
        "name), or a text file: a class folder per line, or a folder or image and its class number. [default: the first of "
        "these rules that fits the folders' names]",
        metavar="FILE",
        rich_help_panel=DATA,
    ),
]
Limit = Annotated[int | None, typer.Option(help="At most so many inputs.", rich_help_panel=DATA)]
Skip = Annotated[int | None, typer.Option(help="Every so many-th input. [default: 1]", rich_help_panel=DATA)]
Indices = Annotated[str | None, typer.Option(help="Exactly these inputs: 0,5,10-19.", rich_help_panel=DATA)]
Download = Annotated[
    bool | None,
    typer.Option(
        "--download/--no-download", help="Fetch a missing data set. [default: download]", rich_help_panel=DATA
    ),
]
NoiseLaw = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="gaussian, laplace, uniform, hyperbolic_secant, generalized_normal:beta=1.5, cauchy, pareto, laplace_gaussian or exponential_mixture. [default: gaussian]",
        rich_help_panel=NOISE,
    ),
]
Sigma = Annotated[
    float | None, typer.Option(help="Standard deviation of the noise per coordinate.", rich_help_panel=NOISE)
]
Scale = Annotated[
    str | None, typer.Option(help="Instead of sigma: the law's scale, a number or an .npy file.", rich_help_panel=NOISE)
]
Loc = Annotated[
    str | None, typer.Option(help="Shift of the noise, a number or an .npy file. [default: 0]", rich_help_panel=NOISE)
]
Grid = Annotated[
    str | None,
    typer.Option(
        help="auto, none or 1/255: noise on the pixel grid, sound in floating point. [default: auto, on for images]",
        rich_help_panel=NOISE,
    ),
]
Norm = Annotated[float | None, typer.Option(help="1, 2, inf or any p > 0. [default: 2]", rich_help_panel=VOTES)]
Method = Annotated[
    str | None,
    typer.Option(
        help="Who chooses the noise, with parameters after a colon, such as ancer:steps=60,kappa=1.5: fixed; per input "
        "data_dependent (one factor), ancer (every coordinate), either with _published for the form in its paper, hill_climb "
        "(UniCR's I-OPT), or reuse:run=RUN; pattern, dataset or per_input (UCAN); or package.module:Name. [default: fixed]",
        rich_help_panel=VOTES,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Settle certificates by a memory, so that per-input noise holds for the deployed classifier. Alone: kept in "
        "the run directory; or a file that runs of one classifier share. [default: no memory]",
        metavar="[FILE]",
        rich_help_panel=VOTES,
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        help="Train under this pattern: l1, l2 or linf (parameters: source=l2,kappa=0.2,iota=0.8), an .npy file of factors on "
        "the scale, or a picture.",
        rich_help_panel=UCAN,
    ),
]
Identity = Annotated[
    str | None,
    typer.Option(
        help="Your own name for a model that cannot be known by its value; a new one is due whenever it changes.",
        rich_help_panel=MODEL,
    ),
]
Select = Annotated[int | None, typer.Option(help="Votes to choose the class. [default: 100]", rich_help_panel=VOTES)]
Estimate = Annotated[
    int | None,
    typer.Option("--estimate", "-n", help="Votes to bound its probability. [default: 100000]", rich_help_panel=VOTES),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="Probability that one certificate is wrong. [default: 0.001]", rich_help_panel=VOTES),
]
Estimator = Annotated[
    str | None,
    typer.Option(
        help="sequential (stops when it has seen enough), fixed, group_sequential, union, betting or randomized, with parameters, "
        "such as sequential:tolerance=0.05,rivals=runner_up. [default: sequential]",
        rich_help_panel=VOTES,
    ),
]
Radii = Annotated[
    str | None,
    typer.Option(
        help="The radii you will ask about, comma-separated: votes stop when these are decided. [default: none, the whole radius]",
        rich_help_panel=VOTES,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Blocks in flight at once; changes no number. [default: one per thread]", rich_help_panel=ENGINE),
]
SharedNoise = Annotated[
    bool | None,
    typer.Option(
        "--shared-noise/--own-noise",
        help="The same draws for all inputs: faster; each certificate is as sure, but they are not independent. [default: own]",
        rich_help_panel=ENGINE,
    ),
]
ChannelsLast = Annotated[
    bool | None,
    typer.Option(
        "--channels-last/--channels-first", help="Memory layout of images. [default: first]", rich_help_panel=ENGINE
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16 or float16 (autocast): another base classifier. [default: float32]",
        rich_help_panel=ENGINE,
    ),
]
Compiled = Annotated[
    bool | None,
    typer.Option(
        "--compiled/--plain",
        help="Use torch.compile: another base classifier. [default: plain]",
        rich_help_panel=ENGINE,
    ),
]
Check = Annotated[
    bool | None,
    typer.Option(
        "--check/--no-check",
        help="Probe the model for being one fixed function of its row; without it certificates are labelled estimate. "
        "[default: check]",
        rich_help_panel=ENGINE,
    ),
]
OwnRandomness = Annotated[
    bool | None,
    typer.Option(
        "--own-randomness/--no-randomness",
        help="The model draws numbers of its own, independent per row and call: a run cannot be repeated. [default: none]",
        rich_help_panel=ENGINE,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of all draws. [default: 0]", rich_help_panel=VOTES)]
Block = Annotated[
    int | None,
    typer.Option(
        help="Noisy copies per call of the network. [default: 200, fewer for large inputs: 10 at 224 pixels]",
        rich_help_panel=VOTES,
    ),
]
Rows = Annotated[
    int | None, typer.Option(help="Inputs taken in at once; changes no number. [default: 64]", rich_help_panel=VOTES)
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda. [default: cpu]", rich_help_panel=VOTES)]
Config = Annotated[Path | None, typer.Option(help="A run.toml to start from; flags win.")]
Assign = Annotated[list[str] | None, typer.Option("--set", help="Any setting as section.name=value; wins over flags.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

# Where each flag goes in the settings; the same name as the parameter of the command.
PATHS = {
    "model": "model.source",
    "weights": "model.weights",
    "mean": "model.mean",
    "std": "model.std",
    "data": "data.source",
    "noise": "noise.law",
    "sigma": "noise.sigma",
    "scale": "noise.scale",
    "loc": "noise.loc",
    "grid": "noise.grid",
    "generator": "generator.source",
    **{name: f"generator.{name}" for name in ("pattern", "objective", "weight", "least", "most", "shift")},
    **{
        name: f"data.{name}"
        for name in ("root", "split", "size", "crop", "classes", "limit", "skip", "indices", "download")
    },
    **{
        name: f"certify.{name}"
        for name in (
            *(
                "norm",
                "method",
                "identity",
                "select",
                "estimate",
                "alpha",
                "estimator",
                "radii",
                "block",
                "rows",
                "memory",
            ),
            *("workers", "shared_noise", "channels_last", "precision", "compiled", "check", "own_randomness"),
        )
    },
}


class Command(TyperCommand):
    """A command whose ``--memory`` may stand alone: it then means the run directory."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a lonely --memory its value."""
        for at in [position for position, word in enumerate(args) if word == "--memory"][::-1]:
            if at + 1 == len(args) or args[at + 1].startswith("-"):
                args = [*args[: at + 1], IN_RUN, *args[at + 1 :]]
        return super().parse_args(ctx, args)


def settings_of(context: typer.Context, home: str) -> Settings:
    """The settings of a command from its file, flags and assignments; what the section ``home`` knows goes there."""
    given: Mapping[str, Any] = context.params
    own = type(getattr(Settings(), home)).model_fields
    flags = {
        f"{home}.{name}" if name in own else PATHS.get(name, f"{home}.{name}"): value
        for name, value in given.items()
        if name not in ("config", "assign", "out", "votes", "json")
    }
    return read_settings(given["config"], flags, given["assign"] or ())


def command_line() -> str:
    """The exact command, for the run's notes."""
    return shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])


def numbers(text: str, flag: str) -> list[float]:
    """Numbers written with commas between, none negative."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"{flag} {text!r} must be numbers with commas between, for example 0.25,0.5,1") from None
    if min(values) < 0:
        raise SettingError(f"{flag} {text!r} must not be negative")
    return values
