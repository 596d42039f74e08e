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


def read_lines(directories: Sequence[Path | str]) -> list[Line]:
    """The lines of all runs, two labels of one run apart; names are the shortest that tell the directories apart."""
    lines = []
    for directory, name in zip(directories, _names(directories), strict=True):
        with open_run(directory) as store:
            records, seconds, facts = list(store.records()), store.seconds(), store.facts()
        if not records:
            raise RunError(f"{directory} holds no records yet; certify some inputs into it first")
        # Whatever a memory settled holds through it, so its records are one line, labelled as the weaker.
        settled = "memory" in facts.get("configuration", {})
        worth = {r.index: weakest([r.soundness, Soundness.MEMORY]) if settled else r.soundness for r in records}
        for soundness in sorted(set(worth.values()), key=list(Soundness).index):
            own = tuple(record for record in records if worth[record.index] == soundness)
            lines.append(
                Line(name, soundness, own, tuple(seconds[record.index] for record in own), facts, Path(directory))
            )
    return lines


def _names(directories: Sequence[Path | str]) -> list[str]:
    paths = [Path(directory).resolve() for directory in directories]
    for depth in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names
