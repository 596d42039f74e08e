"""A table of words: for the terminal, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

SPECIAL = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"})


@dataclass(frozen=True)
class Sheet:
    """A title, a header, rows of cells as long as the header, and a note on how to read them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def to_rich(sheet: Sheet) -> Table:
    """For the terminal."""
    table = Table(title=sheet.title, caption=sheet.note or None)
    for position, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if position else "left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def to_csv(sheets: Sequence[Sheet]) -> bytes:
    """One after the other, each under its title, with an empty line between."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for number, sheet in enumerate(sheets):
        writer.writerows([[]] * bool(number))
        writer.writerows([[sheet.title], sheet.header, *sheet.rows])
    return text.getvalue().encode()


def to_latex(sheets: Sequence[Sheet]) -> bytes:
    r"""One ``table`` each, for the package booktabs.

    >>> print(to_latex([Sheet("50 %", ("run", "r"), (("a_b", "1"),))]).decode())
    \begin{table}
    \caption{50 \%}
    \begin{tabular}{lr}
    \toprule
    run & r \\
    \midrule
    a\_b & 1 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    lines = []
    for sheet in sheets:
        caption = ". ".join(part.rstrip(".") for part in (sheet.title, sheet.note) if part)
        columns = "l" + "r" * (len(sheet.header) - 1)
        lines += [
            r"\begin{table}",
            rf"\caption{{{_escaped(caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
        ]
        lines += [
            _row(sheet.header),
            r"\midrule",
            *map(_row, sheet.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return ("\n".join(lines) + "\n").encode()


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(_escaped, cells)) + r" \\"


def _escaped(text: str) -> str:
    return text.translate(SPECIAL).replace("×", r"$\times$").replace("⊇", r"$\supseteq$").replace("–", "--")
