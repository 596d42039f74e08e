"""What must not be compared is refused; what may mislead is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.certificates import Soundness
from smoothcert.errors import RunError, SettingError
from smoothcert.estimators import estimator_named
from smoothcert.records.facts import FACTS, UNDECLARED, plan_of
from smoothcert.registry import written
from smoothcert.report.runs import Line, Run


@dataclass(frozen=True)
class Note:
    """One thing to know before comparing, and the section of the page where it matters."""

    words: str
    where: str = "runs"


# What a difference does to the numbers, for who has never met the setting; the others say it where they are declared.
PLAIN = {
    "label": "they promise different things, so a larger number need not be a stronger statement",
    "norm": "they measure distance differently, so compare radii only within one norm",
    "alpha": "with a larger alpha more certificates are wrong, and all radii come out larger for it",
    "trials": "more votes prove larger radii, so part of the difference is patience and not robustness",
    "model": "the networks differ, so part of the difference may come from training and not from the method",
    "radii": "votes stopped early for some radii, so radii in between come out smaller than they could",
    "domain": "they cover different perturbations: only pixel values that can occur, or all real numbers",
    "seed": "other random draws, so part of a small difference is chance",
    "precision": "the networks were computed with different accuracy, so they are not quite the same classifier",
}
WHERE = {"label": "labels", "norm": "curves", "alpha": "labels"}

UNUSED, UNSAID = "not used", "not said"
# In a configuration only where there is something to say.
OPTIONAL = {"data": "not said", "own_randomness": "none", "voted": "as they are judged"}

BY_CHANCE = ", except with probability alpha"  # left out where all views were asked
MEANING = {
    Soundness.GLOBAL: f"the smoothed classifier's answer is constant on the region{BY_CHANCE}",
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


def unfair(runs: Sequence[Run]) -> list[Note]:
    """Where a comparison of these runs would mislead, in words; empty when nothing is known against it."""
    lines = [line for run in runs for line in run.lines]
    found = [Note(f"{run.name} holds no records yet; it is left out") for run in runs if not run.lines]
    found += [_incomplete(run) for run in runs if run.lines and len(run.indices) < len(run.facts.get("subset", []))]
    labels = [(line.name, line.soundness.value) for line in lines]
    found += _different("label", labels)
    found += _settings(lines)
    found += _subsets([run for run in runs if run.lines])
    if any(run.lines and "data" not in run.facts.get("configuration", {}) for run in runs):
        found.append(
            Note("an imported log does not say on which data it was made; only its indices and classes were compared")
        )
    return found


def _settings(lines: Sequence[Line]) -> list[Note]:
    """A sentence for every setting that changes the number, or that nobody declared, and that the lines do not share."""
    facts = [(line.name, _facts(line)) for line in lines]
    found: list[Note] = []
    for name in dict.fromkeys([*FACTS, *(name for _, own in facts for name in own)]):
        declared = FACTS.get(name, UNDECLARED)
        if declared.changes == "number" and name != "data":  # other data are refused
            values = [
                (who, own.get(name, OPTIONAL.get(name, "none")))
                for who, own in facts
                if own.get(name) not in (UNUSED, UNSAID)
            ]
            found += _different(name, values, declared.help)
    for who, own in facts:
        unsaid = [name.replace("_", " ") for name, value in own.items() if value == UNSAID]
        if unsaid and len(lines) > 1:
            words = f"{who} is a log, which does not say its {', '.join(unsaid)}: a difference there is not seen"
            found.append(Note(words))
    return found


def _facts(line: Line) -> dict[str, str]:
    """All that is known of how a line was made, in words; marked is what its votes did not use or a log does not say."""
    record, own = line.records[0], dict(line.facts.get("configuration", {}))
    if "voted" in own and plan_of(own["voted"]) == plan_of(own):
        del own["voted"]
    facts = {name: _in_words(name, value) for name, value in own.items()}
    alpha = "exact" if record.exact else written(record.alpha)
    facts |= {"norm": record.against, "alpha": alpha, "domain": record.domain}
    if record.exact:  # nothing was sampled
        facts |= dict.fromkeys(("select", "estimator", "trials", "radii", "seed", "shared_noise"), UNUSED)
    if "imported_from" in own:
        unsaid = [name for name, declared in FACTS.items() if declared.changes == "number" and name not in OPTIONAL]
        return dict.fromkeys(unsaid, UNSAID) | facts
    facts.setdefault("precision", "float32")  # what runtimes that have no such setting compute in
    if not anytime(own.get("estimator", "sequential")):
        facts |= {"radii": UNUSED}
    return facts


def anytime(estimator: str) -> bool:
    """May the votes of this estimator have stopped early? One that cannot be found may have."""
    try:
        return estimator_named(estimator).anytime
    except SettingError:
        return True


def _in_words(name: str, value: Any) -> str:
    """A fact as a newcomer reads it: fingerprints cut short, no radii as all of them."""
    if name == "voted":
        plan = plan_of(value)
        estimator = estimator_named(plan.estimator)
        return f"{estimator.rule(plan)}, by {estimator.title} at alpha {written(plan.alpha)}"
    if isinstance(value, list):
        return ", ".join(map(written, value)) or "all"
    return str(value)[:12] if name == "model" else written(value)


def _incomplete(run: Run) -> Note:
    return Note(f"{run.name} is not finished: {len(run.indices)} of {len(run.facts['subset'])} inputs")


def _different(name: str, values: Iterable[tuple[str, str]], declared: str = "") -> list[Note]:
    """One sentence if lines differ in something, with who has what; values: the name of a line, and what it has."""
    having: dict[str, list[str]] = {}
    for line, value in values:
        names = having.setdefault(value, [])
        if line not in names:
            names.append(line)
    if len(having) < 2:
        return []
    who = "; ".join(f"{value}: {', '.join(names)}" for value, names in having.items())
    words = f"different {name.replace('_', ' ')} ({who}): {PLAIN.get(name, declared)}"
    return [Note(words, WHERE.get(name, "runs"))]


def _subsets(runs: Sequence[Run]) -> list[Note]:
    if len({run.indices for run in runs}) < 2:
        return []
    shared = len(frozenset.intersection(*(run.indices for run in runs)))
    sizes = ", ".join(f"{run.name}: {len(run.indices)}" for run in runs)
    words = (
        f"different subsets of the data ({sizes}; {shared} in common): part of any difference is the choice of inputs"
    )
    return [Note(words, "inputs")]
