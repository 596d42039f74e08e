"""Curves as pictures: one style, colours safe for the colour-blind, the soundness label in legend and line style."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from smoothcert.certificates import Soundness
from smoothcert.maths import FloatArray
from smoothcert.metrics.curves import certified_accuracy
from smoothcert.report.runs import Line

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
}


def draw_curves(lines: Sequence[Line], path: Path) -> Path:
    """Certified accuracy against radius, one line per run and label; one panel per norm, since radii do not compare."""
    norms = sorted({line.records[0].norm for line in lines})
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4 * len(norms), 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        for panel, norm in zip(np.atleast_1d(figure.subplots(1, len(norms), sharey=True)), norms, strict=True):
            for position, line in enumerate(lines):
                if line.records[0].norm != norm:
                    continue
                colour = COLOURS[position % len(COLOURS)]
                radii, accuracy = steps(line)
                label = f"{line.name}: {line.noise} [{line.soundness.value}]"
                panel.step(
                    radii, 100 * accuracy, where="pre", color=colour, linestyle=STYLES[line.soundness], label=label
                )
            panel.set(xlabel=f"radius (l{norm:g} distance in input units)", ylim=(0, 102), title=f"l{norm:g}")
            panel.set_xlim(left=0)
            panel.legend(fontsize=9)
        figure.axes[0].set_ylabel("certified accuracy (%)")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return path


def steps(line: Line) -> tuple[FloatArray, FloatArray]:
    """Every radius at which the curve falls, and the share certified at it."""
    radii = np.unique([0.0, *(record.radius for record in line.records)])
    return np.append(radii, radii[-1]), np.append(certified_accuracy(line.records, radii.tolist()), 0.0)
