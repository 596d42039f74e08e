"""smoothcert report: runs as a table and a curve."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import errors, output
from smoothcert.cli.options import Json
from smoothcert.errors import SettingError

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
    chosen = common_radii(lines) if radii is None else _numbers(radii)
    if json:
        print(jsonlib.dumps([summary(line, chosen) for line in lines]))
    else:
        output.print(table(lines, chosen))
    picture = draw_curves(lines, (out or runs[0]) / "curve.png")
    errors.print(f"curve: {picture}", highlight=False)


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"--radii {text!r} must be numbers with commas between, for example 0.25,0.5,1") from None
    if min(numbers) < 0:
        raise SettingError(f"--radii {text!r} must not be negative")
    return numbers
