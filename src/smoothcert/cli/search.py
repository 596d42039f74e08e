"""smoothcert search: which law of noise certifies most, over values of its parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, indices_of
from smoothcert.cli.certify import certify_run
from smoothcert.cli.console import errors, output
from smoothcert.cli.train import train_model
from smoothcert.config import read_settings
from smoothcert.errors import SettingError

NAME = "search"
EXAMPLE = (
    "smoothcert search --model mlp --noise generalized_normal --parameter beta=1,2,3 --sigmas 0.25,0.5 "
    "--norms 1,2 --limit 100 -n 1000 --epochs 3 --out search"
)


def command(
    parameter: Annotated[
        str, typer.Option(help="The parameter of the law and its values: beta=0.5,1,2,3.", rich_help_panel=o.NOISE)
    ],
    out: Annotated[Path, typer.Option(help="Where to put models, runs, table and plot; continued if it exists.")],
    noise: Annotated[
        str, typer.Option(help="The law whose parameter is searched.", rich_help_panel=o.NOISE)
    ] = "generalized_normal",
    sigmas: Annotated[
        str, typer.Option(help="Standard deviations, comma-separated.", rich_help_panel=o.NOISE)
    ] = "0.12,0.25,0.5,1",
    norms: Annotated[str, typer.Option(help="Norms, comma-separated.", rich_help_panel=o.VOTES)] = "1,2,inf",
    r_max: Annotated[
        str | None,
        typer.Option(
            help="Integrate up to these radii, one per norm. [default: the largest radius certified]",
            rich_help_panel=o.VOTES,
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="mlp or small_cnn.", rich_help_panel=o.MODEL)] = "mlp",
    data: o.Data = None,
    root: o.Root = None,
    limit: Annotated[int, typer.Option(help="Test inputs to certify.", rich_help_panel=o.DATA, min=1)] = 1000,
    download: o.Download = None,
    grid: o.Grid = None,
    estimate: Annotated[
        int, typer.Option("--estimate", "-n", help="Votes per input, all of them cast.", rich_help_panel=o.VOTES)
    ] = 1000,
    alpha: o.Alpha = None,
    estimates: Annotated[
        int,
        typer.Option(
            help="Score UniCR's estimate too, from so many probabilities per law and norm (seconds each).",
            rich_help_panel=o.VOTES,
            min=0,
        ),
    ] = 0,
    shared_noise: Annotated[
        bool,
        typer.Option(
            "--shared-noise/--own-noise",
            help="The same draws for all inputs: faster; the certificates are not independent.",
            rich_help_panel=o.ENGINE,
        ),
    ] = True,
    epochs: Annotated[int, typer.Option(help="Training epochs of each classifier.", min=1)] = 10,
    train_limit: Annotated[int | None, typer.Option(help="At most so many training inputs.", min=1)] = None,
    seed: o.Seed = None,
    device: o.Device = None,
    assign: o.Assign = None,
) -> None:
    """Search the parameter of a law: train and certify a classifier for each value and sigma, and compare scores.

    The score is the area under the certified accuracy, the best sigma at each radius (UniCR's C-OPT); beside it the
    score of the radii that nothing can exceed, and of UniCR's estimate if asked for. One set of votes serves all norms. Ctrl-C or a crash loses nothing: the same command goes on where it stopped, to the same table.
    """
    from smoothcert.search import PICTURE, TABLE, Grid, Point, best_of, search, table

    name, equals, values = parameter.partition("=")
    if not equals:
        raise SettingError(f"--parameter {parameter!r} must have the form name=values, for example beta=0.5,1,2,3")
    asked = Grid(
        law=noise,
        parameter=name.strip(),
        values=_numbers(values, "--parameter"),
        sigmas=_numbers(sigmas, "--sigmas"),
        norms=_numbers(norms, "--norms"),
        r_max=() if r_max is None else _numbers(r_max, "--r-max"),
    )
    shared: dict[str, Any] = {
        "data.source": data,
        "data.root": root,
        "data.download": download,
        "noise.grid": grid,
        "train.recipe": "gaussian",  # as published; --set train.recipe=… wins
        "train.seed": seed,
        "train.device": device,
        "train.epochs": epochs,
        "certify.norm": asked.norms[0],
        "certify.estimate": estimate,
        "certify.estimator": "fixed",
        "certify.alpha": alpha,
        "certify.shared_noise": shared_noise,
        "certify.seed": seed,
        "certify.device": device,
    }

    def flags(point: Point) -> dict[str, Any]:
        return shared | {"noise.law": point.law, "noise.sigma": point.sigma}

    def train(point: Point, folder: Path) -> Path:
        errors.print(f"{point.law}, sigma {point.sigma:g}: train {model}", highlight=False)
        return train_model(
            read_settings(None, flags(point) | {"model.source": model, "data.limit": train_limit}, assign or ()), folder
        )

    def certify(point: Point, weights: Path, folder: Path) -> None:
        own = flags(point) | {"model.source": str(weights), "data.limit": limit}
        certify_run(read_settings(None, own, assign or ()), folder, note=o.command_line(), title=folder.name)

    section = read_settings(None, shared | {"data.limit": limit}, assign or ()).data
    indices = indices_of(section, dataset_of(section))
    rows = search(asked, indices, out, train=train, certify=certify, estimates=estimates)
    output.print(table(asked, rows))
    for norm, row in best_of(rows).items():
        errors.print(f"best in l{norm:g}: {row.law}", highlight=False)
    errors.print(
        f"table: {out / TABLE}; plot: {out / PICTURE}; runs: {out / 'runs'}. The best law was chosen by these votes: certify it "
        "anew (smoothcert certify --seed …) for numbers of its own",
        highlight=False,
    )


def _numbers(text: str, flag: str) -> tuple[float, ...]:
    return tuple(o.numbers(text, flag)) if text.strip() else ()
