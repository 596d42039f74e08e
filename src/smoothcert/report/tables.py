"""The table of a report: one row per run and label, every certified number rounded down."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from smoothcert.maths.geometry import exact_mean, percent_down, round_down, shrinkage
from smoothcert.metrics import curves
from smoothcert.metrics.bands import CONFIDENCE, binomial_band
from smoothcert.metrics.distributions import by_class
from smoothcert.report.comparisons import best_of_all, envelopes, supersets
from smoothcert.report.runs import Line
from smoothcert.report.sheets import Sheet

OTHER_NORMS = ("1", "2", "inf")  # in which certificates behind a front have different radii
RADIUS = (
    "at radius r: right, certified, and by at least r; so at radius 0 abstentions count as wrong, above they do not"
)
ENDLESS = "none: a region behind a front has no end where the front is blind, so it has no volume"
PROXY = "proxy radius: of the ball that has the region's volume"
ECHO = "echo: how often other inputs are answered the same label under the same noise; from 1/2 on, a true certificate says nothing of its input"


def summary(line: Line, radii: Sequence[float]) -> dict[str, Any]:
    """The numbers of one line, exact, for machines."""
    records, echoing = line.records, curves.echoing(line.records)
    quiet = [] if echoing is None else curves.without_echoes(records)
    return {
        "run": line.name,
        "label": line.soundness.value,
        "noise": line.noise,
        "norm": str(records[0].norm),
        "against": records[0].against,
        "domain": records[0].domain,
        "inputs": len(records),
        "truths_known": line.labelled,
        "clean_accuracy": curves.clean_accuracy(records),
        "abstention": curves.abstention(records),
        "radii": list(radii),
        "certified_accuracy": curves.certified_accuracy(records, radii).tolist(),
        "average_certified_radius": curves.average_certified_radius(records),
        "average_certified_radius_in": radii_in_norms(line),
        "average_certified_proxy_radius": curves.average_certified_proxy_radius(records),
        "average_certified_boxed_proxy_radius": curves.average_certified_boxed_proxy_radius(records),
        "echoing": echoing,  # None where no echo was measured, and the means without them are not numbers
        "average_certified_radius_without_echoes": curves.average_certified_radius(quiet),
        "average_certified_proxy_radius_without_echoes": curves.average_certified_proxy_radius(quiet),
        "votes_per_input": curves.votes_per_input(records),
        "seconds_per_input": sum(line.seconds) / len(line.seconds),
        "alpha": records[0].alpha,
        "exact": all(record.exact for record in records),
        "trials": line.facts.get("configuration", {}).get("trials", max(record.trials for record in records)),
        "estimator": line.facts.get("configuration", {}).get("estimator", "unknown"),
        "decided_radii": line.facts.get("configuration", {}).get("radii", []),
        "stopped": dict(Counter(record.stopped for record in records).most_common()),
        "certificates": sum(record.label is not None for record in records),
        "expected_wrong": curves.expected_wrong(records),
        "invalid_votes": sum(record.estimation_invalid[-1] + record.selection_invalid for record in records),
    }


def radii_in_norms(line: Line) -> dict[str, float]:
    """The average certified radius in each norm that is known of a run behind a front, from the same certificates."""
    norms = line.facts.get("front_norms", {})
    units = [record.region_radius if curves.counts(record) else 0.0 for record in line.records]
    return {norm: exact_mean(units) / largest for norm, largest in norms.items()}


def plain_in(norm: str, line: Line) -> float | None:
    """The same of a run without a front, to set beside it: plain balls hold plain balls of other norms."""
    first, shape = line.records[0], line.facts.get("shape")
    plain = all(record.front is None and isinstance(record.scale, float) for record in line.records)
    if shape is None or not plain or first.threat is not None or first.stages:
        return None
    return curves.average_certified_radius(line.records) * shrinkage(first.norm, float(norm), math.prod(shape))


def common_radii(lines: Sequence[Line]) -> list[float]:
    """Round radii for a table of all lines."""
    return curves.round_radii([record for line in lines for record in line.records])


def main_sheet(lines: Sequence[Line], radii: Sequence[float]) -> Sheet:
    """The summaries as a table for people, a line of the table per quantity and a column per run and label."""
    rows = [summary(line, radii) for line in lines]
    cells: list[tuple[str, ...]] = []
    ends: list[int] = []

    def add(name: str, values: Sequence[str], end: bool = False) -> None:
        cells.append((name, *values))
        ends.extend([len(cells) - 1] * end)

    add("label", [row["label"] for row in rows])
    add("noise (scale)", [row["noise"] for row in rows])
    add("norm or threat", [row["against"] for row in rows])
    add("domain", [row["domain"] for row in rows])
    add("inputs", [str(row["inputs"]) for row in rows])
    add("accuracy (most votes, none abstain)", [_accuracy(row["clean_accuracy"], row["inputs"]) for row in rows])
    add("abstention", [_percent(row["abstention"]) for row in rows], end=True)
    for position, radius in enumerate(radii):
        shares = [_accuracy(row["certified_accuracy"][position], row["inputs"]) for row in rows]
        add(f"at radius {radius:g}", shares, end=position == len(radii) - 1)
    add("average certified radius", [round_down(row["average_certified_radius"]) for row in rows])
    for norm in OTHER_NORMS:
        if any(row["average_certified_radius_in"] for row in rows):
            own = [row["average_certified_radius_in"].get(norm) for row in rows]
            there = [plain_in(norm, line) if mean is None else mean for mean, line in zip(own, lines, strict=True)]
            add(f"the same certificates in l{norm}", ["–" if mean is None else round_down(mean, 4) for mean in there])
    proxies = [row["average_certified_proxy_radius"] for row in rows]
    # A region against a threat has a size and no volume, one behind a front no end.
    volumes = [row["norm"] != "0.0" and not math.isnan(p) for p, row in zip(proxies, rows, strict=True)]
    add("average certified proxy radius", [round_down(p) if v else "–" for p, v in zip(proxies, volumes, strict=True)])
    boxed = [row["average_certified_boxed_proxy_radius"] for row in rows]
    if not all(map(math.isnan, boxed)):
        add(
            "the same, of the volume in the input box",
            ["–" if math.isnan(mean) else round_down(mean) for mean in boxed],
        )
    if any(row["echoing"] is not None for row in rows):
        add("certificates with echo ≥ 1/2", [_count_of(row["echoing"], row["certificates"]) for row in rows])
        for name in ("average certified radius without echoes", "average certified proxy radius without echoes"):
            means = [row[name.replace(" ", "_")] for row in rows]
            add(name, ["–" if math.isnan(mean) else round_down(mean) for mean in means])
    add("votes per input", [f"{row['votes_per_input']:.0f}" for row in rows])
    add("seconds per input", [f"{row['seconds_per_input']:.3g}" for row in rows])
    add("alpha", ["exact" if row["exact"] else f"{row['alpha']:g}" for row in rows])
    add("estimator", [row["estimator"] for row in rows])
    add("N (at most, beside the votes that choose the class)", [str(row["trials"]) for row in rows])
    add("votes ended by", ["; ".join(f"{why}: {number}" for why, number in row["stopped"].items()) for row in rows])
    # An upper bound is rounded up.
    add(
        "certificates × alpha: expected wrong",
        [f"{math.ceil(row['expected_wrong'] * 1000 - 1e-9) / 1000:.3f}" for row in rows],
    )
    if any(row["invalid_votes"] for row in rows):
        exact = any(row["exact"] for row in rows)
        add(
            "votes for nobody (NaN, unsure)" if exact else "NaN votes (counted against)",
            [str(row["invalid_votes"]) for row in rows],
        )
    if any(row["decided_radii"] for row in rows):
        radii_asked = [",".join(f"{radius:g}" for radius in row["decided_radii"]) or "all" for row in rows]
        add("radii decided (others: at least)", radii_asked)
    known = all(row["truths_known"] for row in rows)
    notes = (
        [RADIUS]
        if known
        else [RADIUS, "no truths known in some runs: there accuracy is the share of inputs certified with any label"]
    )
    notes.append(PROXY)
    if any(row["echoing"] is not None for row in rows):
        notes.append(ECHO)
    if any(map(math.isnan, proxies)):
        notes.append(f"proxy radius: {ENDLESS}")
    header = ("run", *(row["run"] for row in rows))
    title = f"certified accuracy in %, rounded down ({100 * CONFIDENCE:g} % band of the true share)"
    return Sheet(title, header, tuple(cells), "; ".join(notes), tuple(ends), across=True)


def tables(lines: Sequence[Line], radii: Sequence[float]) -> list[Sheet]:
    """Every table of a report, in order; a page, the CSV and the LaTeX files show whatever is here."""
    if not lines:
        return []
    compared = (envelopes(lines, radii), best_of_all(lines), supersets(lines))
    return [main_sheet(lines, radii), *(sheet for sheet in compared if sheet is not None)]


def class_table(line: Line, radii: Sequence[float]) -> Sheet:
    """One line's numbers by true class, a row each."""
    header = ("class", "inputs", "clean", "abstention", *(f"at {radius:g}" for radius in radii), "ACR")
    rows = []
    for truth, records in by_class(line.records).items():
        shares = (curves.clean_accuracy(records), curves.abstention(records))
        certified = curves.certified_accuracy(records, radii)
        acr = round_down(curves.average_certified_radius(records))
        rows.append((str(truth), str(len(records)), *map(_percent, (*shares, *certified)), acr))
    return Sheet(f"{line.title} by true class, in %, rounded down", header, tuple(rows))


def _count_of(number: int | None, total: int) -> str:
    return "–" if number is None else f"{number} of {total}"


def _accuracy(share: float, inputs: int) -> str:
    """An accuracy rounded down, and its band rounded outwards."""
    if math.isnan(share):
        return "–"
    low, high = (float(end) for end in binomial_band(round(share * inputs), inputs))
    return f"{_percent(share)} ({_percent(low)}–{percent_down(-high).removeprefix('-')})"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else percent_down(share)
