"""A column of a published table, measured on runs: accuracies over the envelope of sigmas, areas, shares, seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from smoothcert.certificates import Soundness, weakest
from smoothcert.maths.geometry import decimal_of, exact_mean
from smoothcert.metrics.curves import counts
from smoothcert.metrics.score import envelope, robustness_score
from smoothcert.metrics.supersets import best_share
from smoothcert.records.record import Record
from smoothcert.report.figures import with_proxy
from smoothcert.report.runs import Run

Records = Sequence[Sequence[Record]]  # of the runs of one row, a sigma each


@dataclass(frozen=True)
class Group:
    """The runs of one row, their records in the norm of the table, and the share that each attack left unbroken."""

    runs: tuple[Run, ...]
    records: Records
    held: Mapping[str, float]

    @property
    def label(self) -> Soundness:
        """What the row is worth: the weakest of all its certificates."""
        return weakest(line.soundness for run in self.runs for line in run.lines)


def is_share(column: str) -> bool:
    """Is the column in percent?"""
    return column not in ("ACR", "proxy ACR", "score", "seconds") and not column.startswith(("top ", "p = "))


def measured(column: str, group: Group, rivals: Sequence[Group]) -> float:
    """The number of a row in a column; shares in percent.

    ``0.5`` or ``2/255``: certified accuracy at this radius, ``~0.5`` at this proxy radius; ``ACR`` and ``score``: the area
    under it; each of the best sigma at every radius. ``best radius``, ``best proxy``: the share of inputs on which the best
    sigma of this method is at least that of every rival.
    """
    known: dict[str, Callable[[], float]] = {
        "ACR": lambda: _area(group.records),
        "score": lambda: _area(group.records),
        "proxy ACR": lambda: _area(proxied(group.records)),
        "seconds": lambda: exact_mean([s for run in group.runs for line in run.lines for s in line.seconds]),
        "best radius": lambda: _best("radius", group, rivals),
        "best proxy": lambda: _best("proxy_radius", group, rivals),
    }
    kind, _, rest = column.partition(" ")
    if column in known:
        return known[column]()
    if kind == "attack":
        return _percent(group.held[rest])
    if kind == "top":
        return _top(group.records, int(rest.removesuffix(" %")) / 100)
    records = proxied(group.records) if column.startswith("~") else group.records
    return _percent(float(envelope(records, [radius_of(column)])[0]))


def _percent(share: float) -> float:
    """A share in percent: 29 of 0.29, where 100 · 0.29 is a little less.

    >>> _percent(0.29), 100 * 0.29
    (29.0, 28.999999999999996)
    """
    return float(decimal_of(share).scaleb(2))


def proxied(runs: Records) -> Records:
    """The records with their proxy radii in the place of the radii."""
    return [with_proxy(records) for records in runs]


def radius_of(column: str) -> float:
    """The radius that a column names.

    >>> radius_of("0.25"), radius_of("~1.5"), radius_of("51/255")
    (0.25, 1.5, 0.2)
    """
    number, _, of = column.removeprefix("~").partition("/")
    return float(number) / float(of or 1)


def _area(runs: Records) -> float:
    """Under the envelope, up to the largest radius: for one run the average certified radius."""
    largest = max(record.radius for records in runs for record in records)
    return robustness_score(runs, largest).value if 0 < largest < math.inf else largest


def _top(runs: Records, share: float) -> float:
    """The mean of this share of the radii, the largest; a wrong answer has none."""
    radii = sorted((r.radius if counts(r) else 0.0 for records in runs for r in records), reverse=True)
    return exact_mean(radii[: max(1, round(share * len(radii)))])


def _best(name: str, group: Group, rivals: Sequence[Group]) -> float:
    value = attrgetter(name)

    def of_best_sigma(runs: Records) -> list[Record]:
        return [max(of_input, key=lambda r: (counts(r), value(r))) for of_input in zip(*runs, strict=True)]

    own, *others = (of_best_sigma(each.records) for each in (group, *rivals))
    return _percent(best_share(own, others, value))
