"""A table of words: for the terminal, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

LONG = 20  # a cell of a turned table that is longer breaks between words


@dataclass(frozen=True)
class Sheet:
    """A title, a header, rows of cells as long as the header, a note on how to read them, and the rows that end a section.

    across: the runs stand beside each other, a row per quantity.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    ends: tuple[int, ...] = ()
    across: bool = False


def to_rich(sheet: Sheet, width: int) -> Group:
    """For a terminal so many columns wide: no name is cut, and what all runs share is said once.

    Where runs across do not fit, every run has a row, in as many tables as it takes.
    """
    shared, own = _apart(sheet) if sheet.across and len(sheet.header) > 2 else ((), sheet)
    parts = [_table(own)] if not sheet.across or _needed(own) <= width else _turned(own, width)
    words = "; ".join(f"{name} {value}" for name, value, *_ in shared)
    return Group(*parts, *([Text(f"the same for all: {words}", style="italic")] if words else []))


def _apart(sheet: Sheet) -> tuple[tuple[tuple[str, ...], ...], Sheet]:
    """The rows in which all runs are alike, and the sheet without them."""
    shared = tuple(row for row in sheet.rows if len(set(row[1:])) == 1)
    kept = [number for number, row in enumerate(sheet.rows) if row not in shared]
    ends = tuple(place for place, number in enumerate(kept) if number in sheet.ends)
    return shared, replace(sheet, rows=tuple(sheet.rows[number] for number in kept), ends=ends)


def _turned(sheet: Sheet, width: int) -> list[Table]:
    """A row per run: as many quantities in each table as fit beside the names."""
    names = sheet.header[1:]
    whole = min(max(map(len, names)), width // 2)  # a name beyond half of the terminal breaks
    left = width - whole - 4
    blocks: list[list[tuple[str, ...]]] = [[]]
    for row in sheet.rows:
        if blocks[-1] and sum(_column(each) + 3 for each in [*blocks[-1], row]) > left:
            blocks.append([])
        blocks[-1].append(row)
    turned = [_table(Sheet("", *_columns(names, block)), whole) for block in blocks if block]
    turned[0].title, turned[-1].caption = sheet.title, sheet.note or None
    return turned


def _columns(
    names: Sequence[str], block: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    header = ("run", *(row[0] for row in block))
    return header, tuple((name, *(row[1 + at] for row in block)) for at, name in enumerate(names))


def _needed(sheet: Sheet) -> int:
    """Columns that a table takes if cells break between words only."""
    return 1 + sum(_least(column) + 3 for column in zip(sheet.header, *sheet.rows, strict=True))


def _least(cells: Iterable[str]) -> int:
    return max(len(word) for cell in cells for word in (cell.split() or [""]))


def _column(cells: Sequence[str]) -> int:
    """The width of a column of a turned table: a header breaks between words, a cell only where it is long."""
    return max(_least(cells), min(max(map(len, cells[1:])), LONG))


def _table(sheet: Sheet, whole: int | None = None) -> Table:
    """A table for the terminal; of a turned one, ``whole`` is the width of a name, and the others have theirs."""
    table = Table(title=sheet.title or None, caption=sheet.note or None)
    for position, cells in enumerate(zip(sheet.header, *sheet.rows, strict=True)):
        width = None if whole is None else _column(cells) if position else whole
        table.add_column(cells[0], justify="right" if position else "left", overflow="fold", width=width)
    for number, row in enumerate(sheet.rows):
        table.add_row(*row, end_section=number in sheet.ends)
    return table


def to_csv(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> bytes:
    """A header and rows, comma-separated."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def rows_to_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows by the names of their columns, of which the first has all."""
    return to_csv(list(rows[0]), [list(row.values()) for row in rows])


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
