"""What attacks found about the records of a run, input by input, and the regions that they were led along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from smoothcert.records.findings import Finding
from smoothcert.records.record import Record
from smoothcert.report.runs import Run
from smoothcert.store import open_run


@dataclass(frozen=True)
class Mark:
    """How one certificate fared: the multiples of its radius that were tried, and where the nearest violation lies."""

    tried: float
    broken: float | None  # in multiples of the radius; at most 1: inside what was certified
    words: str

    def with_(self, other: Mark) -> Mark:
        """Both together: the further of what was tried, the nearer of what broke."""
        found = [mark for mark in (self, other) if mark.broken is not None]
        if not found:
            return max(self, other, key=lambda mark: mark.tried)
        nearest = min(found, key=lambda mark: mark.broken or 0.0)
        return Mark(max(self.tried, other.tried), nearest.broken, nearest.words)


@dataclass(frozen=True)
class Marks:
    """The findings of a run that speak of its records as they are, whatever the effort."""

    run: Run

    @cached_property
    def by_index(self) -> dict[int, Mark]:
        """One mark per certificate that was attacked."""
        found: dict[int, Mark] = {}
        for finding in self.findings():
            mark = mark_of(finding)
            found[finding.index] = found[finding.index].with_(mark) if finding.index in found else mark
        return found

    def findings(self) -> Iterator[Finding]:
        """One finding at a time, since each holds an array as large as an input."""
        records = {record.index: record for line in self.run.lines for record in line.records}
        with open_run(self.run.place) as store:
            for finding in store.findings():
                if finding.index in records and speaks_of(finding, records[finding.index]):
                    yield finding


def speaks_of(finding: Finding, record: Record) -> bool:
    """Was it this very certificate that was attacked?"""
    return (finding.label, finding.radius) == (record.label, record.region_radius * finding.times)


def rank(finding: Finding) -> tuple[bool, float]:
    """The least is the worst: the nearest violation, or else the smallest margin."""
    return not finding.violated, finding.worst.gauge if finding.violated else finding.worst.margin


def mark_of(finding: Finding) -> Mark:
    """One finding as a mark."""
    worst = finding.worst
    if not finding.violated:
        return Mark(finding.times, None, f"held against every attack at {finding.times:g} × the radius")
    place = worst.gauge / finding.radius * finding.times if finding.radius > 0 else 0.0
    place = min(place, finding.times)  # rounding of the last step does not put it outside of where it was sought
    return Mark(finding.times, place, f"{worst.attack} found class {worst.rival} at {place:.3g} × the radius")
