"""Several parts of a run, certified apart, as the one run that they are; settled by a memory afterwards, if asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from smoothcert.data.base import Dataset
from smoothcert.errors import RunError, SettingError
from smoothcert.identity import differences, name_for
from smoothcert.maths.grid import certified_point
from smoothcert.maths.overlap import check_convex
from smoothcert.memory.memory import Memory
from smoothcert.memory.of_run import is_missing, keeper_at, same_place
from smoothcert.plan import Plan
from smoothcert.records.record import Record, certificate_of, settled
from smoothcert.registry import parameters
from smoothcert.store import Keeper, Place, ResultStore, check_free, new_run, open_run, store_of
from smoothcert.store.base import Row

# What a run's configuration says beside its classifier, whose promises a memory keeps.
BESIDE = {
    "data",
    "norm",
    "select",
    "shared_noise",
    "check",
    "smoothcert",
    "torch",
    "numpy",
    "scipy",
    "processor",
    "memory",
}


def owner_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The deployed classifier of a run, as its memory knows it."""
    beside = {*BESIDE, *parameters(Plan), "estimator_content"}
    return {name: value for name, value in configuration.items() if name not in beside}


def merge(
    runs: Sequence[Place],
    out: Place,
    *,
    dataset: Dataset | None = None,
    memory: Place | None = None,
    notes: Mapping[str, Any] | None = None,
) -> int:
    """Put runs of one configuration and different inputs together into a new one; how many records it has.

    ``memory``, ``out`` itself or a place of its own, settles the certificates in the order of their indices: the same
    records and promises as one run would have made. It needs the ``dataset`` for the centers of the regions. Whatever is
    wrong with the runs is said before anything is written; what attacks found in them stays there.
    """
    check_free(out)
    with ExitStack() as stack:
        stores = [stack.enter_context(open_run(run)) for run in runs]
        facts = _common(runs, stores)
        where = _places(runs, stores)
        if memory is None:
            with new_run(out) as target:
                target.describe(facts | {"notes": dict(notes or {})})
                _copy(where, target, lambda record, _: record)
            return len(where)
        check_settles(facts["configuration"])
        if dataset is None:
            raise SettingError(
                "to settle, the inputs are needed: the regions lie around them; give the data set of the runs"
            )
        _check_whole(facts, where, dataset)
        _settle(where, facts | {"notes": dict(notes or {})}, out, memory, dataset)
    return len(where)


def check_settles(configuration: Mapping[str, Any]) -> None:
    """Refuse to settle certificates of this configuration by a memory of inputs; nothing else need be read for it."""
    if "front" in configuration:
        raise SettingError(
            "these parts are of a classifier behind a front, whose memory keeps regions of the front's numbers, and merge "
            "settles regions of inputs; leave --memory out, or certify all inputs in one run with --memory"
        )
    if {"stages", "task"} & configuration.keys():
        raise SettingError(
            "these parts are of a cascade or a regressor, whose answers go through no memory; leave --memory out"
        )
    check_convex(float(configuration["norm"]))


def _common(runs: Sequence[Place], stores: Sequence[ResultStore]) -> dict[str, Any]:
    """The facts of the one run, or a refusal."""
    if not runs:
        raise SettingError("there is nothing to merge; give the runs")
    all_facts = [store.facts() for store in stores]
    for run, facts in zip(runs, all_facts, strict=True):
        if "configuration" not in facts or "imported_from" in facts["configuration"]:
            raise RunError(f"{run} was not certified here, so it is no part of a run; give runs of smoothcert certify")
        changes = differences(all_facts[0]["configuration"], facts["configuration"])
        if changes:
            raise RunError(
                f"{run} is of another configuration than {runs[0]} ({'; '.join(changes)}); only parts of one run are merged: "
                "give those, or certify it anew with the same settings"
            )
        if "memory" in facts["configuration"]:
            raise RunError(
                f"{run} was settled by a memory, in the order of its own inputs; certify the parts without --memory, and "
                "settle them all by merge --memory"
            )
    subset = sorted({index for facts in all_facts for index in facts["subset"]})
    return all_facts[0] | {"subset": subset}


def _places(runs: Sequence[Place], stores: Sequence[ResultStore]) -> dict[int, ResultStore]:
    """Which store has the record of each input, by index; one that two have is refused."""
    found: dict[int, int] = {}
    for number, store in enumerate(stores):
        twice = sorted(store.indices() & found.keys())
        if twice:
            raise RunError(
                f"{runs[found[twice[0]]]} and {runs[number]} overlap: both hold input {twice[0]}"
                + (f" and {len(twice) - 1} more" if len(twice) > 1 else "")
                + "; give each part once, certified with --shard I/N of the same inputs"
            )
        found |= dict.fromkeys(store.indices(), number)
    return {index: stores[found[index]] for index in sorted(found)}


def _check_whole(facts: Mapping[str, Any], where: Mapping[int, ResultStore], dataset: Dataset) -> None:
    """Refuse to settle a part, or around other inputs: the order would not be that of one run, nor the regions."""
    left = sorted(set(facts["subset"]) - where.keys())
    if left:
        raise RunError(
            f"{len(left)} inputs were asked for and have no record yet (index {left[0]} is the first); settling goes by index, "
            "so let their part end first: give its command again"
        )
    here, there = dataset.fingerprint(), facts["configuration"]["data"]
    if here != there:
        raise RunError(
            f"the data set is not that of the runs ({there} there, {here} here); give the one they certified"
        )


def _settle(
    where: Mapping[int, ResultStore], facts: dict[str, Any], out: Place, memory: Place, dataset: Dataset
) -> None:
    """Copy, with every certificate settled in the order of the indices."""
    configuration = facts["configuration"] | {"memory": "settled"}
    bound: dict[str, Any] = {
        "dim": math.prod(dataset.shape),
        "norm": float(configuration["norm"]),
        "owner": owner_of(configuration),
    }
    inside = same_place(memory, out)
    if inside and not store_of(out).keeps_memory:
        raise SettingError(f"{out} can keep no memory; give the memory a file of its own")
    elsewhere = None if inside else _elsewhere(memory, bound)
    with new_run(out) as target:
        target.describe(facts | {"configuration": configuration})
        keeper = elsewhere or target.keeper(create=True)
        assert keeper is not None
        with Memory.open(keeper, **bound) as settler:
            _copy(
                where, target, lambda record, store: _settled(record, store, settler, dataset, name_for(configuration))
            )


def _elsewhere(memory: Place, bound: dict[str, Any]) -> Path | str | Keeper:
    """A memory of its own; one that is there already must be this classifier's."""
    found = keeper_at(memory)
    if not is_missing(found):
        Memory.open(found, **bound, create=False).close()
    return keeper_at(memory)


def _settled(record: Record, store: ResultStore, settler: Memory, dataset: Dataset, run: str) -> Record:
    center = certified_point(dataset.inputs([record.index])[0], record.domain)
    certificate = certificate_of(record, center, store)
    return settled(record, settler.settle(certificate, index=record.index, center=center, run=run), dataset.box)


def _copy(where: Mapping[int, ResultStore], target: ResultStore, made: Callable[[Record, ResultStore], Record]) -> None:
    """Arrays, records by index, seconds and pictures."""
    records = {store: {record.index: record for record in store.records()} for store in dict.fromkeys(where.values())}
    seconds = {store: store.seconds() for store in records}
    pictured = {store: set(store.pictured()) for store in records}
    for address, store in {a: s for s, own in records.items() for r in own.values() for a in r.addresses}.items():
        target.put(store.get(address))

    def rows() -> Iterator[Row]:
        for index, store in where.items():
            picture = store.picture(index) if index in pictured[store] else None
            yield made(records[store][index], store), seconds[store][index], picture

    target.append_all(rows())
