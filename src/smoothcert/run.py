"""Steps 1-8 over a data set: what is left to do, in which order, and one record after the other."""

from __future__ import annotations

import json
import math
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

import smoothcert
from smoothcert.certificates import Certificate
from smoothcert.data.base import Dataset
from smoothcert.errors import ModelError, NotFixed, RunError, SettingError
from smoothcert.identity import differences, name_for
from smoothcert.maths.overlap import check_convex
from smoothcert.memory import Memory
from smoothcert.polling import make_fixed
from smoothcert.records import Parameter, Record, record_of
from smoothcert.settling import check_kept, memory_file
from smoothcert.smoother import Batch, Poll, Smoother
from smoothcert.store import RESULTS, VOID, SqliteStore, check_not_void
from smoothcert.store.pictures import picture_of

Facts = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far a run is: inputs done of all that were asked for; votes cast in this session of it."""

    done: int
    total: int
    votes: int


def describe(smoother: Smoother, dataset: Dataset) -> Facts:
    """All that changes a number: the run's configuration, whose hash is its name."""
    smoother.suit(dataset.shape)
    return {
        **smoother.identity,
        "data": dataset.fingerprint(),
        "norm": str(smoother.norm),
        "select": smoother.select,
        **json.loads(json.dumps(asdict(smoother.plan))),
        "shared_noise": smoother.pollster.shared_noise,
        "check": smoother.check,
        "smoothcert": smoothcert.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "processor": platform.machine(),
    }


def certify_all(
    smoother: Smoother,
    dataset: Dataset,
    directory: Path | str,
    *,
    indices: Sequence[int] | None = None,
    rows: int = 64,
    notes: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    memory: Path | str | None = None,
) -> Path:
    """Certify the chosen inputs of a data set into a run directory, leaving out what it already holds.

    The records do not depend on ``rows`` (inputs taken in at once) or on interruptions, nor on the order of calls, but
    for a memory: it settles in the order in which it is asked. A directory that holds another configuration is refused. ``notes`` (a command, a file's name) are kept beside it.

    ``memory`` settles every certificate, in the order of the indices: a file of its own, which runs of one classifier
    may share, or the run directory itself; by default the smoother's own, if it has one.

    The classifier is probed before the first vote of every session and asked again at its end. One that changed meanwhile
    is refused with NotFixed, and the directory, with its memory, is void: nothing reads it any more.
    """
    chosen = list(range(len(dataset)) if indices is None else indices)
    if len(set(chosen)) != len(chosen):
        raise SettingError("the indices repeat an input; each is certified once: leave out the repetitions")
    if smoother.noise.per_input(len(dataset.shape)):
        raise SettingError(
            "noise with a row per input belongs to one batch, not to a data set; give one scale for all, or a tuner"
        )
    facts, directory = describe(smoother, dataset), Path(directory)
    smoother.tuner.check(facts)
    if chosen:
        smoother.probe(_loaded(dataset, chosen[:1]))  # a classifier that is refused leaves no directory behind
    check_classes(smoother, dataset, chosen)
    with _opened_both(smoother, dataset, directory, facts, memory) as (store, settler):
        asked = sorted({*store.facts().get("subset", []), *chosen})
        store.describe(
            {"notes": dict(notes or {}), "subset": asked, "classes": dataset.classes, "shape": list(dataset.shape)}
        )
        known = store.indices()
        left = [index for index in (chosen if settler is None else sorted(chosen)) if index not in known]
        done, votes = len(chosen) - len(left), 0
        batches = (left[start : start + rows] for start in range(0, len(left), rows))
        with _probed(smoother, store, settler):
            if left:
                smoother.refer_to(dataset)
            for poll in smoother.polls(_loaded(dataset, indices) for indices in batches):
                certificate = smoother.conclude(poll)
                if settler is not None:
                    center = poll.noise.center_of(poll.x)
                    certificate = settler.settle(certificate, index=poll.index, center=center, run=name_for(facts))
                record = record_poll(smoother, poll, certificate, dataset.truths([poll.index])[0], store)
                store.append(record, poll.seconds, picture_of(poll.x.cpu().numpy()))
                done, votes = done + 1, votes + record.trials + sum(record.selection)
                if progress is not None:
                    progress(Progress(done, len(chosen), votes))
    return directory


def check_classes(smoother: Smoother, dataset: Dataset, indices: Sequence[int]) -> None:
    """Refuse labels that the network does not have, and say if it has another number of classes than the data."""
    if dataset.classes is None or not indices:
        return
    make_fixed(smoother.model)
    x = torch.from_numpy(dataset.inputs(indices[:1])).to(smoother.device)
    with torch.inference_mode():
        classes = smoother.pollster.classify(x.repeat(smoother.plan.block, *[1] * (x.ndim - 1))).shape[1]
    largest = max((truth for truth in dataset.truths(indices) if truth is not None), default=0)
    if largest >= classes:
        raise ModelError(
            f"the network has {classes} classes, 0 to {classes - 1}, and {dataset.name!r} has an input of class {largest}; give "
            "data that is numbered as the network's classes are (for a folder: --classes)"
        )
    if classes != dataset.classes:
        warnings.warn(
            f"the network has {classes} classes and {dataset.name!r} {dataset.classes}; unless these are numbered as the network's "
            "are, every accuracy is wrong: a folder's are numbered by --classes",
            stacklevel=3,
        )


@contextmanager
def _probed(smoother: Smoother, store: SqliteStore, memory: Memory | None) -> Iterator[None]:
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


def _loaded(dataset: Dataset, indices: Sequence[int]) -> Batch:
    return Batch(torch.from_numpy(dataset.inputs(indices)), indices, dataset.truths(indices))


def record_poll(
    smoother: Smoother, poll: Poll, certificate: Certificate, truth: int | None, store: SqliteStore
) -> Record:
    """The record of one input's votes and the certificate given out; per-coordinate noise goes into the store by its hash."""

    def parameter(value: Tensor) -> Parameter:
        return float(value) if value.ndim == 0 else store.put(value.cpu().numpy())

    return record_of(
        certificate,
        poll.ballot,
        index=poll.index,
        truth=truth,
        law=str(poll.noise.law),
        scale=parameter(poll.noise.scale),
        loc=parameter(poll.noise.loc),
        domain=poll.noise.domain,
        norm=smoother.norm,
        stopped=smoother.plan.stopped(certificate.bound.trials),
        uniform=smoother.uniform_for(poll.index),
        # What a memory answers instead is no answer under this noise.
        echo=poll.echo if certificate.label == int(poll.ballot.selection.leaders()[0]) else None,
    )


@contextmanager
def _opened_both(
    smoother: Smoother, dataset: Dataset, directory: Path, facts: Facts, place: Path | str | None
) -> Iterator[tuple[SqliteStore, Memory | None]]:
    """The run's store and its memory, if any; what is wrong with an existing memory is said before a run is made."""
    own = smoother.memory
    if own is not None and place is not None:
        raise SettingError(f"the smoother has a memory, and memory={place} names another; give one of them")
    if own is not None and own.path is None:
        raise SettingError(
            "the smoother's memory ends with this program, and the records of a run do not; "
            "give Memory.open(path), or certify_all(…, memory=directory)"
        )
    with ExitStack() as stack:
        if own is None and place is None:
            yield stack.enter_context(_opened(directory, facts)), None
            return
        facts["memory"] = "settled"
        inside = place is not None and Path(place).resolve() == directory.resolve()

        def opened(path: Path, create: bool) -> Memory:
            dim, norm = math.prod(dataset.shape), smoother.norm
            return stack.enter_context(Memory.open(path, dim=dim, norm=norm, owner=smoother.identity, create=create))

        check_convex(smoother.norm)
        memory = own
        if place is not None and not inside and Path(place).exists():
            memory = opened(memory_file(place), create=False)
        store = stack.enter_context(_opened(directory, facts))
        if memory is None:
            assert place is not None
            memory = opened(directory / RESULTS if inside else Path(place), create=True)
        check_kept(memory, name_for(facts), store.records(), directory)
        yield store, memory


def _opened(directory: Path, facts: Facts) -> SqliteStore:
    """The directory's store, new or of the same configuration."""
    path = directory / RESULTS
    if not path.is_file() and directory.exists() and (not directory.is_dir() or any(islice(directory.iterdir(), 1))):
        raise RunError(f"{directory} exists, is not empty and is not a run; give --out another directory")
    directory.mkdir(parents=True, exist_ok=True)
    store = check_not_void(SqliteStore(path, create=True))
    found = store.claim("configuration", facts)
    if found != facts:
        store.close()
        raise RunError(
            f"{directory} holds another configuration ({'; '.join(differences(found, facts))}); "
            "give --out another directory, or the settings it was begun with"
        )
    return store
