"""A report as files: the page, the figures, and every table as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothcert.files import write_atomically
from smoothcert.report.fairness import check_same_data
from smoothcert.report.figures import draw_all
from smoothcert.report.page import page, rows_of
from smoothcert.report.runs import Run
from smoothcert.report.tables import tables


def write_report(runs: Sequence[Run], radii: Sequence[float], out: Path) -> Path:
    """Write report.html, figures, table-1.csv, table-1.tex, …, and inputs.csv into a directory; the path of the page.

    Runs on different data are refused before anything is written.
    """
    check_same_data(runs)
    document = page(runs, radii)
    lines = [line for run in runs for line in run.lines]
    out.mkdir(parents=True, exist_ok=True)
    for number, found in enumerate(map(rows_of, tables(lines, radii)), start=1):
        write_atomically(out / f"table-{number}.csv", table_csv(found))
        write_atomically(out / f"table-{number}.tex", table_latex(found).encode())
    if lines:
        draw_all(lines, out)
        write_atomically(out / "inputs.csv", _inputs_csv(runs))
    target = out / "report.html"
    write_atomically(target, document.encode())
    return target


def table_csv(found: dict[str, Any]) -> bytes:
    """A table's header and rows, comma-separated."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([found["header"], *found["rows"]])
    return text.getvalue().encode()


def table_latex(found: dict[str, Any]) -> str:
    """A table environment for a paper; needs no package."""
    rows = [" & ".join(map(latex, row)) + r" \\" for row in found["rows"]]
    for number in reversed(found["ends"]):
        rows.insert(number + 1, r"\hline")
    header = " & ".join(rf"\textbf{{{latex(cell)}}}" for cell in found["header"]) + r" \\"
    body = "\n".join([r"\hline", header, r"\hline", *rows, r"\hline"])
    columns = "l" + "r" * (len(found["header"]) - 1)
    caption = latex(". ".join(filter(None, (found["title"], found["caption"]))))
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\begin{{tabular}}{{{columns}}}\n{body}\n"
        "\\end{tabular}\n\\end{table}\n"
    )


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "σ": r"$\sigma$",
    "θ": r"$\theta$",
    "α": r"$\alpha$",
    "∞": r"$\infty$",
}


def latex(text: str) -> str:
    """Text as LaTeX prints it.

    >>> print(latex("a_b: 50 %"))
    a\\_b: 50 \\%
    """
    return "".join(_LATEX.get(character, character) for character in text)


def _inputs_csv(runs: Sequence[Run]) -> bytes:
    """The per-input table of all runs, numbers exact; the votes themselves are in ``smoothcert export``."""
    names = ("index", "truth", "label", "radius", "proxy_radius", "region_radius", "norm", "lower", "alpha", "trials")
    rows: list[Sequence[Any]] = [("run", "soundness", *names, "seconds")]
    for line in (line for run in runs for line in run.lines):
        for record, seconds in zip(line.records, line.seconds, strict=True):
            rows.append((line.name, line.soundness.value, *(getattr(record, name) for name in names), seconds))
    return table_csv({"header": rows[0], "rows": rows[1:]})
