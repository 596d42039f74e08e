"""smoothcert report: runs as a table and a curve."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import errors, output
from smoothcert.cli.options import Json, numbers
from smoothcert.files import write_atomically

NAME = "report"
EXAMPLE = "smoothcert report runs/a runs/b --radii 0.25,0.5,1 --out report"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    radii: Annotated[
        str | None, typer.Option(help="Radii of the table, comma-separated. [default: round ones]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write curve.png, tables.csv and tables.tex. [default: curve.png in the first run]"),
    ] = None,
    json: Json = False,
) -> None:
    """Print certified accuracy, ACR, proxy radius, cost and soundness label of runs, and draw their curves.

    Several runs are also compared: the envelope over sigmas, whose regions contain whose, and who is best.
    """
    from smoothcert.report.comparisons import best_of_all, envelopes, supersets
    from smoothcert.report.figures import draw_curves
    from smoothcert.report.runs import read_lines
    from smoothcert.report.sheets import to_csv, to_latex, to_rich
    from smoothcert.report.tables import common_radii, main_sheet, summary

    lines = read_lines(runs)
    chosen = common_radii(lines) if radii is None else numbers(radii, "--radii")
    if json:
        print(jsonlib.dumps([summary(line, chosen) for line in lines]))
    else:
        compared = (envelopes(lines, chosen), best_of_all(lines), supersets(lines))
        sheets = [main_sheet(lines, chosen), *(sheet for sheet in compared if sheet is not None)]
        for sheet in sheets:
            output.print(to_rich(sheet))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_atomically(out / "tables.csv", to_csv(sheets))
            write_atomically(out / "tables.tex", to_latex(sheets))
    picture = draw_curves(lines, (out or runs[0]) / "curve.png")
    errors.print(f"curve: {picture}")
