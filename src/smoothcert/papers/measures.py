"""A column of a published table, measured on runs: accuracies over the envelope of sigmas, areas, shares, seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from smoothcert.certificates import Soundness, weakest
from smoothcert.maths.geometry import exact_mean
from smoothcert.metrics.curves import counts
from smoothcert.metrics.score import envelope, robustness_score
from smoothcert.metrics.supersets import best_share
from smoothcert.records.record import Record
from smoothcert.report.figures import with_proxy
from smoothcert.report.runs import Run

PERCENT, SECONDS, PLAIN = "%", "s", ""


@dataclass(frozen=True)
class Group:
    """The runs of one row, a sigma each, with their records in the norm of the table, and what attacks left unbroken."""

    runs: tuple[Run, ...]
    records: tuple[tuple[Record, ...], ...]
    held: Mapping[str, float]

    @property
    def label(self) -> Soundness:
        """What the row is worth: the weakest of all its certificates."""
        return weakest(line.soundness for run in self.runs for line in run.lines)


def unit_of(column: str) -> str:
    """In what a column is measured."""
    if column == "seconds":
        return SECONDS
    return PLAIN if column in ("ACR", "proxy ACR", "score") or column.startswith(("top ", "p = ")) else PERCENT


def measured(column: str, group: Group, rivals: Sequence[Group]) -> float:
    """The number of a row in a column; percents are percents.

    ``0.5`` or ``2/255``: certified accuracy at this radius, ``~0.5`` at this proxy radius; ``ACR`` and ``score``: the area
    under it; each of the best sigma at every radius. ``best radius``, ``best proxy``: the share of inputs on which the best
    sigma of this method is at least that of every rival.
    """
    known: dict[str, Callable[[], float]] = {
        "ACR": lambda: _area(group.records),
        "score": lambda: _area(group.records),
        "proxy ACR": lambda: _area([with_proxy(records) for records in group.records]),
        "seconds": lambda: exact_mean([s for run in group.runs for line in run.lines for s in line.seconds]),
        "best radius": lambda: _best(group, rivals, "radius"),
        "best proxy": lambda: _best(group, rivals, "proxy_radius"),
        **{f"attack {name}": lambda share=share: 100 * share for name, share in group.held.items()},  # type: ignore[misc]
    }
    if column in known:
        return known[column]()
    if column.startswith("top "):
        return _top(group.records, int(column.split()[1]) / 100)
    records = [with_proxy(own) for own in group.records] if column.startswith("~") else group.records
    return 100 * float(envelope(records, [radius_of(column)])[0])


def radius_of(column: str) -> float:
    """The radius that a column names.

    >>> radius_of("0.25"), radius_of("~1.5"), radius_of("51/255")
    (0.25, 1.5, 0.2)
    """
    number, _, of = column.removeprefix("~").partition("/")
    return float(number) / float(of or 1)


def _area(runs: Sequence[Sequence[Record]]) -> float:
    """Under the envelope, up to the largest radius: for one run the average certified radius."""
    largest = max((record.radius for records in runs for record in records), default=0.0)
    return robustness_score(runs, largest).value if 0 < largest < math.inf else largest


def _top(runs: Sequence[Sequence[Record]], share: float) -> float:
    """The mean of this share of the radii, the largest; a wrong answer has none."""
    radii = sorted((r.radius if counts(r) else 0.0 for records in runs for r in records), reverse=True)
    return exact_mean(radii[: max(1, round(share * len(radii)))])


def _best(group: Group, rivals: Sequence[Group], value: str) -> float:
    of = attrgetter(value)
    return 100 * best_share(_best_sigma(group, value), [_best_sigma(rival, value) for rival in rivals], of)


def _best_sigma(group: Group, value: str) -> list[Record]:
    """For every input the record of the sigma that certifies most of the right answer."""
    of, best = attrgetter(value), dict[int, Record]()
    for record in (record for records in group.records for record in records):
        known = best.get(record.index)
        if known is None or (counts(record), of(record)) > (counts(known), of(known)):
            best[record.index] = record
    return [best[index] for index in sorted(best)]


def multiplied(records: Sequence[Record], times: float) -> tuple[Record, ...]:
    """The records with their radii in another unit."""
    return tuple(replace(r, radius=r.radius * times, proxy_radius=r.proxy_radius * times) for r in records)


def steps_of(records: Sequence[Sequence[Record]]) -> tuple[np.ndarray, np.ndarray]:
    """Every radius at which the envelope falls, and the certified accuracy there in percent."""
    radii = np.unique([0.0, *(record.radius for own in records for record in own)])
    return np.append(radii, radii[-1]), np.append(100 * envelope(records, radii.tolist()), 0.0)
