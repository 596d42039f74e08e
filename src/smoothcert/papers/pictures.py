"""The figure of an entry as PNG: certified accuracy against radius, or histograms of what a radius is made of."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from smoothcert.papers.catalogue import Entry
from smoothcert.papers.measures import Group, steps_of
from smoothcert.papers.planning import Block
from smoothcert.records.record import Record
from smoothcert.report.figures import COLOURS, STYLE, STYLES, factors, with_proxy

Curves = list[tuple[str, Any, Sequence[Sequence[Record]]]]  # a line's words, its style, its runs
WIDE = 4  # panels beside each other


def drawn(entry: Entry, blocks: Sequence[Block], groups: Sequence[Mapping[tuple[str, str], Group]]) -> bytes | None:
    """The picture of a figure; None of a table, which has none."""
    if entry.draw is None:
        return None
    with matplotlib.rc_context(STYLE):
        if entry.draw.get("factors"):
            lines = [line for own in groups for group in own.values() for run in group.runs for line in run.lines]
            return _png(factors(lines))
        panels = [panel for block, own in zip(blocks, groups, strict=True) for panel in _panels(entry, block, own)]
        return _png(_figure(panels))


def _panels(entry: Entry, block: Block, groups: Mapping[tuple[str, str], Group]) -> Iterator[tuple[str, str, Curves]]:
    """Title, axis and lines of every panel: per sigma, and then, or only, the envelope; of each kind of radius."""
    assert entry.draw is not None
    trainings = dict.fromkeys(row.training.title.partition(",")[0] for row in block.part.rows)
    for kind in entry.draw.get("kinds", ["radius"]):
        for training in trainings:
            rows = [row for row in block.part.rows if row.training.title.partition(",")[0] == training]
            own = [(row, groups[key]) for row in rows if (key := (row.training.name, row.method.name)) in groups]
            sigmas = [run.sigma for run in next(iter(block.runs.values()))] if own else []
            choices = [*([[at] for at in range(len(sigmas))] if entry.draw.get("per_sigma") else [])]
            if len(sigmas) > 1 or not choices:
                choices.append(list(range(len(sigmas))))
            for chosen in choices if own else []:
                what = f"sigma {sigmas[chosen[0]]:g}" if len(chosen) == 1 else f"best of {len(chosen)} sigmas"
                lines: Curves = []
                for row, group in own:
                    records = [group.records[at] for at in chosen]
                    shown = records if kind == "radius" else [with_proxy(each) for each in records]
                    # What tells two rows of one panel apart: the method, and whatever is said of the training.
                    more = row.training.title.partition(",")[2]
                    words = f"{row.method.title}{more and ','}{more} [{group.label.value}]"
                    lines.append((words, STYLES[group.label], shown))
                axis = f"l{block.part.norm:g} {kind} (input units)"
                yield f"{block.part.data}, {training}, {what}", axis, lines


def _figure(panels: Sequence[tuple[str, str, Curves]]) -> Figure:
    rows, columns = math.ceil(len(panels) / WIDE), min(len(panels), WIDE)
    figure = Figure(figsize=(4.2 * columns, 3.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = np.atleast_1d(figure.subplots(rows, columns, sharey=True, squeeze=False)).flatten()
    for place in grid[len(panels) :]:
        place.set_axis_off()
    for place, (title, axis, lines) in zip(grid, panels, strict=False):
        for number, (words, style, records) in enumerate(lines):
            place.step(*steps_of(records), where="pre", color=COLOURS[number], linestyle=style, label=words)
        place.set_title(title, fontsize=10)
        place.set(xlabel=axis, ylim=(0, 102))
        place.set_xlim(left=0)
        place.legend(fontsize=8)
    for first in grid[::columns]:
        first.set_ylabel("certified accuracy (%)")
    return figure


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=120)
    return stream.getvalue()
