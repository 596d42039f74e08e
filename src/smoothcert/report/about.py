"""What a report says first: data, network, votes, alpha and date, once where all runs share them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from smoothcert.report.runs import Line, Run

UNKNOWN = "not said"


def about(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Facts by name; ``value`` of all runs, or who has which."""
    lines = [line for run in runs for line in run.lines]
    facts = {
        "Data": [(run.name, data_name(run)) for run in runs],
        "Network": [(run.name, network_name(run)) for run in runs],
        "Inputs": [(run.name, str(len(run.indices))) for run in runs],
        "Votes per input": [(line.name, _votes(line)) for line in lines],
        "Alpha": [
            (line.name, "none: exact" if line.records[0].exact else f"{line.records[0].alpha:g}") for line in lines
        ],
        "Date": [(run.name, str(run.facts.get("began", UNKNOWN))[:10]) for run in runs],
    }
    return [{"name": name, "value": together(values)} for name, values in facts.items() if values]


def together(values: Sequence[tuple[str, str]]) -> str:
    """One value that all share, or every value with the names that have it.

    >>> together([("a", "1"), ("b", "1")]), together([("a", "1"), ("b", "2"), ("c", "1")])
    ('1', '1 (a, c); 2 (b)')
    """
    having: dict[str, list[str]] = {}
    for name, value in values:
        having.setdefault(value, []).append(name)
    if len(having) == 1:
        return next(iter(having))
    return "; ".join(f"{value} ({', '.join(dict.fromkeys(names))})" for value, names in having.items())


def data_name(run: Run) -> str:
    """What its data are called: as they call themselves, or as its settings did."""
    return str(run.facts.get("data_name") or _setting(run, "data") or UNKNOWN)


def network_name(run: Run) -> str:
    """What its network is called: the file or name in its settings, or else its class."""
    source = _setting(run, "model")
    return PurePath(source).name if source else str(run.facts.get("network") or UNKNOWN)


def class_names(runs: Sequence[Run]) -> list[str]:
    """What the classes are called, as the first run that says so has it."""
    return next((list(run.facts["class_names"]) for run in runs if run.facts.get("class_names")), [])


def _setting(run: Run, section: str) -> str:
    try:
        settings: dict[str, Any] = tomllib.loads(run.facts.get("notes", {}).get("settings", ""))
    except tomllib.TOMLDecodeError:
        return ""
    return str(settings.get(section, {}).get("source", ""))


def _votes(line: Line) -> str:
    """How many may be cast on an input; those that choose the class are not counted in its bound."""
    configuration = line.facts.get("configuration", {})
    most = configuration.get("trials", max(record.trials for record in line.records))
    select = 0 if line.records[0].exact else configuration.get("select", 0)
    return f"{_grouped(most)} at most" + (f", after {_grouped(select)} that choose the class" if select else "")


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")
