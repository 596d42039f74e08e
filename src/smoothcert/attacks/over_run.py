"""Attack the certificates of a run, into its store: what is left to do, one finding after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

import smoothcert
from smoothcert.attacks.check import Effort, check
from smoothcert.bounds import Bound
from smoothcert.certificates import Certificate
from smoothcert.data.base import Dataset
from smoothcert.errors import RunError, SettingError
from smoothcert.findings import Finding
from smoothcert.identity import differences
from smoothcert.maths.projections import check_projectable
from smoothcert.memory import Memory
from smoothcert.records import Record
from smoothcert.regions import Region
from smoothcert.settling import memory_file
from smoothcert.smoother import Smoother
from smoothcert.store import SqliteStore
from smoothcert.store.attacked import AttackedRun


def attack_run(
    smoother: Smoother,
    dataset: Dataset,
    directory: Path | str,
    effort: Effort,
    *,
    multiples: Sequence[float] = (1.0,),
    limit: int | None = None,
    memory: Path | str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Attack the first ``limit`` certificates of a run at each multiple of their radius, leaving out what was done.

    Done is what the same effort has tried on the same certificate, through the same memory.

    The findings depend on the run and the effort only, not on interruptions. memory: its file; by default the run's own
    results, if they keep promises. Smoother and data set must be those that were certified.
    """
    with closing(AttackedRun(directory)) as store:
        check_same(
            store.facts().get("configuration", {}), smoother.identity | {"data": dataset.fingerprint()}, directory
        )
        records = [record for record in store.records() if record.label is not None][:limit]
        if not records:
            raise RunError(
                f"{directory} holds no certificates, so there is nothing to attack; certify some inputs first"
            )
        check_projectable(records[0].norm)
        if smoother.tuner.reads_input:  # the deployed predictor tunes with the references of the run
            smoother.refer_to(dataset)
        source = memory or (store.path if store.keeps_promises else None)
        check_memory(records, source, directory)
        wanted = [(times, record) for times in multiples for record in records]
        with nullcontext() if source is None else opened_memory(source, smoother) as opened:
            # Its own memory goes where the run goes; another is told by its place.
            place = None if opened is None else ["own" if memory is None else str(Path(memory).resolve()), len(opened)]
            words = json.dumps(asdict(effort) | {"memory": place, "smoothcert": smoothcert.__version__}, sort_keys=True)
            done = {(f.times, f.index, f.label, f.radius) for f in store.findings(words)}
            for number, (times, record) in enumerate(wanted):
                if (times, record.index, record.label, record.region_radius * times) not in done:
                    x = torch.from_numpy(dataset.inputs([record.index]))[0]
                    certificate = certificate_of(record, smoother, x, store)
                    finding = check(certificate, smoother, x, record.index, effort, times, opened)
                    store.keep(words, finding)
                if progress is not None:
                    progress(number + 1, len(wanted))
        asked = {(times, record.index) for times, record in wanted}
        return [finding for finding in store.findings(words) if (finding.times, finding.index) in asked]


def certificate_of(record: Record, smoother: Smoother, x: torch.Tensor, store: SqliteStore) -> Certificate:
    """The certificate that a record stands for, at its input."""
    scale = np.array(record.scale) if isinstance(record.scale, float) else store.get(record.scale)
    region = Region(smoother.noise.center_of(x), scale, record.region_radius, record.norm)
    bound = Bound(record.lower, record.alpha, record.trials, record.upper)
    return Certificate(record.label, bound, region, record.soundness, record.rule)


def opened_memory(path: Path | str, smoother: Smoother) -> Memory:
    """An existing memory of this classifier; one that is missing must not be made here, since it would promise nothing."""
    file = memory_file(path)
    if not file.is_file():
        raise SettingError(f"there is no memory at {path}; give the file that the certificates were settled in")
    return Memory.open(file, norm=smoother.norm, owner=smoother.identity, create=False)


def check_memory(records: Sequence[Record], source: Path | str | None, directory: Path | str) -> None:
    if source is None and any(record.soundness == "memory" for record in records):
        raise RunError(
            f"{directory} holds certificates that a memory keeps, but no memory; give its file with --memory, since "
            "they speak of queries that go through it"
        )


def check_same(found: dict[str, object], here: dict[str, object], directory: Path | str) -> None:
    """Refuse anything but the predictor and the data that were certified."""
    changes = differences({name: value for name, value in found.items() if name in here}, here)
    if changes:
        raise RunError(
            f"this is not what {directory} certified ({'; '.join(changes)}); give the model and data of the run"
        )
