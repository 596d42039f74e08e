"""Steps 1-8 over a data set: what is left to do, in which order, and one record after the other."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

import smoothcert
from smoothcert.data.base import Dataset
from smoothcert.errors import RunError, SettingError
from smoothcert.models import fingerprint
from smoothcert.records import Parameter, Record, record_of
from smoothcert.smoother import Batch, Poll, Smoother
from smoothcert.store import RESULTS, SqliteStore
from smoothcert.store.pictures import picture_of

Facts = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far a run is: inputs done of all that were asked for, and votes cast in this session of it."""

    done: int
    total: int
    votes: int


def describe(smoother: Smoother, dataset: Dataset) -> Facts:
    """All that changes a number: the run's configuration, whose hash is its name."""
    return {
        "model": fingerprint(smoother.model),
        "data": dataset.fingerprint(),
        "law": str(smoother.noise.law),
        "scale": _parameter_fact(smoother.noise.scale),
        "loc": _parameter_fact(smoother.noise.loc),
        "domain": smoother.noise.domain,
        "tuner": smoother.tuner.name,
        "norm": str(smoother.norm),
        "select": smoother.select,
        **json.loads(json.dumps(asdict(smoother.plan))),
        "seed": smoother.seed,
        "shared_noise": smoother.pollster.shared_noise,
        "channels_last": smoother.pollster.channels_last,
        "dtype": smoother.precision,
        "compiled": smoother.compiled,
        "device": smoother.device.type,
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
) -> Path:
    """Certify the chosen inputs of a data set into a run directory, leaving out what it already holds.

    The records do not depend on ``rows`` (inputs taken in at once), on interruptions or on the order of calls. A
    directory that holds another configuration is refused. ``notes`` (a command, a file's name) are kept beside it.
    """
    chosen = list(range(len(dataset)) if indices is None else indices)
    if len(set(chosen)) != len(chosen):
        raise SettingError("the indices repeat an input; each is certified once: leave out the repetitions")
    if smoother.noise.per_input(len(dataset.shape)):
        raise SettingError(
            "noise with a row per input belongs to one batch, not to a data set; give one scale for all, or a tuner"
        )
    facts = describe(smoother, dataset)
    directory = Path(directory)
    with _opened(directory, facts) as store:
        asked = sorted({*store.facts().get("subset", []), *chosen})
        store.describe(
            {"notes": dict(notes or {}), "subset": asked, "classes": dataset.classes, "shape": list(dataset.shape)}
        )
        known = store.indices()
        left = [index for index in chosen if index not in known]
        done, votes = len(chosen) - len(left), 0
        batches = (left[start : start + rows] for start in range(0, len(left), rows))
        for poll in smoother.polls(_loaded(dataset, indices) for indices in batches):
            record = record_poll(smoother, poll, dataset.truths([poll.index])[0], store)
            store.append(record, poll.seconds, picture_of(poll.x.cpu().numpy()))
            done, votes = done + 1, votes + record.trials + sum(record.selection)
            if progress is not None:
                progress(Progress(done, len(chosen), votes))
    return directory


def _loaded(dataset: Dataset, indices: Sequence[int]) -> Batch:
    return Batch(torch.from_numpy(dataset.inputs(indices)), indices, dataset.truths(indices))


def record_poll(smoother: Smoother, poll: Poll, truth: int | None, store: SqliteStore) -> Record:
    """The record of one input's votes; per-coordinate noise goes into the store by its hash."""

    def parameter(value: Tensor) -> Parameter:
        return float(value) if value.ndim == 0 else store.put(value.cpu().numpy())

    return record_of(
        smoother.conclude(poll),
        poll.ballot,
        index=poll.index,
        truth=truth,
        law=str(poll.noise.law),
        scale=parameter(poll.noise.scale),
        loc=parameter(poll.noise.loc),
        domain=poll.noise.domain,
        norm=smoother.norm,
        uniform=smoother.uniform_for(poll.index),
    )


def _parameter_fact(value: Tensor) -> Parameter:
    return float(value) if value.ndim == 0 else fingerprint_of(value)


def fingerprint_of(value: Tensor) -> str:
    """SHA-256 of a tensor's shape and content."""
    return hashlib.sha256(str(tuple(value.shape)).encode() + value.cpu().numpy().tobytes()).hexdigest()


def _opened(directory: Path, facts: Facts) -> SqliteStore:
    """The directory's store, new or of the same configuration."""
    path = directory / RESULTS
    if not path.is_file() and directory.exists() and (not directory.is_dir() or any(islice(directory.iterdir(), 1))):
        raise RunError(f"{directory} exists, is not empty and is not a run; give --out another directory")
    directory.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(path, create=True)
    found = store.claim("configuration", facts)
    if found != facts:
        store.close()
        keys = sorted({**found, **facts})
        changes = [
            f"{key}: {found.get(key)} there, {facts.get(key)} here" for key in keys if found.get(key) != facts.get(key)
        ]
        raise RunError(
            f"{directory} holds another configuration ({'; '.join(changes)}); "
            "give --out another directory, or the settings it was begun with"
        )
    return store
