"""What must not be compared is refused; what may mislead is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smoothcert.certificates import Soundness
from smoothcert.errors import RunError
from smoothcert.report.runs import Line, Run

MEANING = {
    Soundness.GLOBAL: "the smoothed classifier's answer is constant on the region, except with probability alpha",
    Soundness.MEMORY: "every later query answered through the same memory gets this answer inside the region",
    Soundness.FROZEN: "the noise was chosen for this very input: true of the classifier with that noise, not of the "
    "deployed one",
    Soundness.ESTIMATE: "a search, a simulation or an unchecked classifier stands where a proof should",
    Soundness.IMPORTED: "what the author of a log says; nothing was checked",
}


def check_same_data(runs: Sequence[Run]) -> None:
    """Refuse runs on different data: by the fingerprints, and by the truths of inputs that two runs share."""
    marked = [(run, run.facts.get("configuration", {}).get("data")) for run in runs]
    known = [(run, mark) for run, mark in marked if mark is not None]
    for run, mark in known[1:]:
        if mark != known[0][1]:
            first = known[0][0]
            raise RunError(
                f"{first.name} and {run.name} were certified on different data (SHA-256 {known[0][1][:12]}… and "
                f"{mark[:12]}…), so their accuracies do not compare; report them apart"
            )
    truths: dict[int, tuple[int, str]] = {}
    for run in runs:
        for record in (record for line in run.lines for record in line.records):
            if record.truth is None:
                continue
            truth, name = truths.setdefault(record.index, (record.truth, run.name))
            if truth != record.truth:
                raise RunError(
                    f"input {record.index} is of class {truth} in {name} and of class {record.truth} in {run.name}: "
                    "these are different data, or numbered differently; report them apart"
                )


def unfair(runs: Sequence[Run]) -> list[str]:
    """Where a comparison of these runs would mislead, in words; empty when nothing is known against it."""
    lines = [line for run in runs for line in run.lines]
    found = [f"{run.name} holds no records yet; it is left out" for run in runs if not run.lines]
    found += [_incomplete(run) for run in runs if run.lines and len(run.indices) < len(run.facts.get("subset", []))]
    found += _different("label", lines, lambda line: line.soundness.value, "they do not promise the same: see below")
    found += _different("norm", lines, lambda line: f"l{line.records[0].norm:g}", "radii do not compare across norms")
    found += _different("alpha", lines, lambda line: f"{line.records[0].alpha:g}", "a larger alpha gives larger radii")
    found += _different("N", lines, lambda line: str(_plan(line, "trials")), "more votes give larger radii")
    found += _different(
        "radii", lines, _decided, "votes that stop at given radii show other radii smaller than they could be"
    )
    found += _different(
        "domain", lines, lambda line: line.records[0].domain, "the perturbations that are covered differ"
    )
    found += _different("network", lines, lambda line: str(_plan(line, "model"))[:12], "not only the method differs")
    found += _subsets([run for run in runs if run.lines])
    if any(run.lines and "data" not in run.facts.get("configuration", {}) for run in runs):
        found.append(
            "an imported log does not say on which data it was made; only its indices and classes were compared"
        )
    return found


def _plan(line: Line, name: str) -> Any:
    return line.facts.get("configuration", {}).get(name, "unknown")


def _decided(line: Line) -> str:
    radii = _plan(line, "radii")
    return "all" if radii in ([], "unknown") else ",".join(f"{radius:g}" for radius in radii)


def _incomplete(run: Run) -> str:
    return f"{run.name} is not finished: {len(run.indices)} of {len(run.facts['subset'])} inputs"


def _different(what: str, lines: Sequence[Line], value: Callable[[Line], str], why: str) -> list[str]:
    """One sentence if the lines differ in something, with who has what."""
    values: dict[str, list[str]] = {}
    for line in lines:
        names = values.setdefault(value(line), [])
        if line.name not in names:
            names.append(line.name)
    if len(values) < 2:
        return []
    who = "; ".join(f"{value}: {', '.join(names)}" for value, names in values.items())
    return [f"different {what} ({who}): {why}"]


def _subsets(runs: Sequence[Run]) -> list[str]:
    if len({run.indices for run in runs}) < 2:
        return []
    shared = len(frozenset.intersection(*(run.indices for run in runs)))
    sizes = ", ".join(f"{run.name}: {len(run.indices)}" for run in runs)
    return [
        f"different subsets of the data ({sizes}; {shared} in common): part of any difference is the choice of inputs"
    ]
