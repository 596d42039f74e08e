"""smoothcert search: which law of noise certifies most, over values of its parameter."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, indices_of
from smoothcert.cli.certify import certify_run
from smoothcert.cli.console import errors, output, print_json
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.train import train_model
from smoothcert.config import Settings
from smoothcert.errors import SettingError

NAME = "search"
EXAMPLE = (
    "smoothcert search --model mlp --noise generalized_normal --parameter beta=1,2,3 --sigmas 0.25,0.5 "
    "--norms 1,2 --limit 100 -n 1000 --epochs 3 --out search"
)


OWN = {
    "model.source": "mlp",
    "data.limit": 1000,
    "votes.trials": 1000,
    "votes.estimator": "fixed:rivals=rest",  # what nobody can exceed, and the estimate, are known for one class
    "engine.shared_noise": True,
    "train.recipe": "gaussian",  # as published
}


@takes(
    Settings,
    *("model.source", "data.source", "data.limit", "noise.grid", "votes.trials", "votes.alpha", "votes.seed"),
    *("engine.device", "engine.shared_noise", "train.epochs"),
    defaults=OWN,
)
def command(
    given: Given,
    parameter: Annotated[str, typer.Option(help="The parameter of the law and its values: beta=0.5,1,2,3.")],
    out: Annotated[Path, typer.Option(help="Where to put models, runs, table and plot; continued if it exists.")],
    noise: Annotated[str, typer.Option(help="The law whose parameter is searched.")] = "generalized_normal",
    sigmas: Annotated[str, typer.Option(help="Standard deviations, comma-separated.")] = "0.12,0.25,0.5,1",
    norms: Annotated[str, typer.Option(help="Norms, comma-separated.")] = "1,2,inf",
    r_max: Annotated[
        str | None,
        typer.Option(help="Integrate up to these radii, one per norm. [default: the largest radius certified]"),
    ] = None,
    estimates: Annotated[
        int,
        typer.Option(
            help="Score UniCR's estimate too, from so many probabilities per law and norm (seconds each).", min=0
        ),
    ] = 0,
    train_limit: Annotated[int | None, typer.Option(help="At most so many training inputs.", min=1)] = None,
    json: o.Json = False,
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
    base = given.over(Settings)
    # One seed and one device for both, unless the training has its own.
    base = given.over(Settings, {"train.seed": base.votes.seed, "train.device": base.engine.device})

    def at(point: Point, model: str, limit: int | None) -> Settings:
        return replace(
            base,
            model=replace(base.model, source=model),
            data=replace(base.data, limit=limit),
            noise=replace(base.noise, law=point.law, sigma=point.sigma),
            votes=replace(base.votes, norm=asked.norms[0]),
        )

    def train(point: Point, folder: Path) -> Path:
        model = str(base.model.source)
        errors.print(f"{point.law}, sigma {point.sigma:g}: train {model}", highlight=False)
        return train_model(at(point, model, train_limit), folder)

    def certify(point: Point, weights: Path, folder: Path) -> None:
        settings = at(point, str(weights), base.data.limit)
        certify_run(settings, folder, note=o.command_line(), title=folder.name)

    indices = indices_of(base.data, dataset_of(base.data))
    rows = search(asked, indices, out, train=train, certify=certify, estimates=estimates)
    if json:
        print_json([asdict(row) for row in rows])
    else:
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
