"""The BibTeX owed by what a run used."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from smoothcert.certificates import Soundness
from smoothcert.report.runs import Run

ALWAYS = ("cohen2019certified", "clopper1934confidence")
# Laws by their name before the colon; those of UniCR's Table 7 owe it their place here.
LAWS: Mapping[str, tuple[str, ...]] = {
    "gaussian": (),
    "laplace": ("teng2020l1", "yang2020randomized"),
    "uniform": ("lee2019tight", "yang2020randomized"),
}
VIEWS: Mapping[str, tuple[str, ...]] = {
    "splitting": ("levine2021improved",),
    "bands": ("levine2020derandomized",),
    "blocks": ("levine2020derandomized",),
    "chunks": ("levine2020derandomized",),
    "ablation": ("levine2020robustness",),
}
OTHER_LAWS = ("hong2022unicr",)
RULES: Mapping[str, tuple[str, ...]] = {
    "Yang et al.": ("yang2020randomized",),
    "differential inequality": ("yang2020randomized",),
    "Rényi": ("li2019certified",),
}
TUNERS: Mapping[str, tuple[str, ...]] = {  # by a part of the tuner's name
    "hill_climb": ("hong2022unicr",),
    "data_dependent": ("alfarra2022data",),
    "ancer": ("alfarra2022data", "eiras2022ancer"),
    "pattern": ("hong2025ucan",),
    "dataset": ("hong2025ucan",),
    "per_input": ("hong2025ucan",),
    "ucan": ("hong2025ucan",),
}
ESTIMATORS: Mapping[str, tuple[str, ...]] = {
    "union": ("voracek2024treatment",),
    "betting": ("voracek2024treatment", "waudbysmith2024estimating"),
    "randomized": ("voracek2024treatment", "stevens1950fiducial"),
}
LABELS: Mapping[Soundness, tuple[str, ...]] = {
    Soundness.MEMORY: ("alfarra2022data",),
    Soundness.ESTIMATE: ("hong2022unicr",),
}
ANISOTROPIC = ("eiras2022ancer", "hong2025ucan")  # noise with its own scale per coordinate
DATA: Mapping[str, tuple[str, ...]] = {
    "digits": ("lecun1998gradient",),
    "mnist": ("lecun1998gradient",),
    "fashion_mnist": ("xiao2017fashion",),
    "cifar10": ("krizhevsky2009learning",),
}


def entries() -> dict[str, str]:
    """Every entry of the package's list, by its key."""
    text = files("smoothcert.report").joinpath("citations.bib").read_text(encoding="utf-8")
    return {re.search(r"\{([^,]+),", part)[1]: part.strip() for part in re.split(r"\n(?=@)", text)}  # type: ignore[index]


def keys(run: Run) -> list[str]:
    """The keys of what the run used, each once, in the order of the list."""
    records = [record for line in run.lines for record in line.records]
    configuration = run.facts.get("configuration", {})
    laws = {record.law.partition(":")[0] for record in records} or {
        str(configuration.get("law", "gaussian")).split(":")[0]
    }
    # Where all views are asked there is no bound, and the smoothing is that of the views.
    owed = set() if records and all(record.exact for record in records) else set(ALWAYS)
    owed |= _all(VIEWS.get(law, LAWS.get(law, OTHER_LAWS)) for law in laws)
    owed |= _all(of for part, of in RULES.items() if any(part in rule for rule in {record.rule for record in records}))
    owed |= _all(of for part, of in TUNERS.items() if part in str(configuration.get("tuner", "")))
    owed |= set(ESTIMATORS.get(str(configuration.get("estimator", "")).partition(":")[0], ()))
    owed |= _all(LABELS.get(line.soundness, ()) for line in run.lines)
    owed |= set(ANISOTROPIC) if any(isinstance(record.scale, str) for record in records) else set()
    owed |= set(DATA.get(_data_source(run.facts), ()))
    return [key for key in entries() if key in owed]


def bibtex(runs: Iterable[Run]) -> str:
    """The entries owed by these runs."""
    owed = {key for run in runs for key in keys(run)}
    return "\n\n".join(text for key, text in entries().items() if key in owed) + "\n"


def _data_source(facts: Mapping[str, Any]) -> str:
    settings = tomllib.loads(facts.get("notes", {}).get("settings", ""))
    return str(settings.get("data", {}).get("source", ""))


def _all(groups: Iterable[Iterable[str]]) -> set[str]:
    return {key for group in groups for key in group}
