"""A table of words: for the terminal, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Sheet:
    """A title, a header, rows of cells as long as the header, a note on how to read them, and the rows that end a section."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    ends: tuple[int, ...] = ()


def to_rich(sheet: Sheet) -> Table:
    """For the terminal."""
    table = Table(title=sheet.title, caption=sheet.note or None)
    for position, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if position else "left")
    for number, row in enumerate(sheet.rows):
        table.add_row(*row, end_section=number in sheet.ends)
    return table


def to_csv(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> bytes:
    """A header and rows, comma-separated."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def to_latex(sheet: Sheet) -> bytes:
    """A table environment for a paper; needs no package."""
    rows = [" & ".join(map(latex, row)) + r" \\" for row in sheet.rows]
    for number in reversed(sheet.ends):
        rows.insert(number + 1, r"\hline")
    header = " & ".join(rf"\textbf{{{latex(cell)}}}" for cell in sheet.header) + r" \\"
    body = "\n".join([r"\hline", header, r"\hline", *rows, r"\hline"])
    columns = "l" + "r" * (len(sheet.header) - 1)
    caption = latex(". ".join(filter(None, (sheet.title, sheet.note))))
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\begin{{tabular}}{{{columns}}}\n{body}\n"
        "\\end{tabular}\n\\end{table}\n"
    ).encode()


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
    "⊇": r"$\supseteq$",
}


def latex(text: str) -> str:
    """Text as LaTeX prints it.

    >>> print(latex("a_b: 50 %"))
    a\\_b: 50 \\%
    """
    return "".join(_LATEX.get(character, character) for character in text)
