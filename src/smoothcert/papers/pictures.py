"""The figure of an entry as PNG: certified accuracy against radius, or histograms of what a radius is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from smoothcert.metrics.score import envelope
from smoothcert.papers.catalogue import Entry
from smoothcert.papers.measures import Group, Records, proxied
from smoothcert.papers.planning import Block
from smoothcert.report.figures import COLOURS, STYLE, STYLES, bytes_of, factors

Groups = Mapping[tuple[str, str], Group]
Panel = tuple[str, str, list[tuple[str, str, Records]]]  # title, axis, and of each line its words, style and records
WIDE = 4  # panels beside each other


def drawn(entry: Entry, blocks: Sequence[Block], groups: Sequence[Groups]) -> bytes | None:
    """The picture of a figure; None of a table, which has none."""
    if entry.draw is None:
        return None
    with matplotlib.rc_context(STYLE):
        if entry.draw.get("factors"):
            runs = [run for own in groups for group in own.values() for run in group.runs]
            figure = factors([line for run in runs for line in run.lines])
        else:
            per_sigma, kinds = entry.draw.get("per_sigma", False), entry.draw.get("kinds", ["radius"])
            pairs = list(zip(blocks, groups, strict=True))
            figure = _figure([p for kind in kinds for pair in pairs for p in _panels(kind, per_sigma, *pair)])
        return bytes_of(figure, dpi=120)


def _panels(kind: str, per_sigma: bool, block: Block, groups: Groups) -> Iterator[Panel]:
    """For every family of trainings a panel per sigma if asked for, and one of the best of all sigmas."""
    families: dict[str, list[tuple[str, Group]]] = {}
    for row in block.part.rows:
        family, _, more = row.training.title.partition(", ")
        if (group := groups.get((row.training.name, row.method.name))) is not None:
            words = f"{', '.join(filter(None, (row.method.title, more)))} [{group.label.value}]"
            families.setdefault(family, []).append((words, group))
    sigmas = [run.sigma for run in next(iter(block.runs.values()), ())]
    choices = {f"sigma {sigma:g}": [at] for at, sigma in enumerate(sigmas)} if per_sigma else {}
    if len(sigmas) > 1 or not per_sigma:
        choices[f"best of {len(sigmas)} sigmas"] = list(range(len(sigmas)))
    for family, own in families.items():
        for words, chosen in choices.items():
            lines = []
            for name, group in own:
                records = [group.records[at] for at in chosen]
                lines.append((name, STYLES[group.label], records if kind == "radius" else proxied(records)))
            yield f"{block.part.data}, {family}, {words}", f"l{block.part.norm:g} {kind} (input units)", lines


def _figure(panels: Sequence[Panel]) -> Figure:
    rows, columns = math.ceil(len(panels) / WIDE), min(len(panels), WIDE)
    figure = Figure(figsize=(4.2 * columns, 3.6 * rows), layout="constrained")
    places = figure.subplots(rows, columns, sharey=True, squeeze=False).flatten()
    for place in places[len(panels) :]:
        place.set_axis_off()
    for place, (title, axis, lines) in zip(places, panels, strict=False):
        for number, (words, style, records) in enumerate(lines):
            radii = np.unique([0.0, *(record.radius for own in records for record in own)])
            heights = np.append(100 * envelope(records, radii.tolist()), 0.0)
            place.step(
                np.append(radii, radii[-1]), heights, where="pre", color=COLOURS[number], linestyle=style, label=words
            )
        place.set_title(title, fontsize=10)
        place.set(xlabel=axis, ylim=(0, 102))
        place.set_xlim(left=0)
        place.legend(fontsize=8)
    for first in places[::columns]:
        first.set_ylabel("certified accuracy (%)")
    return figure
