"""The table of a report: one row per run and label, every certified number rounded down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from smoothcert.maths.geometry import round_down
from smoothcert.metrics import curves
from smoothcert.metrics.bands import CONFIDENCE, binomial_band
from smoothcert.metrics.distributions import by_class
from smoothcert.report.runs import Line


def summary(line: Line, radii: Sequence[float]) -> dict[str, Any]:
    """The numbers of one line, exact, for machines."""
    records = line.records
    return {
        "run": line.name,
        "label": line.soundness.value,
        "noise": line.noise,
        "norm": str(records[0].norm),
        "domain": records[0].domain,
        "inputs": len(records),
        "truths_known": line.labelled,
        "clean_accuracy": curves.clean_accuracy(records),
        "abstention": curves.abstention(records),
        "radii": list(radii),
        "certified_accuracy": curves.certified_accuracy(records, radii).tolist(),
        "average_certified_radius": curves.average_certified_radius(records),
        "votes_per_input": curves.votes_per_input(records),
        "seconds_per_input": sum(line.seconds) / len(line.seconds),
        "alpha": records[0].alpha,
        "trials": line.facts.get("configuration", {}).get("trials", max(record.trials for record in records)),
        "estimator": line.facts.get("configuration", {}).get("estimator", "unknown"),
        "decided_radii": line.facts.get("configuration", {}).get("radii", []),
        "certificates": sum(record.label is not None for record in records),
        "expected_wrong": curves.expected_wrong(records),
        "invalid_votes": sum(record.estimation_invalid[-1] + record.selection_invalid for record in records),
    }


def common_radii(lines: Sequence[Line]) -> list[float]:
    """Round radii for a table of all lines."""
    return curves.round_radii([record for line in lines for record in line.records])


def table(lines: Sequence[Line], radii: Sequence[float]) -> Table:
    """The summaries as a table for people, a line of the table per quantity and a column per run and label."""
    rows = [summary(line, radii) for line in lines]
    result = Table(title=f"certified accuracy in %, rounded down ({100 * CONFIDENCE:g} % band of the true share)")
    result.add_column("run")
    for row in rows:
        result.add_column(row["run"], justify="right")

    def add(name: str, cells: Sequence[str], **style: Any) -> None:
        result.add_row(name, *cells, **style)

    add("label", [row["label"] for row in rows], style="bold")
    add("noise (scale)", [row["noise"] for row in rows])
    add("norm", [f"l{row['norm'].removesuffix('.0')}" for row in rows])
    add("domain", [row["domain"] for row in rows])
    add("inputs", [str(row["inputs"]) for row in rows])
    add("clean accuracy", [_accuracy(row["clean_accuracy"], row["inputs"]) for row in rows])
    add("abstention", [_percent(row["abstention"]) for row in rows], end_section=True)
    for position, radius in enumerate(radii):
        last = position == len(radii) - 1
        shares = [_accuracy(row["certified_accuracy"][position], row["inputs"]) for row in rows]
        add(f"at radius {radius:g}", shares, end_section=last)
    add("average certified radius", [round_down(row["average_certified_radius"]) for row in rows])
    add("votes per input", [f"{row['votes_per_input']:.0f}" for row in rows])
    add("seconds per input", [f"{row['seconds_per_input']:.3g}" for row in rows])
    add("alpha", [f"{row['alpha']:g}" for row in rows])
    add("estimator", [row["estimator"] for row in rows])
    add("N (at most)", [str(row["trials"]) for row in rows])
    # An upper bound is rounded up.
    add(
        "certificates × alpha: expected wrong",
        [f"{math.ceil(row['expected_wrong'] * 1000 - 1e-9) / 1000:.3f}" for row in rows],
    )
    if any(row["invalid_votes"] for row in rows):
        add("NaN votes (counted against)", [str(row["invalid_votes"]) for row in rows], style="yellow")
    if any(row["decided_radii"] for row in rows):
        radii_asked = [",".join(f"{radius:g}" for radius in row["decided_radii"]) or "all" for row in rows]
        add("radii decided (others: at least)", radii_asked)
    if not all(row["truths_known"] for row in rows):
        result.caption = "no truths known in some runs: there accuracy is the share of inputs certified with any label"
    return result


def tables(lines: Sequence[Line], radii: Sequence[float]) -> list[Table]:
    """Every table of a report, in order; a page, the CSV and the LaTeX files show whatever is here."""
    return [table(lines, radii)] if lines else []


def class_table(line: Line, radii: Sequence[float]) -> Table:
    """One line's numbers by true class, a row each."""
    result = Table(title=f"{line.title} by true class, in %, rounded down")
    for head in ("class", "inputs", "clean", "abstention", *(f"at {radius:g}" for radius in radii), "ACR"):
        result.add_column(head, justify="right")
    for truth, records in by_class(line.records).items():
        shares = curves.certified_accuracy(records, radii)
        result.add_row(
            str(truth),
            str(len(records)),
            _percent(curves.clean_accuracy(records)),
            _percent(curves.abstention(records)),
            *(_percent(share) for share in shares),
            round_down(curves.average_certified_radius(records)),
        )
    return result


def _accuracy(share: float, inputs: int) -> str:
    """An accuracy rounded down, and its band rounded outwards."""
    if math.isnan(share):
        return "–"
    low, high = (float(end) for end in binomial_band(round(share * inputs), inputs))
    return f"{_percent(share)} ({_percent(low)}–{round_down(-100 * high, 1).removeprefix('-')})"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else round_down(100 * share, 1)
