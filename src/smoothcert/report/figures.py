"""Curves as pictures: one style, colours safe for the colour-blind, the soundness label in legend and line style."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from smoothcert.certificates import Soundness
from smoothcert.maths import FloatArray
from smoothcert.metrics import distributions
from smoothcert.metrics.bands import CONFIDENCE, accuracy_band
from smoothcert.metrics.curves import certified_accuracy, counts, echoes, votes_of
from smoothcert.records.record import Record
from smoothcert.report.runs import Line, measure_of

# After Okabe and Ito (2008), each at least 4.5 to 1 against white; the page's style sheet has the same, and others when dark.
COLOURS = ("#0072B2", "#C65100", "#00795A", "#B5438F", "#7A5C00", "#333333", "#6A3D9A", "#0B7F91")
DASHES = (
    "",
    "8 4",
    "2 3",
    "10 3 2 3",
    "16 4",
    "5 2",
    "10 3 2 3 2 3",
    "1 2",
)  # of a report's runs, on the page and in files
STYLES = {
    Soundness.GLOBAL: "-",
    Soundness.MEMORY: "-",
    Soundness.FROZEN: "--",
    Soundness.ESTIMATE: ":",
    Soundness.IMPORTED: "-.",
}
STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.hashsalt": "smoothcert",  # the same picture is the same file
}
COLUMN: Any = {
    "font.size": 8,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}
WIDTH, HEIGHT = 3.35, 2.5  # inches: a column of a paper in two columns
KINDS = {
    "png": None,
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}  # what would make the same figure another file


def dash_of(position: int) -> str:
    """The dashes of a run by its place, in units of the line's width; no two of 64 runs share colour and dashes."""
    return DASHES[(position + position // len(COLOURS)) % len(DASHES)]


class Shown(Figure):
    """A figure that a notebook shows, without pyplot."""

    def _repr_png_(self) -> bytes:
        return bytes_of(self, dpi=180)


def bytes_of(figure: Figure, kind: str = "png", dpi: int = 150) -> bytes:
    """The figure as a file: the same one for the same figure."""
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=dpi, metadata=KINDS[kind])
    return stream.getvalue()


def draw_all(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Every figure of a report as PNG, SVG and PDF, a panel as wide as a column of a paper: curves, proxy radii where they differ, p_A, factors, votes."""
    figures: dict[str, Callable[[Sequence[Line]], Figure]] = {"curve": curves}
    if any(record.extent != record.radius for line in lines for record in line.records):
        figures["curve-proxy"] = proxy_curves
    figures |= {"p_a": probabilities, "factors": factors, "votes": votes}
    with matplotlib.rc_context(STYLE | COLUMN):
        drawn = {name: _laid_out(draw(lines)) for name, draw in figures.items()}
        return [_saved(figure, folder / f"{name}.{kind}") for name, figure in drawn.items() for kind in KINDS]


def curve_figure(lines: Sequence[Line]) -> Shown:
    """The curves, in the style of a report."""
    with matplotlib.rc_context(STYLE | COLUMN):
        return curves(lines)


def curves(lines: Sequence[Line], kind: str = "radius") -> Shown:
    """Certified accuracy against radius, one line per run and label; one panel per norm, since radii do not compare."""
    norms = sorted({line.records[0].against for line in lines})
    figure, panels = figure_of(len(norms), WIDTH, HEIGHT, sharey=True)
    for panel, norm in zip(panels, norms, strict=True):
        for position, line in enumerate(lines):
            if line.records[0].against != norm:
                continue
            measure = measure_of(line.records[0])
            style = _style(line, position)
            radii, accuracy = steps(line)
            low, high = accuracy_band(line.records, radii[:-1].tolist())
            band: Any = {"step": "pre", "color": style["color"], "alpha": 0.15, "linewidth": 0}
            panel.fill_between(radii[:-1], 100 * low, 100 * high, **band)
            panel.step(radii, 100 * accuracy, where="pre", **style)
            at, shares = hollow(line.records)
            panel.plot(at, 100 * shares, "o", markersize=3, markerfacecolor="white", color=style["color"], zorder=3)
        panel.set(xlabel=f"{kind} ({measure})", ylim=(0, 102), title=norm)
        panel.set_xlim(left=0)
        if any(counts(record) and echoes(record) for line in lines for record in line.records):
            panel.plot(
                [], [], "o", markersize=3, markerfacecolor="white", color="grey", label="echoes: any input gets it"
            )
        _legend(panel)
    panels[0].set_ylabel(f"certified accuracy (%)\nwith {100 * CONFIDENCE:g} % band")
    return figure


def proxy_curves(lines: Sequence[Line]) -> Figure:
    """The same against the proxy radius, that of the ball of the region's volume."""
    return curves([replace(line, records=with_proxy(line.records)) for line in lines], "proxy radius")


def with_proxy(records: Iterable[Record]) -> tuple[Record, ...]:
    """The records with the proxy radius in the place of the radius; 0 where there is none."""
    return tuple(replace(record, radius=record.proxy_radius or 0.0) for record in records)


def probabilities(lines: Sequence[Line]) -> Figure:
    """The share of inputs whose bound on p_A is at most so much, on an axis of log(1 - p_A)."""
    figure, (panel,) = figure_of(1, WIDTH, HEIGHT)
    chances = [distributions.probabilities(line.records) for line in lines]
    least = min((1 - own[own < 1].max() for own in chances if len(own[own < 1])), default=0.1) / 1.5
    for position, (line, own) in enumerate(zip(lines, chances, strict=True)):
        if len(own):
            shares = 100 * distributions.ecdf(own, own)
            misses = np.maximum(1 - own, least)
            panel.step([1.0, *misses, least], [0.0, *shares, 100.0], where="post", **_style(line, position))
    panel.set(xlabel="lower bound of $p_A$", ylabel="inputs at or below (%)", ylim=(0, 102), xscale="log")
    panel.set_xlim(1.0, least)
    panel.xaxis.set_major_formatter(lambda miss, _: f"{1 - miss:.{max(0, round(-math.log10(miss)))}f}")
    panel.xaxis.set_minor_locator(NullLocator())
    _legend(panel)
    return figure


def factors(lines: Sequence[Line]) -> Figure:
    """Histograms of the two factors of a radius, with their medians (Eiras et al. 2022, Figure 5)."""
    sigma = _multiples(lines, lambda line: map(distributions.sigma_factor, line.records))
    gaps = _multiples(lines, lambda line: map(distributions.gap, line.records))
    return _stacked(lines, [(sigma, "σ-factor (input units)"), (gaps, "gap (units of the noise)")], "certified inputs")


def votes(lines: Sequence[Line]) -> Figure:
    """How many noisy copies each input took."""
    own = _multiples(lines, lambda line: map(votes_of, line.records))
    return _stacked(lines, [(own, "votes per input")], "inputs")


def steps(line: Line) -> tuple[FloatArray, FloatArray]:
    """Every radius at which the curve falls, and the share certified at it."""
    radii = np.unique([0.0, *(record.radius for record in line.records)])
    return np.append(radii, radii[-1]), np.append(certified_accuracy(line.records, radii.tolist()), 0.0)


def hollow(records: Sequence[Record]) -> tuple[FloatArray, FloatArray]:
    """Where a curve falls by certificates that echo, and the share certified there."""
    radii = np.unique([record.radius for record in records if counts(record) and echoes(record)])
    return radii, certified_accuracy(records, radii.tolist())


def _multiples(
    lines: Sequence[Line], values_of: Callable[[Line], Iterable[float | None]]
) -> tuple[list[list[float]], FloatArray]:
    """The values of each line, and edges that hold all of them."""
    found = [[value for value in values_of(line) if value is not None] for line in lines]
    return found, distributions.bin_edges([value for own in found for value in own])


def _stacked(
    lines: Sequence[Line], columns: Sequence[tuple[tuple[list[list[float]], FloatArray], str]], what: str
) -> Figure:
    """A histogram per line, one above the other on common bins, with a dotted line at the median; a column per quantity."""
    size = (WIDTH * len(columns), 0.9 + 0.75 * len(lines))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(lines), len(columns), sharex="col", squeeze=False)
    for column, ((found, edges), label) in enumerate(columns):
        for position, (line, own) in enumerate(zip(lines, found, strict=True)):
            panel, colour = grid[position, column], COLOURS[position % len(COLOURS)]
            panel.set_title(line.title, fontsize=7, loc="left", color=colour, pad=2)
            if own:
                panel.hist(own, bins=edges.tolist(), color=colour, alpha=0.75)
                panel.axvline(float(np.median(own)), color="black", linestyle=":", linewidth=1)
        grid[-1, column].set_xlabel(label)
    figure.supylabel(what, fontsize=8)
    return figure


def _style(line: Line, position: int) -> dict[str, Any]:
    dashes = [float(part) / 1.5 for part in dash_of(position).split()]
    colour = COLOURS[position % len(COLOURS)]
    return {"color": colour, "linestyle": (0, dashes) if dashes else "-", "label": line.title}


def _legend(panel: Axes) -> None:
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=6.5, handlelength=3)


def figure_of(panels: int, width: float = 6.4, height: float = 4.4, **options: Any) -> tuple[Shown, list[Axes]]:
    """An empty figure with so many panels side by side, each as wide and high in inches."""
    figure = Shown(figsize=(width * panels, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, panels, **options)))


def _laid_out(figure: Figure) -> Figure:
    """The figure with its layout settled once, and not for every kind of file."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=200, metadata=KINDS[path.suffix[1:]])
    return path
