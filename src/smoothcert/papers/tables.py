"""Our numbers beside the published ones: as Markdown, CSV and JSON, each with what it is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from smoothcert.certificates import Soundness
from smoothcert.maths.geometry import round_down
from smoothcert.papers.catalogue import Entry
from smoothcert.papers.measures import is_share
from smoothcert.report.sheets import rows_to_csv

NOT_RUN = "not run"
UNSOUND = {
    Soundness.FROZEN: "frozen: noise was chosen per input and there is no memory, so the published number does not hold for the deployed classifier",
    Soundness.ESTIMATE: "estimate: the published radius comes from a search, not from a proof",
}


@dataclass(frozen=True)
class Cell:
    """One number of a table: ours, exact, and the published one; None where there is none. A label says what each is worth."""

    part: str
    row: str
    column: str
    ours: float | None
    published: float | None
    label: str  # of ours
    claim: str  # of the published one
    classifiers: int = 0  # that ours is the best of, at each radius
    inputs: int = 0
    echoing: int = 0  # certificates of all these classifiers whose label other inputs get too, under the same noise

    @property
    def difference(self) -> float | None:
        """Ours less the published one."""
        return None if self.ours is None or self.published is None else self.ours - self.published


def to_files(entry: Entry, cells: Sequence[Cell], facts: dict[str, str]) -> dict[str, bytes]:
    """The table as table.md, table.csv and table.json."""
    rows = [asdict(cell) | {"difference": cell.difference} for cell in cells]
    told = {"entry": entry.name, "title": entry.title, "paper": entry.paper, "note": entry.note, **facts}
    text = json.dumps(told | {"cells": rows}, indent=1, ensure_ascii=False, allow_nan=False)
    return {
        "table.csv": rows_to_csv(rows),
        "table.json": text.encode(),
        "table.md": markdown(entry, cells, facts).encode(),
    }


def markdown(entry: Entry, cells: Sequence[Cell], facts: dict[str, str]) -> str:
    """The table for people: every cell has ours, the published number and the difference."""
    lines = [f"# {entry.name}: {entry.title}", "", entry.paper + ".", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += [f"- {words}" for words in _words(entry, cells)]
    for part in dict.fromkeys(cell.part for cell in cells):
        own = [cell for cell in cells if cell.part == part]
        columns = list(dict.fromkeys(cell.column for cell in own))
        header = ["", "label", "published label", *columns, "echoing"]
        lines += ["", f"## {part}", "", _line(header), _line(["---"] * len(header))]
        for row in dict.fromkeys(cell.row for cell in own):
            found = {cell.column: cell for cell in own if cell.row == row}
            first = next(iter(found.values()))
            echo = f"{first.echoing} of {first.classifiers * first.inputs}" if first.inputs else ""
            lines.append(_line([row, first.label, first.claim, *(_text(found[name]) for name in columns), echo]))
    return "\n".join(lines) + "\n"


def _words(entry: Entry, cells: Sequence[Cell]) -> list[str]:
    """How to read the cells, and what the published labels mean."""
    printed = any(cell.published is not None for cell in cells)
    shape = "ours / published (difference)" if printed else "ours; no number of it is printed, or known to us"
    words = [
        f"each cell: {shape}; accuracies and shares in %, certified numbers rounded down; echoing: "
        "certificates whose label most other inputs get too under their noise, true and empty"
    ]
    claims = {Soundness(cell.claim) for cell in cells if cell.claim and cell.published is not None}
    words += [f"published label {UNSOUND[claim]}" for claim in Soundness if claim in claims & set(UNSOUND)]
    return [*words, entry.note] if entry.note else words


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    """A cell in words; a certified number of ours is never rounded up.

    >>> _text(Cell("", "", "0.5", 50.19, 51.0, "global", "global")), _text(Cell("", "", "ACR", 0.7226, None, "", ""))
    ('50.1 / 51 (−0.8)', '0.722')
    """
    digits = 1 if is_share(cell.column) else 4 if cell.column == "score" else 3
    ours = NOT_RUN if cell.ours is None else round_down(cell.ours, digits)
    if cell.published is None:
        return ours
    change = "" if cell.difference is None else f" ({cell.difference:+.{digits}f})".replace("-", "−")
    return f"{ours} / {cell.published:g}{change}"
