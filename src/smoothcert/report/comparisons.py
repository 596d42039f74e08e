"""Runs beside each other: the envelope over sigmas, whose regions contain whose, and who is best on how many inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import permutations
from operator import attrgetter
from pathlib import Path

from smoothcert.certificates import weakest
from smoothcert.maths.geometry import round_down
from smoothcert.metrics.score import envelope
from smoothcert.metrics.supersets import best_share, certified_region, superset_share
from smoothcert.recertify import scale_of
from smoothcert.regions import Region
from smoothcert.report.runs import Line
from smoothcert.report.sheets import Sheet
from smoothcert.store import SqliteStore, open_run


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
        accuracies = [round_down(100 * share, 1) for share in best.tolist()]
        runs = ", ".join(line.name for line in family)
        rows.append((runs, family[0].soundness.value, str(len(family)), *accuracies))
    header = ("runs", "label", "classifiers", *(f"{radius:g}" for radius in radii))
    note = "the best run at each radius: several classifiers, no single one reaches it"
    return Sheet("envelope over sigmas: certified accuracy in % at radius", header, tuple(rows), note) if rows else None


def supersets(directories: Sequence[Path | str], lines: Sequence[Line]) -> Sheet | None:
    """For each ordered pair of lines on the same data: on how many common inputs the first certifies a superset."""
    places = dict(zip(dict.fromkeys(line.name for line in lines), directories, strict=True))
    rows = []
    with ExitStack() as stack:
        stores = {name: stack.enter_context(open_run(place)) for name, place in places.items()}
        for one, other in permutations(lines, 2):
            if _setting(one, "data") != _setting(other, "data") or one.name == other.name:
                continue
            pairs = list(_indices(one, other))
            share = superset_share(zip(_regions(one, stores, pairs), _regions(other, stores, pairs), strict=True))
            label = weakest([one.soundness, other.soundness]).value
            if pairs:
                rows.append((f"{one.name} ⊇ {other.name}", label, str(len(pairs)), round_down(100 * share, 1)))
    note = "share of the common inputs; an input that is wrong or abstained certifies nothing"
    return (
        Sheet("supersets (ANCER, Definition 1)", ("regions", "label", "inputs", "%"), tuple(rows), note)
        if rows
        else None
    )


def best_of_all(lines: Sequence[Line]) -> Sheet | None:
    """On how many inputs each line is at least as good as every other of its data and norm (ANCER, Tables 4 and 5)."""
    rows = []
    for line in lines:
        others = [o for o in lines if o is not line and _setting(o, "data") == _setting(line, "data")]
        others = [o for o in others if o.records[0].norm == line.records[0].norm and o.name != line.name]
        if others:
            rivals = [o.records for o in others]
            shares = [
                best_share(line.records, rivals, value) for value in (attrgetter("radius"), attrgetter("proxy_radius"))
            ]
            label = weakest([line.soundness, *(o.soundness for o in others)]).value
            if not any(share != share for share in shares):
                rows.append((line.name, label, str(len(others)), *(round_down(100 * share, 1) for share in shares)))
    header = ("run", "label", "rivals", "radius is best, %", "proxy radius is best, %")
    return Sheet("at least as large as all others (ANCER, Tables 4 and 5)", header, tuple(rows)) if rows else None


def _family(line: Line) -> tuple[object, ...]:
    facts = tuple(_setting(line, name) for name in ("data", "law", "tuner", "norm", "domain", "alpha"))
    return (*facts, line.soundness, tuple(record.index for record in line.records))


def _setting(line: Line, name: str) -> object:
    return line.facts.get("configuration", {}).get(name)


def _indices(one: Line, other: Line) -> Iterator[int]:
    known = {record.index for record in other.records}
    return (record.index for record in one.records if record.index in known)


def _regions(line: Line, stores: dict[str, SqliteStore], indices: Sequence[int]) -> Iterator[Region | None]:
    """One region at a time, since an array per input may be large."""
    wanted, store = set(indices), stores[line.name]
    for record in line.records:
        if record.index in wanted:
            yield certified_region(record, scale_of(record, store), line.facts["shape"])
