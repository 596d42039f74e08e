"""smoothcert report: runs as a page, tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import errors, output, print_json
from smoothcert.cli.options import Json, numbers

NAME = "report"
EXAMPLE = "smoothcert report runs/a runs/b --radii 0.25,0.5,1 --out report"


def command(
    runs: Annotated[list[str], typer.Argument(help="Runs: their directories, or their stores as name:key=value.")],
    radii: Annotated[
        str | None, typer.Option(help="Radii of the table, comma-separated. [default: round ones]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the files. [default: report in the first run directory, or here for another store]"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print certified accuracy, ACR, proxy radius, cost and label of runs; write report.html, figures and tables.

    Several runs are also compared: the envelope over sigmas, whose regions contain whose, and who is best.

    The page is one file that needs no network. Runs on different data are refused. Of numbers it shows the intervals.
    """
    from smoothcert.report import numbers as of_numbers
    from smoothcert.report.fairness import unfair
    from smoothcert.report.runs import read_runs
    from smoothcert.report.sheets import to_rich
    from smoothcert.report.tables import common_radii, summary, tables
    from smoothcert.report.write import write_report
    from smoothcert.store import directory_of

    found = read_runs(runs)
    lines = [line for run in found for line in run.lines]
    intervals = of_numbers.certifies_numbers(found)
    chosen = common_radii(lines) if radii is None else numbers(radii, "--radii")
    page = write_report(found, chosen, out or (directory_of(runs[0]) or Path()) / "report")
    if json:
        print_json([of_numbers.summary(line) if intervals else summary(line, chosen) for line in lines])
    else:
        for sheet in map(of_numbers.sheet, lines) if intervals else tables(lines, chosen):
            output.print(to_rich(sheet, output.width))
    for warning in unfair(found):
        errors.print(f"note: {warning.words}")
    errors.print(f"report: {page}")
