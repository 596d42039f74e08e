"""A run as a report sees it: its records of one soundness label, its configuration, its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.certificates import Soundness, weakest
from smoothcert.errors import RunError
from smoothcert.records import Record
from smoothcert.store import open_run


@dataclass(frozen=True)
class Line:
    """One line of a table or a plot: the records of one run that carry one label."""

    name: str
    soundness: Soundness
    records: tuple[Record, ...]
    seconds: tuple[float, ...]
    facts: dict[str, Any]
    directory: Path = Path()

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
    """All that one run directory holds; ``lines`` has a line per soundness label, none when there are no records."""

    name: str
    directory: Path
    facts: dict[str, Any]
    lines: tuple[Line, ...]

    @property
    def indices(self) -> frozenset[int]:
        """The inputs that have a record."""
        return frozenset(record.index for line in self.lines for record in line.records)


def read_runs(directories: Sequence[Path | str]) -> list[Run]:
    """The runs, two labels of one run apart; names are the shortest that tell the directories apart."""
    resolved = [Path(directory).resolve() for directory in directories]
    if len(set(resolved)) < len(resolved):
        twice = next(given for given, path in zip(directories, resolved, strict=True) if resolved.count(path) > 1)
        raise RunError(f"{twice} is given twice; give each run once")
    return [_read(path, name) for path, name in zip(resolved, _names(resolved), strict=True)]


def _read(directory: Path, name: str) -> Run:
    with open_run(directory) as store:
        records, seconds, facts = list(store.records()), store.seconds(), store.facts()
    lines = []
    # Whatever a memory settled holds through it, so its records are one line, labelled as the weaker.
    settled = "memory" in facts.get("configuration", {})
    worth = {r.index: weakest([r.soundness, Soundness.MEMORY]) if settled else r.soundness for r in records}
    for soundness in sorted(set(worth.values()), key=list(Soundness).index):
        own = tuple(record for record in records if worth[record.index] == soundness)
        lines.append(Line(name, soundness, own, tuple(seconds[record.index] for record in own), facts, directory))
    return Run(name, directory, facts, tuple(lines))


def _names(paths: Sequence[Path]) -> list[str]:
    for depth in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names
