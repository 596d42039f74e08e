"""smoothcert curve: how far a law certifies, and whether anybody could certify more."""

from __future__ import annotations

import json as jsonlib
import math
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert.cli.console import errors, output, progress_bar
from smoothcert.cli.options import Json, numbers
from smoothcert.errors import SettingError
from smoothcert.files import write_atomically

NAME = "curve"
EXAMPLE = "smoothcert curve --noise gaussian --noise laplace --norms 1,2,inf --dim 784 --sigma 1 --out curves"
POINTS = 20


def command(
    dim: Annotated[int, typer.Option(help="Number of coordinates of an input, such as 784 or 3072.")],
    noise: Annotated[
        list[str] | None,
        typer.Option(help="A law, name or name:parameter=value; repeat it to compare laws. [default: gaussian]"),
    ] = None,
    norm: Annotated[float | None, typer.Option(help="1, 2, inf or any p > 0. [default: 2]")] = None,
    norms: Annotated[
        str | None, typer.Option(help="Several norms in one figure, comma-separated: 0.5,1,2,inf.")
    ] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the noise per coordinate.")] = None,
    scale: Annotated[float | None, typer.Option(help="Instead of sigma: the law's scale. [default: 1]")] = None,
    points: Annotated[
        int | None, typer.Option(help=f"Probabilities from 1/2 up to 0.999, even in Φ⁻¹(p). [default: {POINTS}]")
    ] = None,
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            help="Instead of points: the probabilities, comma-separated. A single one with several norms is drawn "
            "against the norm.",
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Add UniCR's estimate: a search of seconds per point, no proof.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the estimate's draws.")] = 0,
    box: Annotated[
        str | None,
        typer.Option(help="Inputs are clipped to LOW..HIGH before the noise: uniform noise then proves more in l1."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write curve.csv and curve.png.")] = Path(),
    json: Json = False,
) -> None:
    """Draw the certified radius against the label's probability, between what is proved and what nobody can exceed."""
    from smoothcert.laws import law_named
    from smoothcert.maths.boxed import Box
    from smoothcert.report.tightness import Request, curves, draw, even_chances, table, to_csv

    if norm is not None and norms is not None:
        raise SettingError(f"--norm {norm:g} and --norms {norms} both name norms; give one of them")
    if points is not None and p is not None:
        raise SettingError(f"--points {points} and --p {p} both set the probabilities; give one of them")
    laws = {str(law): law for law in map(law_named, noise or ["gaussian"])}
    request = Request(
        tuple(laws.values()),
        (2.0 if norm is None else norm,) if norms is None else tuple(dict.fromkeys(numbers(norms, "--norms"))),
        dim,
        even_chances(POINTS if points is None else points) if p is None else tuple(sorted(set(numbers(p, "--p")))),
        sigma,
        scale,
        None if box is None else Box.read(box),
    )
    if out.exists() and not out.is_dir():
        raise SettingError(f"--out {out} is a file; give a folder for curve.csv and curve.png")
    done = count(1)
    with progress_bar("radii", len(request.laws) * len(request.norms) * len(request.chances)) as tell:
        found = curves(request, estimate=estimate, seed=seed, advance=lambda: tell(next(done)))
    content = {"curve.csv": to_csv(found), "curve.png": draw(found)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, each in content.items():
            write_atomically(out / name, each)
    except OSError as problem:
        raise SettingError(f"--out {out} cannot be written ({problem}); give another folder") from problem
    if json:
        print(jsonlib.dumps([_plain(row) for curve in found for row in curve.rows()], allow_nan=False))
    else:
        for curve in found:
            output.print(table(curve))
    errors.print(f"curve: {out / 'curve.png'}, numbers: {out / 'curve.csv'}", highlight=False)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with infinities as text, since JSON has none."""
    return {key: str(value) if isinstance(value, float) and math.isinf(value) else value for key, value in row.items()}
