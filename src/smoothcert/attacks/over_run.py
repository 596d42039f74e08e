"""Attack the certificates of a run, into its store: what is left to do, one finding after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import torch

import smoothcert
from smoothcert.attacks import DEFAULT, attack_named
from smoothcert.attacks.check import Effort, check
from smoothcert.data.base import Dataset
from smoothcert.data.selection import choose_indices
from smoothcert.errors import RunError, without_passwords
from smoothcert.identity import described
from smoothcert.maths.projections import check_projectable
from smoothcert.memory.memory import Memory
from smoothcert.memory.of_run import check_memory, memory_of
from smoothcert.records.findings import Finding
from smoothcert.records.record import Record, certificate_of
from smoothcert.run import check_same
from smoothcert.sight import Sight
from smoothcert.smoother import Smoother
from smoothcert.store import Place, directory_of, open_run


def attack_run(
    smoother: Smoother,
    dataset: Dataset,
    run: Place,
    effort: Effort,
    *,
    multiples: Sequence[float] = (1.0,),
    limit: int | None = None,
    indices: Sequence[int] | None = None,
    memory: Place | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Attack the first ``limit`` certificates of a run at each multiple of their radius, leaving out what was done.

    indices: those of these inputs instead, which must all be in the run. Done is what the same effort has tried on the same certificate, through the same memory.

    The findings depend on the run and the effort only, not on interruptions. memory: its file; by default the run's own,
    if it keeps promises, else the smoother's, if it settled the run. Smoother and data set must be those that were certified.
    """
    with open_run(run) as store:
        configuration = store.facts().get("configuration", {})
        check_same(configuration, smoother.identity | {"data": dataset.fingerprint()}, run)
        records = _chosen(list(store.records()), len(dataset), limit, indices, run)
        if not isinstance(smoother.noise, Sight):
            check_projectable(records[0].norm)
        if smoother.tuner.reads_input:  # the deployed predictor tunes with the references of the run
            smoother.refer_to(dataset)
        wanted = [(times, record) for times in multiples for record in records]
        with memory_of(store, memory, smoother.memory, norm=smoother.norm, owner=smoother.identity) as opened:
            check_memory(records, opened, run)
            words = _words(effort, opened, memory)
            done = {(f.times, f.index, f.label, f.radius) for f in store.findings(words)}
            for number, (times, record) in enumerate(wanted):
                if (times, record.index, record.label, record.region_radius * times) not in done:
                    x = torch.from_numpy(dataset.inputs([record.index]))[0]
                    certificate = certificate_of(record, smoother.center_of(x), store)
                    finding = check(certificate, smoother, x, record.index, effort, times, opened)
                    # How the certificates were voted on is the run's to say; a run that does not may have shared.
                    shared = bool(configuration.get("shared_noise", True))
                    store.keep(words, replace(finding, shared_noise=shared))
                if progress is not None:
                    progress(number + 1, len(wanted))
        asked = {(times, record.index) for times, record in wanted}
        return [finding for finding in store.findings(words) if (finding.times, finding.index) in asked]


def _chosen(
    records: Sequence[Record], length: int, limit: int | None, indices: Sequence[int] | None, run: Place
) -> list[Record]:
    """The certificates among these records: the first so many, or those of the inputs that were asked for."""
    if indices is not None:
        known = {record.index: record for record in records}
        asked = choose_indices(length, limit, indices=indices)
        if missing := [index for index in asked if index not in known]:
            raise RunError(f"input {missing[0]} is not in {run}; certify it first, or give inputs of the run")
        records = [known[index] for index in asked]
    certified = [record for record in records if record.label is not None or record.intervals][:limit]
    if not certified:
        of = "" if indices is None else " of these inputs"
        raise RunError(f"{run} holds no certificates{of}, so there is nothing to attack; certify some inputs first")
    return certified


def _words(effort: Effort, memory: Memory | None, named: Place | None) -> str:
    """How hard was tried, through which memory: a run's own goes where the run goes, another is told by its place."""
    path = None if named is None else directory_of(named)
    place = "own" if named is None else without_passwords(str(named)) if path is None else str(path.resolve())
    kept = None if memory is None else [place, len(memory)]
    attacks = [described(attack_named(name)) for name in effort.attacks or DEFAULT]
    facts = {"attacks": attacks, "memory": kept, "smoothcert": smoothcert.__version__}
    return json.dumps(asdict(effort) | facts, sort_keys=True)
