"""Runs beside each other: the envelope over sigmas, whose regions contain whose, and who is best on how many inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import permutations
from operator import attrgetter

from smoothcert.certificates import Soundness, weakest
from smoothcert.maths.geometry import percent_down
from smoothcert.metrics.curves import counts
from smoothcert.metrics.score import envelope
from smoothcert.metrics.supersets import best_share, certified_region, superset_share
from smoothcert.regions import Region
from smoothcert.report.runs import Line
from smoothcert.report.sheets import Sheet
from smoothcert.store import Place, ResultStore, open_run


def envelopes(lines: Sequence[Line], radii: Sequence[float]) -> Sheet | None:
    """The best certified accuracy over the sigmas of each family: one law, tuner, norm, label and the same inputs."""
    families: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        families.setdefault(_family(line), []).append(line)
    rows = []
    for family in families.values():
        if len({_setting(line, "scale") for line in family}) < 2:
            continue
        best = envelope([line.records for line in family], radii)
        accuracies = map(percent_down, best.tolist())
        runs = ", ".join(line.name for line in family)
        rows.append((runs, family[0].soundness.value, str(len(family)), *accuracies))
    header = ("runs", "label", "classifiers", *(f"{radius:g}" for radius in radii))
    note = "the best run at each radius: several classifiers, no single one reaches it"
    return Sheet("envelope over sigmas: certified accuracy in % at radius", header, tuple(rows), note) if rows else None


def supersets(lines: Sequence[Line]) -> Sheet | None:
    """For each ordered pair of lines on the same data: on how many common inputs the first certifies a superset.

    Lines against a threat or behind a front are left out, and imported ones: a log gives radii and not the regions, which may be larger than the balls of these radii.
    """
    plain = [line for line in lines if line.records[0].threat is None and line.records[0].front is None]
    own = [line for line in plain if line.soundness is not Soundness.IMPORTED]
    rows = []
    with ExitStack() as stack:
        stores = {place: stack.enter_context(open_run(place)) for place in dict.fromkeys(line.place for line in own)}
        for one, other in permutations(own, 2):
            if _setting(one, "data") != _setting(other, "data") or one.name == other.name:
                continue
            common = _common([one, other])
            if not common:
                continue
            share = superset_share(zip(_regions(one, stores, common), _regions(other, stores, common), strict=True))
            label = weakest([one.soundness, other.soundness]).value
            shares = map(percent_down, (share, _nothing([one, other], common)))
            rows.append((f"{one.name} ⊇ {other.name}", label, str(len(common)), *shares))
    header = ("regions", "label", "inputs", "superset, %", "where neither certifies, %")
    note = "shares of the common inputs; a wrong answer certifies nothing, and nothing is contained in everything"
    note += "; imported runs are left out, since a log does not hold the regions" if len(own) < len(plain) else ""
    return Sheet("supersets (ANCER, Definition 1)", header, tuple(rows), note) if rows else None


def best_of_all(lines: Sequence[Line]) -> Sheet | None:
    """On how many inputs each line is at least as good as every other of its data and norm (ANCER, Tables 4 and 5)."""
    rows = []
    for line in lines:
        others = [o for o in lines if o is not line and _setting(o, "data") == _setting(line, "data")]
        others = [o for o in others if o.records[0].against == line.records[0].against and o.name != line.name]
        common = _common([line, *others])
        if not others or not common:
            continue
        rivals = [o.records for o in others]
        shares = [best_share(line.records, rivals, attrgetter("radius"))]
        endless = any(record.proxy_radius is None for one in (line, *others) for record in one.records)
        shares.append(math.nan if endless else best_share(line.records, rivals, attrgetter("proxy_radius")))
        label = weakest([line.soundness, *(o.soundness for o in others)]).value
        cells = ["–" if math.isnan(share) else percent_down(share) for share in shares]
        cells.append(percent_down(_nothing([line, *others], common)))
        rows.append((line.name, label, str(len(others)), str(len(common)), *cells))
    header = (
        "run",
        "label",
        "rivals",
        "inputs",
        "radius is best, %",
        "proxy radius is best, %",
        "where none certifies, %",
    )
    return Sheet("at least as large as all others (ANCER, Tables 4 and 5)", header, tuple(rows)) if rows else None


def _family(line: Line) -> tuple[object, ...]:
    facts = tuple(_setting(line, name) for name in ("data", "law", "tuner", "norm", "domain", "alpha"))
    return (*facts, line.soundness, tuple(record.index for record in line.records))


def _setting(line: Line, name: str) -> object:
    return line.facts.get("configuration", {}).get(name)


def _common(lines: Sequence[Line]) -> set[int]:
    """The inputs that all lines hold."""
    return set.intersection(*({record.index for record in line.records} for line in lines))


def _nothing(lines: Sequence[Line], common: set[int]) -> float:
    """The share of these inputs on which no line certifies anything."""
    return len(common - {r.index for line in lines for r in line.records if counts(r)}) / len(common)


def _regions(line: Line, stores: dict[Place, ResultStore], indices: set[int]) -> Iterator[Region | None]:
    """One region at a time, since an array per input may be large."""
    store = stores[line.place]
    for record in line.records:  # by index, so that two lines go together
        if record.index in indices:
            yield certified_region(record, line.facts["shape"], store)
