"""A report as files: the page, the figures, and every table as CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothcert.errors import RunError
from smoothcert.files import write_atomically
from smoothcert.report.fairness import check_same_data
from smoothcert.report.figures import draw_all
from smoothcert.report.numbers import certifies_numbers, write_numbers
from smoothcert.report.page import page
from smoothcert.report.runs import Run
from smoothcert.report.sheets import to_csv, to_latex
from smoothcert.report.tables import tables


def write_report(runs: Sequence[Run], radii: Sequence[float], out: Path) -> Path:
    """Write report.html, figures, table-1.csv, table-1.tex, …, and inputs.csv into a directory; the path of the page.

    Runs on different data are refused before anything is written.
    """
    check_same_data(runs)
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file, and a report is several; give a directory for them")
    if certifies_numbers(runs):
        return write_numbers(runs, out)
    document = page(runs, radii)
    lines = [line for run in runs for line in run.lines]
    out.mkdir(parents=True, exist_ok=True)
    for number, sheet in enumerate(tables(lines, radii), start=1):
        write_atomically(out / f"table-{number}.csv", to_csv(sheet.header, sheet.rows))
        write_atomically(out / f"table-{number}.tex", to_latex(sheet))
    if lines:
        draw_all(lines, out)
        write_atomically(out / "inputs.csv", _inputs_csv(runs))
    target = out / "report.html"
    write_atomically(target, document.encode())
    return target


def _inputs_csv(runs: Sequence[Run]) -> bytes:
    """The per-input table of all runs, numbers exact; the votes themselves are in ``smoothcert export``."""
    names = (
        "index",
        "truth",
        "label",
        "radius",
        "proxy_radius",
        "boxed_proxy_radius",
        "region_radius",
        "norm",
        "lower",
        "alpha",
        "trials",
        "stopped",
        "echo",
    )
    rows: list[Sequence[Any]] = []
    for line in (line for run in runs for line in run.lines):
        for record, seconds in zip(line.records, line.seconds, strict=True):
            rows.append((line.name, line.soundness.value, *(getattr(record, name) for name in names), seconds))
    return to_csv(("run", "soundness", *names, "seconds"), rows)
