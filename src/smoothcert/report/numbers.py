"""The report of runs that certify numbers: a table by radius, and a picture of the intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from smoothcert.errors import RunError
from smoothcert.files import write_atomically
from smoothcert.maths.geometry import percent_down, round_up
from smoothcert.report.fairness import unfair
from smoothcert.report.figures import COLOURS, KINDS, STYLE, Shown, bytes_of, figure_of
from smoothcert.report.runs import Line, Run
from smoothcert.report.sheets import Sheet, to_csv, to_latex

HEADER = ("within", "mean width", "median width", "with an end", "target inside", "mean error, at most")
NOTE = (
    "within: the radius of the perturbation; 0: the median of the votes itself, an estimate; widths and errors rounded up, shares down; "
    "mean error: of the smoothed number from the target, at the worst perturbation"
)

MEANING = (
    "Wherever the input moves by at most a radius, the median of the model's answers under noise stays in that radius's interval: all "
    "intervals of an input together, except with probability alpha, and of the deployed model where the label is global."
)


def certifies_numbers(runs: Sequence[Run]) -> bool:
    """Do these runs hold intervals of numbers? Some with and some without do not go into one report."""
    kinds = {bool(record.intervals) for run in runs for record in run.records}
    if len(kinds) > 1:
        raise RunError("some of these runs certify numbers and some classes; report them apart")
    return True in kinds


def summary(line: Line) -> dict[str, Any]:
    """The numbers of one line, exact, for machines; a mean over infinite intervals is infinite."""
    records = line.records
    guesses = [abs(r.value - r.target) for r in records if r.value is not None and r.target is not None]
    rows = []
    for place, (radius, *_) in enumerate(records[0].intervals):
        own = [record.enclosures[place] for record in records]
        known = [(one, r.target) for one, r in zip(own, records, strict=True) if r.target is not None]
        rows.append(
            {
                "radius": radius,
                "mean_width": float(np.mean([one.width for one in own])),
                "median_width": float(np.median([one.width for one in own])),
                "finite": float(np.mean([math.isfinite(one.width) for one in own])),
                "target_inside": _mean([one.contains(target) for one, target in known]),
                "mean_error": _mean([one.farthest(target) for one, target in known]),
            }
        )
    return {
        "run": line.name,
        "label": line.soundness.value,
        "noise": line.noise,
        "norm": str(records[0].norm),
        "inputs": len(records),
        "alpha": records[0].alpha,
        "trials": records[0].trials,
        "seconds_per_input": sum(line.seconds) / len(line.seconds),
        "invalid_votes": sum(record.estimation_invalid[-1] for record in records),
        "error_of_estimate": _mean(guesses),
        "intervals": rows,
    }


def sheet(line: Line) -> Sheet:
    """The summary of one line as a table for people, a row per radius."""
    told = summary(line)
    rows: list[tuple[str, ...]] = [("0", "", "", "", "", _up(told["error_of_estimate"]))]
    for row in told["intervals"]:
        shares = [_share(row[name]) for name in ("finite", "target_inside")]
        widths = [_up(row[name]) for name in ("mean_width", "median_width")]
        rows.append((f"{row['radius']:g}", *widths, *shares, _up(row["mean_error"])))
    norm, alpha = line.records[0].against, line.records[0].alpha
    title = f"{line.name}, {line.noise}, {line.soundness.value}: intervals of {told['inputs']} inputs in {norm}, alpha {alpha:g} for all of an input, {told['trials']:,} votes"
    return Sheet(title, HEADER, tuple(rows), NOTE)


def interval_figure(lines: Sequence[Line]) -> Shown:
    """The intervals of every input, in the order of its number, a panel per line; darker bands for smaller radii."""
    with matplotlib.rc_context(STYLE):
        figure, panels = figure_of(len(lines), sharey=True)
        for panel, line in zip(panels, lines, strict=True):
            ordered = sorted(line.records, key=lambda record: record.value or 0.0)
            at = np.arange(len(ordered))
            for place in reversed(range(len(ordered[0].intervals))):
                ends = np.array([(r.enclosures[place].low, r.enclosures[place].high) for r in ordered])
                limits = np.nan_to_num(ends, posinf=np.nan, neginf=np.nan)
                words = f"within {ordered[0].intervals[place][0]:g}"
                panel.vlines(at, limits[:, 0], limits[:, 1], colors=COLOURS[place % len(COLOURS)], label=words)
            panel.plot(
                at, [_known(r.value) for r in ordered], ".", color="black", markersize=3, label="median of the votes"
            )
            panel.plot(at, [_known(r.target) for r in ordered], "x", color="grey", markersize=4, label="target")
            panel.set(xlabel="inputs, by their number", title=line.title)
            panel.legend(fontsize=8)
        panels[0].set_ylabel("number")
    return figure


def write_numbers(runs: Sequence[Run], out: Path) -> Path:
    """Write report.html, intervals.png, .svg and .pdf, a table per line and inputs.csv into a directory; the page's path."""
    lines = [line for run in runs for line in run.lines]
    out.mkdir(parents=True, exist_ok=True)
    sheets = [sheet(line) for line in lines]
    for number, each in enumerate(sheets, start=1):
        write_atomically(out / f"table-{number}.csv", to_csv(each.header, each.rows))
        write_atomically(out / f"table-{number}.tex", to_latex(each))
    with matplotlib.rc_context(STYLE):
        drawn = {kind: bytes_of(interval_figure(lines), kind, dpi=200) for kind in KINDS}
    for kind, picture in drawn.items():
        write_atomically(out / f"intervals.{kind}", picture)
    header = ("run", "soundness", "index", "target", "value", "radius", "low", "high")
    cells = [
        (line.name, line.soundness.value, record.index, record.target, record.value, *row)
        for line in lines
        for record in line.records
        for row in record.intervals
    ]
    write_atomically(out / "inputs.csv", to_csv(header, cells))
    write_atomically(out / "report.html", _page(runs, sheets, drawn["svg"].decode()).encode())
    return out / "report.html"


def _page(runs: Sequence[Run], sheets: Sequence[Sheet], picture: str) -> str:
    """The tables and the picture as one file that opens from disk."""
    style = files("smoothcert.report").joinpath("page", "style.css").read_text(encoding="utf-8")
    notes = "".join(f"<li>{escape(note.words)}</li>" for note in unfair(runs))
    parts = [f"<p>{MEANING}</p>", f"<div class='warnings'><ul>{notes}</ul></div>" if notes else ""]
    parts.append(f"<figure style='background:white'>{picture[picture.index('<svg') :]}</figure>")
    for each in sheets:
        cells = [each.header, *each.rows]
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        parts.append(f"<h2>{escape(each.title)}</h2><table>{body}</table><p class='faint'>{escape(each.note)}</p>")
    for run in runs:
        command = run.facts.get("notes", {}).get("command", "")
        parts.append(f"<h2>{escape(run.name)}</h2><pre>{escape(command or 'made in Python')}</pre>")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        "<meta name='color-scheme' content='light dark'><title>Certified intervals: a report of smoothcert</title>"
        f"<link rel='icon' href='data:,'><style>{style} figure svg {{ width: 100%; height: auto; }} td {{ padding: 0 .8rem; }}</style></head><body>"
        f"<h1>Certified intervals</h1>{''.join(parts)}</body></html>"
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _up(value: float | None) -> str:
    return "?" if value is None else round_up(value)


def _share(value: float | None) -> str:
    return "?" if value is None else f"{percent_down(value)} %"
