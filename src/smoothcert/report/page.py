"""report.html: one file that opens from disk, with its data, pictures, style and charting library inside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

import smoothcert
from smoothcert.certificates import Soundness
from smoothcert.errors import without_passwords
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import digits_of, percent_down, round_down
from smoothcert.metrics import distributions
from smoothcert.metrics.bands import CONFIDENCE, accuracy_band
from smoothcert.metrics.curves import average_certified_radius, certified_accuracy, echoes, votes_of
from smoothcert.records.record import Record
from smoothcert.report.about import about, class_names
from smoothcert.report.attacks import attack_summary
from smoothcert.report.document import document
from smoothcert.report.fairness import MEANING, unfair
from smoothcert.report.figures import dash_of, hollow, with_proxy
from smoothcert.report.marks import Mark, Marks
from smoothcert.report.pictures import pictures_of
from smoothcert.report.runs import Line, Run, measure_of
from smoothcert.report.strips import strips_of
from smoothcert.report.tables import class_table, summary, tables

POINTS = 400  # of a curve: beyond, it is drawn at evenly spaced radii, each step at its lower end
STEPS = 200  # about so many round radii at which the cross-hair stops
NOTHING = np.zeros(0)


def page(runs: Sequence[Run], radii: Sequence[float]) -> str:
    """The report of these runs as one HTML document."""
    return document(
        content(runs, radii),
        title="Certified robustness: a report of smoothcert",
        heading="Certified robustness",
        start="Smoothcert.report",
        silent="This page draws its charts with JavaScript, which is switched off; the same figures and tables lie beside it as "
        "PNG, SVG, CSV and LaTeX files.",
    )


def content(runs: Sequence[Run], radii: Sequence[float]) -> dict[str, Any]:
    """All that the page shows, certified numbers rounded down."""
    lines = [line for run in runs for line in run.lines]
    marks = [Marks(run) for run in runs]
    found = [own.by_index for run, own in zip(runs, marks, strict=True) for _ in run.lines]
    grids = grids_of(lines, radii)
    return {
        "version": smoothcert.__version__,
        "confidence": CONFIDENCE,
        "about": about(runs),
        "class_names": class_names(runs),
        "warnings": [asdict(one) for one in unfair(runs)],
        "grids": grids,
        "labels": {
            label.value: MEANING[label] for label in Soundness if any(line.soundness is label for line in lines)
        },
        "lines": [
            line_of(line, position, grids[norm_of(line)], own)
            for position, (line, own) in enumerate(zip(lines, found, strict=True))
        ],
        "attacks": [row | {"run": run.name} for run, own in zip(runs, marks, strict=True) for row in attacked(own)],
        "strips": strips_of(runs, marks),
        "tables": [asdict(sheet) for sheet in tables(lines, radii)],
        "classes": [
            asdict(class_table(line, radii)) | {"line": position}
            for position, line in enumerate(lines)
            if line.labelled
        ],
        "pictures": pictures_of(runs),
        "runs": [run_of(run) for run in runs],
    }


def grids_of(lines: Sequence[Line], radii: Sequence[float]) -> dict[str, dict[str, Any]]:
    """For each norm the round radii at which the cross-hair stops, and the one at which it begins.

    They are whole multiples of a unit of the last digit that radii are shown with, so that a radius rounded down
    reaches one of them exactly if the radius does.
    """
    found = {}
    for norm in dict.fromkeys(map(norm_of, lines)):
        own = [line for line in lines if norm_of(line) == norm]
        largest = max((record.extent for line in own for record in line.records), default=0.0)
        largest = max(largest, max(record.radius for line in own for record in line.records))
        mean = np.mean([average_certified_radius(line.records) for line in own])
        allowed = [radius for radius in radii if 0 < radius <= largest] or [0.0]
        start = min(allowed, key=lambda radius: abs(radius - mean))
        step = _step(largest)
        number = math.ceil(largest / step) if step else 0
        found[norm] = {"step": step, "number": number, "start": round(start / step) if step else 0}
    return found


def _step(largest: float) -> float:
    """A round number of which about STEPS fit into the largest radius; 0 where nothing is certified."""
    if not 1e-300 < largest < math.inf:  # smaller ones are nothing to look at
        return 0.0
    magnitude = math.floor(math.log10(largest / STEPS)) + 1
    return next(
        float(f"{factor}e{magnitude - 1}")
        for factor in (1, 2, 5, 10)
        if factor * 10.0 ** (magnitude - 1) * STEPS >= largest
    )


def norm_of(line: Line) -> str:
    """The norm of a line's radii, or the threat of which they are sizes."""
    return line.records[0].against


def attacked(marks: Marks) -> list[dict[str, Any]]:
    """The summary of all findings about a run, a row per label and multiple of the radius."""
    return attack_summary([replace(finding, offset=NOTHING) for finding in marks.findings()])


def line_of(
    line: Line, position: int, grid: dict[str, Any] | None = None, marks: Mapping[int, Mark] | None = None
) -> dict[str, Any]:
    """What the page shows of one line; ``grid``: the radii of the cross-hair."""
    records, marks = line.records, marks or {}
    digits = digits_of(max(max(record.radius, record.extent) for record in records))
    chances = distributions.probabilities(records)
    points = _some(np.unique(chances))
    stops = [] if grid is None else [float(f"{grid['step'] * k:.12g}") for k in range(grid["number"] + 1)]
    numbers = summary(line, [])
    columns: dict[str, Sequence[int | float | None]] = {
        "index": [record.index for record in records],
        "truth": [record.truth for record in records],
        "label": [record.label for record in records],
        "radius": [_down(record.radius, digits) for record in records],
        "proxy": [_down(record.proxy_radius, digits) for record in records],
        "boxed": [_down(record.boxed_proxy_radius, digits) for record in records],
        "lower": [None if line.soundness is Soundness.IMPORTED else _down(record.lower, 5) for record in records],
        "sigma": [_down(distributions.sigma_factor(record), 4) for record in records],
        "gap": [_down(distributions.gap(record), digits) for record in records],
        "echo": [record.echo for record in records],
        "broken": [_distance(marks.get(record.index)) for record in records],
        "tried": [marks[record.index].tried if record.index in marks else None for record in records],
        "votes": [votes_of(record) for record in records],
        "seconds": [float(f"{seconds:.3g}") for seconds in line.seconds],
    }
    return {
        "run": line.name,
        "title": line.title,
        "soundness": line.soundness.value,
        "norm": norm_of(line),
        "measure": measure_of(records[0]),
        "position": position,
        "dash": dash_of(position),
        "labelled": line.labelled,
        "digits": digits,
        "headline": {
            "acr": round_down(numbers["average_certified_radius"]),
            "quiet": None if not numbers["echoing"] else round_down(numbers["average_certified_radius_without_echoes"]),
            "echoing": numbers["echoing"],
            "certificates": numbers["certificates"],
            "votes": round(numbers["votes_per_input"]),
            "seconds": float(f"{numbers['seconds_per_input']:.3g}"),
        },
        "curves": {"radius": _curve(records, stops), "proxy": _curve(with_proxy(records), stops)},
        # 1 - p_A, rounded up: p_A is never shown larger than it is.
        "ecdf": {"x": [_up(1 - x) for x in points], "y": distributions.ecdf(chances, points).round(5).tolist()},
        # A column of one value is sent as that value.
        "columns": {name: values[0] if len(set(values)) == 1 else list(values) for name, values in columns.items()},
        "inputs": len(records),
    }


def _curve(records: Sequence[Record], stops: Sequence[float]) -> dict[str, Any]:
    """Certified accuracy in percent, rounded down, at each radius, with its band rounded outwards; echoes are marked.

    ``at``: the same at the stops of the cross-hair; ``quiet``: without the certificates that echo, if any does.
    """
    found = _steps(records)
    marked, shares = hollow(records)
    few = _some(np.arange(len(marked)))
    quiet = [replace(record, label=None, radius=0.0) if echoes(record) else record for record in records]
    return found | {
        "marked": {"x": marked[few].tolist(), "y": [_down(100 * share, 2) or 0.0 for share in shares[few]]},
        "at": _shares(records, stops),
        "quiet": {**_steps(quiet), "at": _shares(quiet, stops)} if len(marked) else None,
    }


def _steps(records: Sequence[Record]) -> dict[str, list[float]]:
    """A curve at every radius where it falls, down to zero at the last."""
    radii = np.unique([0.0, *(record.radius for record in records)])
    end = float(radii[-1])
    radii = _thinned(radii)
    shares = _shares(records, radii.tolist())
    return {"x": [*radii.tolist(), end], **{name: [*values, 0.0] for name, values in shares.items()}}


def _shares(records: Sequence[Record], radii: Sequence[float]) -> dict[str, list[float]]:
    low, high = accuracy_band(records, radii)
    return {
        "y": [float(percent_down(share, 2)) for share in certified_accuracy(records, radii)],
        "low": [float(percent_down(share, 2)) for share in low],
        "high": [-float(percent_down(-share, 2)) for share in high],
    }


def _thinned(points: FloatArray) -> FloatArray:
    """At most POINTS of them, evenly spaced in value, with both ends."""
    return points if len(points) <= POINTS else np.linspace(points[0], points[-1], POINTS)


def _some(values: Any) -> Any:
    """At most POINTS of them, evenly spaced in order, with both ends."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))]


def _up(miss: float) -> float:
    """A probability with four digits, not below it."""
    text = float(f"{miss:.3e}")
    return text if text >= miss else float(f"{miss * (1 + 1e-3):.3e}")


def _distance(mark: Mark | None) -> float | None:
    return None if mark is None or mark.broken is None else float(f"{mark.broken:.3g}")


def _down(value: float | None, digits: int) -> float | None:
    return None if value is None or math.isnan(value) else float(round_down(value, digits))


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
