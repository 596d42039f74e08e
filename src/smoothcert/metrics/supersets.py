"""Which of two certificates of one input says more: supersets, and who is best (ANCER, Definition 1, Tables 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from smoothcert.metrics.curves import counts
from smoothcert.records.record import Arrays, Record, region_of
from smoothcert.regions import Region


def certified_region(record: Record, shape: Sequence[int], store: Arrays) -> Region | None:
    """What a record certifies in its norm, seen from its input; None where its answer does not count: nothing."""
    found = region_of(record, np.broadcast_to(0.0, tuple(shape)), store) if counts(record) else None
    return found if isinstance(found, Region) else None


def superset_share(pairs: Iterable[tuple[Region | None, Region | None]]) -> float:
    """The share of inputs whose first region contains the second; nothing certified is contained in everything.

    >>> ball = Region(np.zeros(2), np.ones(2), 1.0, norm=2)
    >>> superset_share([(ball, ball.resized(0.5)), (ball, None), (None, ball), (ball, ball.resized(2.0))])
    0.5
    """
    found = [inner is None or (outer is not None and outer.superset_of(inner)) for outer, inner in pairs]
    return float(np.mean(found)) if found else math.nan


def best_share(own: Sequence[Record], others: Sequence[Sequence[Record]], value: Callable[[Record], float]) -> float:
    """The share of inputs, common to all, on which the own value is at least every other's; wrong answers have zero."""
    tables = [{r.index: value(r) if counts(r) else 0.0 for r in records} for records in (own, *others)]
    common = set.intersection(*(set(table) for table in tables))
    first, rest = tables[0], tables[1:]
    return float(np.mean([all(first[i] >= t[i] for t in rest) for i in common])) if common else math.nan
