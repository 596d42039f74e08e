"""The smallest and the largest regions as pictures: the input led along the direction that attacks found worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smoothcert.maths import FloatArray
from smoothcert.metrics.curves import counts
from smoothcert.records.findings import Finding
from smoothcert.records.record import Record
from smoothcert.report.marks import Marks, rank
from smoothcert.report.pictures import uri
from smoothcert.report.runs import Run
from smoothcert.store import ResultStore, open_run
from smoothcert.store.pictures import Picture, picture_of

STEPS = (0.0, 0.5, 1.0, 1.5)  # multiples of the certified radius
NUMBER = 3  # of the smallest regions of a run, and of the largest
BUDGET = 800_000  # characters of all strips in a page


def strips_of(runs: Sequence[Run], marks: Sequence[Marks]) -> list[dict[str, Any]]:
    """A strip per input: ``run``, ``index``, ``which``, ``frames`` (one without findings), ``words``; fewer when they are large."""
    found = [strip for run, own in zip(runs, marks, strict=True) for strip in _of_run(run, own)]
    led = [strip for strip in found if len(strip["frames"]) > 1]
    found = led or found  # beside strips a lone picture says nothing
    sizes = np.cumsum([sum(map(len, strip["frames"])) for strip in found])
    return found[: int(np.searchsorted(sizes, BUDGET, side="right"))]


def _of_run(run: Run, marks: Marks) -> list[dict[str, Any]]:
    """Those of the inputs that count, have a picture and, if any was attacked, were attacked."""
    with open_run(run.place) as store:
        pictured = set(store.pictured())
        known = [r for line in run.lines for r in line.records if counts(r) and r.radius > 0 and r.index in pictured]
        attacked = [record for record in known if record.index in marks.by_index]
        chosen = _extremes(attacked or known)
        worst = _worst(marks, {record.index for record, _ in chosen}) if attacked else {}
        return [_strip(run, store, record, which, worst.get(record.index)) for record, which in chosen]


def _extremes(records: Sequence[Record]) -> list[tuple[Record, str]]:
    ordered = sorted(records, key=lambda record: (record.extent, record.index))
    number = min(NUMBER, len(ordered) // 2)
    largest = [(record, "largest") for record in reversed(ordered[len(ordered) - number :])]
    return [(record, "smallest") for record in ordered[:number]] + largest


def _worst(marks: Marks, indices: set[int]) -> dict[int, Finding]:
    """For each of these inputs the nearest violation, or else the finding of the smallest margin."""
    worst: dict[int, Finding] = {}
    for finding in marks.findings():
        if finding.index in indices and finding.worst.gauge > 0:
            worst[finding.index] = min(worst.get(finding.index, finding), finding, key=rank)
    return worst


def _strip(run: Run, store: ResultStore, record: Record, which: str, finding: Finding | None) -> dict[str, Any]:
    base = store.picture(record.index)
    frames = [uri(base)] if finding is None else _frames(base, record, finding, run.facts["shape"])
    words = "" if finding is None else _words(record, finding)
    return {"run": run.name, "index": record.index, "which": which, "frames": frames, "words": words}


def _frames(base: Picture, record: Record, finding: Finding, shape: Sequence[int]) -> list[str]:
    edge = finding.offset.reshape(shape) * (record.region_radius / finding.worst.gauge)
    moved = picture_of(edge)
    assert moved is not None  # the input itself was a picture, so what moves it is one
    start, move = _values(base), _values(moved)
    return [uri(_pictured(start + step * move, base)) for step in STEPS]


def _values(picture: Picture) -> FloatArray:
    return np.asarray(picture.low + (picture.high - picture.low) * picture.pixels / 255)


def _pictured(values: FloatArray, base: Picture) -> Picture:
    """In the range of the input's own picture, beyond which values are clipped for the eye."""
    part = (values - base.low) / (base.high - base.low if base.high > base.low else 1.0)
    return Picture(np.rint(255 * part).clip(0, 255).astype(np.uint8), base.low, base.high)


def _words(record: Record, finding: Finding) -> str:
    worst = finding.worst
    place = worst.gauge / record.region_radius
    if finding.violated:
        return f"another answer, class {worst.rival}, at {place:.2f} r"
    if worst.votes == 0:
        return f"held up to {finding.times:g} r: the memory answers with the label"
    return f"held up to {finding.times:g} r, where the label leads class {worst.rival} by {worst.margin:.2f} at the worst point"
