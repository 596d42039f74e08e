"""Curves as pictures: one style, colours safe for the colour-blind, the soundness label in legend and line style."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from smoothcert.certificates import Soundness
from smoothcert.maths import FloatArray
from smoothcert.metrics import distributions
from smoothcert.metrics.bands import CONFIDENCE, accuracy_band
from smoothcert.metrics.curves import certified_accuracy, counts, echoes, votes_of
from smoothcert.records.record import Record
from smoothcert.report.runs import Line, measure_of

# Okabe and Ito (2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
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


class Shown(Figure):
    """A figure that a notebook shows, without pyplot."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=100)
        return stream.getvalue()


def draw_all(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Every figure of a report as PNG and SVG: curves, proxy radii where they differ, p_A, factors, votes."""
    figures: dict[str, Callable[[Sequence[Line]], Figure]] = {"curve": curves}
    if any(record.proxy_radius != record.radius for line in lines for record in line.records):
        figures["curve-proxy"] = proxy_curves
    figures |= {"p_a": probabilities, "factors": factors, "votes": votes}
    with matplotlib.rc_context(STYLE):
        drawn = {name: draw(lines) for name, draw in figures.items()}
        return [_saved(figure, folder / f"{name}.{kind}") for name, figure in drawn.items() for kind in ("png", "svg")]


def curve_figure(lines: Sequence[Line]) -> Shown:
    """The curves, in the style of a report."""
    with matplotlib.rc_context(STYLE):
        return curves(lines)


def curves(lines: Sequence[Line], kind: str = "radius") -> Shown:
    """Certified accuracy against radius, one line per run and label; one panel per norm, since radii do not compare."""
    norms = sorted({line.records[0].against for line in lines})
    figure, panels = figure_of(len(norms), sharey=True)
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
            panel.plot(at, 100 * shares, "o", markersize=4, markerfacecolor="white", color=style["color"], zorder=3)
        panel.set(xlabel=f"{kind} ({measure})", ylim=(0, 102), title=norm)
        panel.set_xlim(left=0)
        if any(counts(record) and echoes(record) for line in lines for record in line.records):
            panel.plot(
                [], [], "o", markersize=4, markerfacecolor="white", color="grey", label="echoes: any input gets it"
            )
        panel.legend(fontsize=9)
    panels[0].set_ylabel(f"certified accuracy (%), {100 * CONFIDENCE:g} % band")
    return figure


def proxy_curves(lines: Sequence[Line]) -> Figure:
    """The same against the proxy radius, that of the ball of the region's volume."""
    return curves([replace(line, records=with_proxy(line.records)) for line in lines], "proxy radius")


def with_proxy(records: Iterable[Record]) -> tuple[Record, ...]:
    """The records with the proxy radius in the place of the radius."""
    return tuple(replace(record, radius=record.proxy_radius) for record in records)


def probabilities(lines: Sequence[Line]) -> Figure:
    """The share of inputs whose bound on p_A is at most so much."""
    figure, (panel,) = figure_of(1)
    for position, line in enumerate(lines):
        chances = distributions.probabilities(line.records)
        if len(chances):
            shares = 100 * distributions.ecdf(chances, chances)
            panel.step([0.0, *chances, 1.0], [0.0, *shares, 100.0], where="post", **_style(line, position))
    panel.set(xlabel="lower bound of p_A", ylabel="inputs at or below (%)", xlim=(0, 1), ylim=(0, 102))
    _legend(panel)
    return figure


def factors(lines: Sequence[Line]) -> Figure:
    """Histograms of the two factors of a radius, with their medians (Eiras et al. 2022, Figure 5)."""
    figure, (left, right) = figure_of(2)
    _histograms(left, lines, lambda line: map(distributions.sigma_factor, line.records))
    _histograms(right, lines, lambda line: map(distributions.gap, line.records))
    left.set(xlabel="σ-factor: smallest scale of the noise (input units)", ylabel="certified inputs")
    right.set(xlabel="gap: radius in units of the noise")
    _legend(left)
    return figure


def votes(lines: Sequence[Line]) -> Figure:
    """How many noisy copies each input took."""
    figure, (panel,) = figure_of(1)
    _histograms(panel, lines, lambda line: map(votes_of, line.records))
    panel.set(xlabel="votes per input", ylabel="inputs")
    _legend(panel)
    return figure


def steps(line: Line) -> tuple[FloatArray, FloatArray]:
    """Every radius at which the curve falls, and the share certified at it."""
    radii = np.unique([0.0, *(record.radius for record in line.records)])
    return np.append(radii, radii[-1]), np.append(certified_accuracy(line.records, radii.tolist()), 0.0)


def hollow(records: Sequence[Record]) -> tuple[FloatArray, FloatArray]:
    """Where a curve falls by certificates that echo, and the share certified there."""
    radii = np.unique([record.radius for record in records if counts(record) and echoes(record)])
    return radii, certified_accuracy(records, radii.tolist())


def _histograms(panel: Axes, lines: Sequence[Line], values_of: Callable[[Line], Iterable[float | None]]) -> None:
    """One outline per line on common bins, and a vertical line at its median."""
    found = [[value for value in values_of(line) if value is not None] for line in lines]
    edges = distributions.bin_edges([value for own in found for value in own])
    for position, (line, own) in enumerate(zip(lines, found, strict=True)):
        if own:
            style = _style(line, position)
            panel.hist(own, bins=edges.tolist(), histtype="stepfilled", alpha=0.15, color=style["color"])
            panel.hist(own, bins=edges.tolist(), histtype="step", **style)
            panel.axvline(float(np.median(own)), color=style["color"], linestyle=":", linewidth=1)


def _style(line: Line, position: int) -> dict[str, Any]:
    colour = COLOURS[position % len(COLOURS)]
    return {"color": colour, "linestyle": STYLES[line.soundness], "label": line.title}


def _legend(panel: Axes) -> None:
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=9)


def figure_of(panels: int, **options: Any) -> tuple[Shown, list[Axes]]:
    """An empty figure with so many panels side by side."""
    figure = Shown(figsize=(6.4 * panels, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(np.atleast_1d(figure.subplots(1, panels, **options)))


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path
