"""Steps 1-8 over a data set: what is left to do, in which order, and one record after the other."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from smoothcert.certificates import Certificate
from smoothcert.data.base import Dataset
from smoothcert.data.guests import as_dataset
from smoothcert.errors import ModelError, NotFixed, RunError, SettingError
from smoothcert.forecast import warn_of_reach
from smoothcert.identity import described, differences, name_for
from smoothcert.linear import LinearRegion
from smoothcert.maths.overlap import check_convex
from smoothcert.memory.memory import Memory
from smoothcert.memory.of_run import check_kept, is_missing, keeper_at, same_place
from smoothcert.plan import ALL_VIEWS
from smoothcert.progress import progress_of
from smoothcert.records.record import Parameter, Record, record_of
from smoothcert.smoother import Batch, FixedNoise, Poll, Smoother, machine_facts
from smoothcert.store import VOID, Keeper, Place, ResultStore, check_not_void, opened
from smoothcert.store.base import Row
from smoothcert.store.pictures import picture_of

TOGETHER = 0.25  # seconds in which quick records are gathered for one write
Facts = dict[str, Any]
Given = TypeVar("Given", bound=Place)


@dataclass(frozen=True)
class Progress:
    """How far a run is: inputs done of all that were asked for; votes cast in this session of it."""

    done: int
    total: int
    votes: int


def describe(smoother: Smoother, dataset: Dataset) -> Facts:
    """All that changes a number: the run's configuration, whose hash is its name."""
    shape = smoother.behind(dataset).shape
    smoother.suit(shape)
    guest = described(smoother.estimator)
    return {
        **({} if guest == smoother.plan.estimator else {"estimator_content": guest}),
        **smoother.identity,
        "data": dataset.fingerprint(),
        "norm": str(smoother.norm),
        **smoother.aim.facts,
        "select": smoother.select,
        **json.loads(json.dumps(asdict(smoother.plan))),
        **smoother.aim.facts_of_votes(shape),
        "shared_noise": smoother.engine.shared_noise,
        "check": smoother.check,
        **machine_facts(),
    }


def certify_all(
    smoother: Smoother,
    dataset: Any,
    store: Given,
    *,
    indices: Sequence[int] | None = None,
    rows: int = 64,
    notes: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | bool | None = None,
    memory: Place | None = None,
) -> Given:
    """Certify the chosen inputs of a data set into a store, leaving out what it already holds; returns ``store``.

    The records do not depend on ``rows`` (inputs taken in at once) or on interruptions, nor on the order of calls, but
    for a memory: it settles in the order in which it is asked. A store that holds another configuration is refused. ``notes`` (a command, a file's name) are kept beside it.

    ``dataset`` is any data that ``sc.as_dataset`` takes: arrays, a torch Dataset or DataLoader, a data frame, a name, …; an
    input's index is its position there, whatever the order of a loader.

    ``progress`` is told after every input; True shows a bar on a terminal and in a notebook, elsewhere a line now and then.

    ``store`` is a run directory, another store as name:key=value, or an open store, which is left open.

    ``memory`` settles every certificate, in the order of the indices: a file of its own, which runs of one classifier
    may share, or the run itself; by default the smoother's own, if it has one.

    The classifier is probed before the first vote of every session and asked again at its end. One that changed meanwhile
    is refused with NotFixed, and the run, with its memory, is void: nothing reads it any more.
    """
    dataset = _adapted(dataset, smoother)
    seen = smoother.behind(dataset)
    if isinstance(progress, bool):
        with _shown(progress) as told:
            return certify_all(
                smoother, dataset, store, indices=indices, rows=rows, notes=notes, progress=told, memory=memory
            )
    chosen = list(range(len(dataset)) if indices is None else indices)
    if len(set(chosen)) != len(chosen):
        raise SettingError("the indices repeat an input; each is certified once: leave out the repetitions")
    if smoother.noise.per_input(len(seen.shape)):
        raise SettingError(
            "noise with a row per input belongs to one batch, not to a data set; give one scale for all, or a tuner"
        )
    if memory is not None and not smoother.is_plain:
        raise SettingError(
            "a memory keeps what noise of an input's own promised, and a regressor or cascade has none; leave it out"
        )
    facts = describe(smoother, dataset)
    smoother.tuner.check(facts)
    if chosen:
        smoother.probe(_loaded(smoother, seen, chosen[:1]))  # a classifier that is refused leaves no run behind
    check_classes(smoother, seen, chosen)
    warn_of_reach(smoother, seen.shape)
    smoother.driver.executor.open(smoother)
    with _opened_both(smoother, seen, store, facts, memory) as (run, settler):
        known = run.indices()
        left = [index for index in (chosen if settler is None else sorted(chosen)) if index not in known]
        about = {"notes": dict(notes or {}), **_named(smoother, dataset), **norms_behind(smoother)}
        begin = partial(_begin, run, facts, store, about, chosen)
        begun = not left or "configuration" in run.facts()
        if begun:
            begin()
        done, votes = len(chosen) - len(left), 0
        batches = (left[start : start + rows] for start in range(0, len(left), rows))
        # All views of an input may take less than to sync its record; what a memory settled must be kept at once.
        patience = TOGETHER if smoother.aim.complete and settler is None else 0.0
        with _probed(smoother, run, settler), _keeping(run, patience) as keep:
            if left:
                smoother.refer_to(dataset)
            for poll in smoother.polls(_loaded(smoother, seen, indices) for indices in batches):
                certificate = smoother.conclude(poll)
                if not begun:  # a start that fails before leaves the run to any configuration
                    begin()
                    begun = True
                if settler is not None:
                    center = poll.noise.center_of(poll.x)
                    certificate = settler.settle(certificate, index=poll.index, center=center, run=name_for(facts))
                x = poll.x if seen is dataset else torch.from_numpy(dataset.inputs([poll.index]))[0]
                certificate = smoother.about_input(certificate, x)
                record = record_poll(smoother, poll, certificate, dataset, run)
                keep((record, poll.seconds, picture_of(x.cpu().numpy())))
                done, votes = done + 1, votes + record.trials + sum(record.selection)
                if progress is not None:
                    progress(Progress(done, len(chosen), votes))
    return store


def norms_behind(smoother: Smoother) -> dict[str, Any]:
    """‖B‖ from l1, l2 and l∞ to the norm of the certificates, where one B = U/scale shapes them all: what a radius is divided by."""
    if smoother.front is None or not isinstance(smoother.tuner, FixedNoise):
        return {}
    matrix, scale = smoother.front.matrix, smoother.noise.scale.cpu().numpy()
    shared = LinearRegion.behind(np.zeros(matrix.shape[1]), matrix, scale, 1.0, smoother.norm).map
    return {"front_norms": {f"{norm:g}": shared.norm(norm, smoother.norm) for norm in (1.0, 2.0, math.inf)}}


@contextmanager
def _keeping(store: ResultStore, patience: float) -> Iterator[Callable[[Row], None]]:
    """What appends a row to the store: at once, or with all that come within ``patience`` seconds in one write."""
    if not patience:
        yield lambda row: store.append(*row)
        return
    waiting: list[Row] = []
    last = -math.inf

    def write() -> None:
        rows, waiting[:] = waiting[:], []
        store.append_all(rows)

    def keep(row: Row) -> None:
        nonlocal last
        waiting.append(row)
        if perf_counter() - last >= patience:
            write()
            last = perf_counter()

    try:
        yield keep
    finally:
        if waiting:
            write()


def _named(smoother: Smoother, dataset: Dataset) -> dict[str, Any]:
    """What data and network are called, for people: no part of what tells one run from another."""
    network = smoother.model.model
    return {
        "data_name": dataset.name,
        "class_names": list(dataset.class_names),
        "network": getattr(network, "__name__", type(network).__name__),
        "classes": dataset.classes,
        "shape": list(dataset.shape),
    }


def _adapted(data: Any, smoother: Smoother) -> Dataset:
    """The data set; of data that was not known to be pixels it is said if they are, and the noise ignores it."""
    dataset = as_dataset(data)
    if dataset is not data and dataset.grid is not None and smoother.noise.grid is None:
        warnings.warn(
            "the inputs are 8-bit pixels k/255, and the noise has no grid, so certificates hold up to float arithmetic; give the noise "
            "grid=1/255 for certificates that hold exactly",
            stacklevel=3,
        )
    return dataset


@contextmanager
def _shown(wanted: bool) -> Iterator[Callable[[Progress], None] | None]:
    """What shows how far a run is, if that is wanted."""
    if not wanted:
        yield None
        return
    with progress_of("certify") as tell:
        yield lambda progress: tell(progress.done, progress.total)


def check_classes(smoother: Smoother, dataset: Dataset, indices: Sequence[int]) -> None:
    """Refuse labels that the network does not have, and say if it has another number of classes than the data."""
    if dataset.classes is None or not indices:
        return
    classes = smoother.count_classes(torch.from_numpy(dataset.inputs(indices[:1])))
    if classes is None:
        return
    largest = max((truth for truth in dataset.truths(indices) if truth is not None), default=0)
    if largest >= classes:
        raise ModelError(
            f"the network has {classes} classes, 0 to {classes - 1}, and {dataset.name!r} has an input of class {largest}; give "
            "data that is numbered as the network's classes are (for a folder: classes=…)"
        )
    if classes != dataset.classes:
        warnings.warn(
            f"the network has {classes} classes and {dataset.name!r} {dataset.classes}; unless these are numbered as the network's "
            "are, every accuracy is wrong: a folder's are numbered by classes=…",
            stacklevel=3,
        )


@contextmanager
def _probed(smoother: Smoother, store: ResultStore, memory: Memory | None) -> Iterator[None]:
    """Keep what the probe of the classifier found; if it changed while it voted, the run and its memory are void."""
    known = store.indices()
    try:
        yield
    except NotFixed as problem:
        if store.indices() != known:
            store.describe({VOID: str(problem)})
            if memory is not None:
                memory.void(str(problem))
        raise
    if smoother.probes:
        store.describe({"probe": [probe.facts for probe in smoother.probes.values()]})


def _loaded(smoother: Smoother, dataset: Dataset, indices: Sequence[int]) -> Batch:
    return Batch(torch.from_numpy(dataset.inputs(indices)), indices, smoother.truths_of(dataset, indices))


def record_poll(
    smoother: Smoother, poll: Poll, certificate: Certificate, dataset: Dataset, store: ResultStore
) -> Record:
    """The record of one input's votes and the certificate given out; per-coordinate noise goes into the store by its hash."""

    def parameter(value: Tensor) -> Parameter:
        return float(value) if value.ndim == 0 else store.put(value.cpu().numpy())

    record = record_of(
        certificate,
        poll.ballot,
        index=poll.index,
        truth=smoother.truths_of(dataset, [poll.index])[0],
        law=str(poll.noise.named),
        scale=parameter(poll.noise.scale),
        loc=parameter(poll.noise.loc),
        domain=smoother.domain,
        norm=smoother.aim.against,
        stopped=ALL_VIEWS if certificate.exact else smoother.estimator.stopped(smoother.plan, certificate.bound.trials),
        uniform=smoother.uniform_for(poll.index),
        # What a memory answers instead is no answer under this noise.
        echo=poll.echo if certificate.label == int(poll.ballot.selection.leaders()[0]) else None,
        box=dataset.box,
        front=None if smoother.front is None else (store.put(smoother.front.matrix), smoother.front.slack),
    )
    return replace(record, **smoother.own_facts(poll, dataset))


@contextmanager
def _opened_both(
    smoother: Smoother, dataset: Dataset, run: Place, facts: Facts, place: Place | None
) -> Iterator[tuple[ResultStore, Memory | None]]:
    """The run's store and its memory, if any; what is wrong with an existing memory is said before a run is made."""
    memory = smoother.memory
    if memory is not None and place is not None:
        raise SettingError(f"the smoother has a memory, and {place} is another; give one of them")
    with ExitStack() as stack:
        store = stack.enter_context(opened(run))
        if memory is not None and store.lasting and not memory.lasting:
            raise SettingError(
                "the smoother's memory ends with this program, and the records of a run do not; "
                "give Memory.open(path), or certify_all(…, memory=directory)"
            )
        if memory is None and place is None:
            _check_own(store, facts, run)
            yield store, None
            return
        facts["memory"] = "settled"
        inside = place is not None and same_place(place, run)
        if inside and not store.keeps_memory:
            raise SettingError(
                f"{store} can keep no memory; give it a file of its own: --memory FILE (in Python memory=FILE)"
            )

        def bound(keeper: Path | str | Keeper, create: bool) -> Memory:
            dim, norm = math.prod(dataset.shape), smoother.norm
            return stack.enter_context(Memory.open(keeper, dim=dim, norm=norm, owner=smoother.identity, create=create))

        check_convex(smoother.norm)
        elsewhere = None if place is None or inside else keeper_at(place)
        if elsewhere is not None and not is_missing(elsewhere):
            memory = bound(elsewhere, create=False)
        _check_own(store, facts, run)
        if memory is None:
            keeper = elsewhere or store.keeper(create=True)
            assert keeper is not None
            memory = bound(keeper, create=True)
        check_kept(memory, name_for(facts), store.records(), run)
        yield store, memory


def _check_own(store: ResultStore, facts: Facts, run: Place) -> None:
    """Refuse a place that cannot be written, and a run that is void or of another configuration; it may have none yet."""
    if store.begun:
        check_not_void(store)
        _check_configuration(store.facts().get("configuration", facts), facts, run)
    store.claim("began", datetime.now(UTC).isoformat(timespec="seconds"))


def _begin(store: ResultStore, facts: Facts, run: Place, about: Facts, chosen: Sequence[int]) -> None:
    """Make the run that of this configuration, in one step before its first record, so that it holds no record of another."""
    _check_configuration(store.claim("configuration", facts), facts, run)
    store.describe(about)
    store.enlarge("subset", chosen)


def _check_configuration(found: Facts, facts: Facts, run: Place) -> None:
    if found != facts:
        raise RunError(
            f"{run} holds another configuration ({'; '.join(differences(found, facts))}); "
            "give --out another directory, or the settings it was begun with"
        )


def check_same(found: Mapping[str, object], here: Mapping[str, object], run: Place) -> None:
    """Refuse anything but the predictor and the data that were certified."""
    changes = differences({name: value for name, value in found.items() if name in here}, here)
    if changes:
        raise RunError(f"this is not what {run} certified ({'; '.join(changes)}); give the model and data of the run")
