"""A run as a report sees it: its records of one soundness label, its configuration, its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.certificates import Soundness, weakest
from smoothcert.errors import RunError, without_passwords
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import percent_down, round_down, round_up
from smoothcert.metrics.curves import average_certified_radius, certified_accuracy
from smoothcert.records.record import Record, check_classes
from smoothcert.store import Place, check_filled, directory_of, open_run
from smoothcert.threats import THREATS
from smoothcert.views import REGISTRY as VIEWS
from smoothcert.views import view_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure_of(record: Record) -> str:
    """In what a radius of this record is measured."""
    return f"{record.against} distance, input units" if record.threat is None else THREATS[record.threat].measure


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
        """The law and its parameter in words, and the front that gives the numbers which it is laid on."""
        front = self.facts.get("configuration", {}).get("front", "").partition(" sha256:")[0]
        return f"{self._noise} on {front}" if front else self._noise

    @property
    def _noise(self) -> str:
        if len({(record.law, record.scale) for record in self.records}) > 1:
            return "per input"
        scale = self.records[0].scale
        if self.records[0].stages:
            return self.records[0].law
        if VIEWS.knows(self.records[0].law):
            return view_named(self.records[0].law).title
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
    def headline(self) -> str:
        """Its first numbers in a sentence, rounded down; of intervals the width, rounded up."""
        if self.records[0].intervals:
            first = [record.enclosures[0] for record in self.records]
            width = round_up(float(np.median([one.width for one in first])))
            return f"{self.soundness.value}: {len(first)} inputs, intervals within {first[0].radius:g} have the median width {width}"
        share, radius = certified_accuracy(self.records, [0.0])[0], average_certified_radius(self.records)
        right = "right and certified" if self.labelled else "certified (no truths are known)"
        return f"{self.soundness.value}: {percent_down(share)} % of {len(self.records)} inputs {right}, average radius {round_down(radius)}"

    @property
    def title(self) -> str:
        """What a legend says of it."""
        return f"{self.name}: {self.noise} [{self.soundness.value}]"


class Run:
    """All that one run holds, read when it is opened: ``Run("runs/a")``, or any other place of a run.

    ``lines`` has a line per soundness label, none when there are no records; ``facts`` are what is known of the run.
    """

    def __init__(self, place: Place, name: str | None = None) -> None:
        with open_run(place) as store:
            records, seconds, facts = list(store.records()), store.seconds(), store.facts()
        self.name = name or _names([directory_of(place) or place])[0]
        self.place, self.facts = place, facts
        # Whatever a memory settled holds through it, so its records are one line, labelled as the weaker.
        settled = "memory" in facts.get("configuration", {})
        worth = {r.index: weakest([r.soundness, Soundness.MEMORY]) if settled else r.soundness for r in records}
        lines = []
        for soundness in sorted(set(worth.values()), key=list(Soundness).index):
            own = tuple(record for record in records if worth[record.index] == soundness)
            times = tuple(seconds[record.index] for record in own)
            lines.append(Line(self.name, soundness, own, times, facts, place))
        self.lines = tuple(lines)

    @property
    def records(self) -> list[Record]:
        """Every record, by index."""
        return sorted((record for line in self.lines for record in line.records), key=lambda record: record.index)

    @property
    def indices(self) -> frozenset[int]:
        """The inputs that have a record."""
        return frozenset(record.index for record in self.records)

    def curve(self, radii: Sequence[float] | None = None) -> tuple[FloatArray, FloatArray]:
        """Radii, by default all at which it falls, and the share of inputs answered rightly and certified at each.

        Labels are worth different things: a run that holds several has a curve per line (``run.figure()``), and none.
        """
        check_classes(self.name, self.records)
        if len(self.lines) != 1:
            found = ", ".join(line.soundness.value for line in self.lines) or "none"
            raise RunError(f"{self.name} has no one curve: its labels are {found}; see run.lines, or run.figure()")
        at = np.unique([0.0, *(record.radius for record in self.records)]) if radii is None else np.asarray(radii)
        return at, certified_accuracy(self.records, at.tolist())

    def figure(self) -> Figure:
        """Certified accuracy against radius, a line per label, or the intervals of numbers; a notebook shows it."""
        from smoothcert.report.figures import curve_figure
        from smoothcert.report.numbers import certifies_numbers, interval_figure

        check_filled(self.name, self.lines)
        return interval_figure(self.lines) if certifies_numbers([self]) else curve_figure(self.lines)

    def to_frame(self) -> Any:
        """The records as a data frame of pandas, or of polars where pandas is not installed."""
        from smoothcert.report.exports import to_frame

        pairs = {r.index: (r, s) for line in self.lines for r, s in zip(line.records, line.seconds, strict=True)}
        return to_frame([pairs[index] for index in sorted(pairs)])

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        told = ", ".join(f"{len(line.records)} {line.soundness.value}" for line in self.lines) or "no records"
        return f"Run({str(self.place)!r}: {told})"

    def _repr_html_(self) -> str:
        from smoothcert.report.notebook import run_html

        return run_html(self)


def read_runs(places: Sequence[Place]) -> list[Run]:
    """The runs, two labels of one run apart; names are the shortest that tell their places apart."""
    directories = [directory_of(place) for place in places]
    resolved = [at if path is None else path.resolve() for at, path in zip(places, directories, strict=True)]
    if len(set(resolved)) < len(resolved):
        twice = next(given for given, place in zip(places, resolved, strict=True) if resolved.count(place) > 1)
        raise RunError(f"{twice} is given twice; give each run once")
    return [Run(place, name) for place, name in zip(resolved, _names(resolved), strict=True)]


def _names(places: Sequence[Place]) -> list[str]:
    parts = [place.parts if isinstance(place, Path) else (without_passwords(str(place)),) for place in places]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({position})" for position, name in enumerate(names, start=1)]  # stores that are written alike
