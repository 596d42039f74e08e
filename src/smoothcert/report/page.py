"""report.html: one file that opens from disk, with its data, pictures, style and charting library inside."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np

import smoothcert
from smoothcert.certificates import Soundness
from smoothcert.errors import without_passwords
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import percent_down, round_down
from smoothcert.metrics import distributions
from smoothcert.metrics.bands import CONFIDENCE, accuracy_band
from smoothcert.metrics.curves import certified_accuracy, votes_of
from smoothcert.records.record import Record
from smoothcert.report.fairness import MEANING, unfair
from smoothcert.report.figures import COLOURS, hollow, with_proxy
from smoothcert.report.pictures import pictures_of
from smoothcert.report.runs import Line, Run, measure_of
from smoothcert.report.tables import class_table, tables

POINTS = 400  # of a curve: beyond, it is drawn at evenly spaced radii, each step at its lower end
DASHES = {
    Soundness.GLOBAL: "",
    Soundness.MEMORY: "",
    Soundness.FROZEN: "6 4",
    Soundness.ESTIMATE: "2 3",
    Soundness.IMPORTED: "8 3 2 3",
}


def page(runs: Sequence[Run], radii: Sequence[float]) -> str:
    """The report of these runs as one HTML document."""
    return assembled(_text("template.html"), content(runs, radii))


def assembled(document: str, data: Any, **more: str) -> str:
    """A template with style, charting library, components, data and ``more`` in the places it marks for them."""
    parts = {
        "style": _text("style.css"),
        "libraries": _text("d3.min.js") + "\n" + _text("plot.min.js"),
        "components": _text("components.js"),
        **more,
        # A closing tag inside the data must not end the script that holds it.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/"),
    }
    for name, text in parts.items():
        document = document.replace(f"/*{name}*/", text, 1)
    return document


def content(runs: Sequence[Run], radii: Sequence[float]) -> dict[str, Any]:
    """All that the page shows, certified numbers rounded down."""
    lines = [line for run in runs for line in run.lines]
    return {
        "version": smoothcert.__version__,
        "confidence": CONFIDENCE,
        "warnings": unfair(runs),
        "labels": {
            label.value: MEANING[label] for label in Soundness if any(line.soundness is label for line in lines)
        },
        "lines": [line_of(line, position) for position, line in enumerate(lines)],
        "tables": [asdict(sheet) for sheet in tables(lines, radii)],
        "classes": [asdict(class_table(line, radii)) for line in lines if line.labelled],
        "pictures": pictures_of(runs),
        "runs": [run_of(run) for run in runs],
    }


def line_of(line: Line, position: int) -> dict[str, Any]:
    """What the page shows of one line."""
    records = line.records
    digits = digits_of(max(max(record.radius, record.proxy_radius) for record in records))
    chances = distributions.probabilities(records)
    points = _thinned(np.unique(chances))
    columns: dict[str, Sequence[int | float | None]] = {
        "index": [record.index for record in records],
        "truth": [record.truth for record in records],
        "label": [record.label for record in records],
        "radius": [_down(record.radius, digits) for record in records],
        "proxy": [_down(record.proxy_radius, digits) for record in records],
        "lower": [None if line.soundness is Soundness.IMPORTED else _down(record.lower, 5) for record in records],
        "sigma": [_down(distributions.sigma_factor(record), 4) for record in records],
        "gap": [_down(distributions.gap(record), digits) for record in records],
        "echo": [record.echo for record in records],
        "votes": [votes_of(record) for record in records],
        "seconds": [float(f"{seconds:.3g}") for seconds in line.seconds],
    }
    return {
        "run": line.name,
        "title": line.title,
        "soundness": line.soundness.value,
        "norm": records[0].against,
        "measure": measure_of(records[0]),
        "colour": COLOURS[position % len(COLOURS)],
        "dash": DASHES[line.soundness],
        "labelled": line.labelled,
        "digits": digits,
        "curves": {"radius": _curve(records), "proxy": _curve(with_proxy(records))},
        "ecdf": {"x": [_down(x, 5) for x in points], "y": distributions.ecdf(chances, points).round(5).tolist()},
        # A column of one value is sent as that value.
        "columns": {name: values[0] if len(set(values)) == 1 else list(values) for name, values in columns.items()},
        "inputs": len(records),
    }


def _curve(records: Sequence[Record]) -> dict[str, Any]:
    """Certified accuracy in percent, rounded down, at each radius, with its band rounded outwards; echoes are marked."""
    radii = np.unique([0.0, *(record.radius for record in records)])
    end = float(radii[-1])
    radii = _thinned(radii)
    accuracy = certified_accuracy(records, radii.tolist())
    low, high = accuracy_band(records, radii.tolist())
    marked, shares = hollow(records)
    few = np.unique(np.linspace(0, len(marked) - 1, min(POINTS, len(marked))).astype(int))
    return {
        "marked": {"x": marked[few].tolist(), "y": [_down(100 * share, 2) or 0.0 for share in shares[few]]},
        "x": [*radii.tolist(), end],
        "y": [*(float(percent_down(share, 2)) for share in accuracy), 0.0],
        "low": [*(float(percent_down(share, 2)) for share in low), 0.0],
        "high": [*(-float(percent_down(-share, 2)) for share in high), 0.0],
    }


def _thinned(points: FloatArray) -> FloatArray:
    """At most POINTS of them, evenly spaced in value, with both ends."""
    return points if len(points) <= POINTS else np.linspace(points[0], points[-1], POINTS)


def _down(value: float | None, digits: int) -> float | None:
    return None if value is None or math.isnan(value) else float(round_down(value, digits))


def digits_of(largest: float) -> int:
    """Decimals that show four digits of the largest radius; 20 at most, which no radius of use needs."""
    return min(20, max(3, 3 - math.floor(math.log10(largest)))) if 0 < largest < math.inf else 3


def run_of(run: Run) -> dict[str, Any]:
    """How a run was made."""
    notes = run.facts.get("notes", {})
    return {
        "name": run.name,
        "directory": without_passwords(str(run.place)),
        "command": notes.get("command", ""),
        "settings": notes.get("settings", ""),
        "configuration": {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in run.facts.get("configuration", {}).items()
        },
        "inputs": len(run.indices),
        "subset": len(run.facts.get("subset", [])),
        "classes": run.facts.get("classes"),
        "shape": run.facts.get("shape"),
    }


def _text(name: str) -> str:
    return files("smoothcert.report").joinpath("page", name).read_text(encoding="utf-8")
