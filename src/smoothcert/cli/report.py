"""smoothcert report: runs as a table and a curve."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import errors, output
from smoothcert.cli.options import Json, numbers

NAME = "report"
EXAMPLE = "smoothcert report runs/a runs/b --radii 0.25,0.5,1 --out report"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    radii: Annotated[
        str | None, typer.Option(help="Radii of the table, comma-separated. [default: round ones]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write curve.png. [default: the first run directory]")
    ] = None,
    json: Json = False,
) -> None:
    """Print certified accuracy, ACR, cost and soundness label of runs, and draw their curves."""
    from smoothcert.report.figures import draw_curves
    from smoothcert.report.runs import read_lines
    from smoothcert.report.tables import common_radii, summary, table

    lines = read_lines(runs)
    chosen = common_radii(lines) if radii is None else numbers(radii, "--radii")
    if json:
        print(jsonlib.dumps([summary(line, chosen) for line in lines]))
    else:
        output.print(table(lines, chosen))
    picture = draw_curves(lines, (out or runs[0]) / "curve.png")
    errors.print(f"curve: {picture}")
