"""A run as a report sees it: its records of one soundness label, its configuration, its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.certificates import Soundness, weakest
from smoothcert.errors import RunError, without_passwords
from smoothcert.records.record import Record
from smoothcert.store import Place, directory_of, open_run


@dataclass(frozen=True)
class Line:
    """One line of a table or a plot: the records of one run that carry one label."""

    name: str
    soundness: Soundness
    records: tuple[Record, ...]
    seconds: tuple[float, ...]
    facts: dict[str, Any]
    place: Place = Path()

    @property
    def noise(self) -> str:
        """The law and its parameter in words."""
        if len({(record.law, record.scale) for record in self.records}) > 1:
            return "per input"
        scale = self.records[0].scale
        return (
            f"{self.records[0].law} {scale:.3g}"
            if isinstance(scale, float)
            else f"{self.records[0].law} (per coordinate)"
        )

    @property
    def labelled(self) -> bool:
        """Is the truth of any input known?"""
        return any(record.truth is not None for record in self.records)

    @property
    def title(self) -> str:
        """What a legend says of it."""
        return f"{self.name}: {self.noise} [{self.soundness.value}]"


@dataclass(frozen=True)
class Run:
    """All that one run holds; ``lines`` has a line per soundness label, none when there are no records."""

    name: str
    place: Place
    facts: dict[str, Any]
    lines: tuple[Line, ...]

    @property
    def indices(self) -> frozenset[int]:
        """The inputs that have a record."""
        return frozenset(record.index for line in self.lines for record in line.records)


def read_runs(places: Sequence[Place]) -> list[Run]:
    """The runs, two labels of one run apart; names are the shortest that tell their places apart."""
    directories = [directory_of(place) for place in places]
    resolved = [at if path is None else path.resolve() for at, path in zip(places, directories, strict=True)]
    if len(set(resolved)) < len(resolved):
        twice = next(given for given, place in zip(places, resolved, strict=True) if resolved.count(place) > 1)
        raise RunError(f"{twice} is given twice; give each run once")
    return [_read(place, name) for place, name in zip(resolved, _names(resolved), strict=True)]


def _read(place: Place, name: str) -> Run:
    with open_run(place) as store:
        records, seconds, facts = list(store.records()), store.seconds(), store.facts()
    lines = []
    # Whatever a memory settled holds through it, so its records are one line, labelled as the weaker.
    settled = "memory" in facts.get("configuration", {})
    worth = {r.index: weakest([r.soundness, Soundness.MEMORY]) if settled else r.soundness for r in records}
    for soundness in sorted(set(worth.values()), key=list(Soundness).index):
        own = tuple(record for record in records if worth[record.index] == soundness)
        lines.append(Line(name, soundness, own, tuple(seconds[record.index] for record in own), facts, place))
    return Run(name, place, facts, tuple(lines))


def _names(places: Sequence[Place]) -> list[str]:
    parts = [place.parts if isinstance(place, Path) else (without_passwords(str(place)),) for place in places]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({position})" for position, name in enumerate(names, start=1)]  # stores that are written alike
