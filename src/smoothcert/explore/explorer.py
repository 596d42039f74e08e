"""What the page asks for, answered one question at a time on one thread."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from smoothcert.cascade import Cascade
from smoothcert.certificates import Soundness
from smoothcert.data.base import Dataset
from smoothcert.errors import InputError, RunError, SmoothcertError
from smoothcert.explore import views
from smoothcert.explore.directions import Axes, axes_of
from smoothcert.explore.slices import SIZE, Asked, described, flips, landscape
from smoothcert.explore.specimen import Specimen
from smoothcert.maths import FloatArray
from smoothcert.memory.memory import Memory
from smoothcert.memory.of_run import check_memory, memory_of
from smoothcert.records.record import check_classes
from smoothcert.report.marks import rank, speaks_of
from smoothcert.report.runs import read_runs
from smoothcert.run import check_same, describe
from smoothcert.smoother import Smoother
from smoothcert.store import Place, check_filled, open_run
from smoothcert.threats import Threat

KEPT = 100  # slices, specimens, pairs of axes and stopped tickets
PATIENCE = 10.0  # seconds after which who does not ask any more has gone
Value = TypeVar("Value")


@dataclass(eq=False)
class Job:
    """A slice under way: the cells that are done, what came of it or went wrong, and who waits for it."""

    done: int = 0
    found: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    whole: bool = False
    waiting: dict[str, float] = field(default_factory=dict)  # ticket -> when it last asked

    @property
    def wanted(self) -> bool:
        """Does anybody still wait? Who has not asked for a while has gone."""
        return any(time.monotonic() - last < PATIENCE for last in self.waiting.values())

    @property
    def state(self) -> dict[str, Any]:
        """How far it is, and as much of the slice as there is."""
        found = {"slice": self.found} if self.done else {}
        return {"done": self.done, "total": SIZE**2, "whole": self.whole, "problem": self.problem, **found}


class Explorer:
    """One run with its classifier and data, and everything the page may ask about it.

    The classifier and the files are only used on a thread of its own. A slice is many small tasks there, so that other
    questions are answered while it grows.
    """

    def __init__(self, smoother: Smoother, dataset: Dataset, run: Place, memory: Place | None = None) -> None:
        [self.run] = read_runs([run])
        check_filled(run, self.run.lines)
        check_classes(run, self.run.records)
        if isinstance(smoother, Cascade):
            raise RunError(f"{run} is of a cascade, which has no one noise to look into; see smoothcert report")
        if any(line.soundness is Soundness.IMPORTED for line in self.run.lines):
            raise RunError(f"{run} was imported from a log, which holds neither votes nor noise to look into")
        check_same(self.run.facts.get("configuration", {}), describe(smoother, dataset), run)
        self.smoother, self.dataset = smoother, dataset
        self.records = {record.index: record for line in self.run.lines for record in line.records}
        self._thread = ThreadPoolExecutor(1, "explorer")
        self._specimens: OrderedDict[int, Specimen] = OrderedDict()
        self._axes: OrderedDict[tuple[int, str, int], Axes] = OrderedDict()
        self._worsts: OrderedDict[tuple[int, int], FloatArray] = OrderedDict()
        self._jobs: OrderedDict[Asked, Job] = OrderedDict()
        self._stopped: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()  # of jobs and tickets, which are asked about while the thread works
        if smoother.tuner.reads_input:
            self._thread.submit(smoother.refer_to, dataset).result()
        self._held = ExitStack()
        self._memory = self._done(lambda: self._opened_memory(memory))
        self._thread.submit(self._warm)

    def close(self) -> None:
        """Let go of the thread; a slice under way is left."""
        with self._lock:
            for job in self._jobs.values():
                job.waiting.clear()
        self._thread.submit(self._held.close)
        self._thread.shutdown(cancel_futures=False)

    def overview(self) -> dict[str, Any]:
        """What the page holds from the start."""
        return views.overview(self.run, reads_input=self.smoother.tuner.reads_input)

    def picture(self, index: int) -> bytes:
        """The stored picture of an input, as a PNG."""
        return self._done(lambda: views.stored_picture(self.run, index))

    def map(self, index: int) -> bytes:
        """The noise of an input per pixel, as a PNG."""
        return self._done(lambda: views.stored_map(self.run, self._record(index)))

    def input(self, index: int) -> dict[str, Any]:
        """All about one input."""
        return self._done(lambda: views.input_view(self._specimen(index)))

    def slice(self, asked: Asked, ticket: str = "") -> dict[str, Any]:
        """How far a slice is; it is begun when it is first asked for, and kept. A ticket that was stopped begins nothing."""
        with self._lock:
            if ticket in self._stopped:
                return {"done": 0, "total": SIZE**2, "whole": False, "problem": None, "stopped": True}
            job = self._begun(asked)
            job.waiting[ticket] = time.monotonic()
            return job.state

    def stop(self, ticket: str) -> dict[str, Any]:
        """Give up what was, or will be, asked for with this ticket; a slice that nobody else waits for ends."""
        with self._lock:
            _kept(self._stopped, ticket, lambda: None)
            for job in self._jobs.values():
                job.waiting.pop(ticket, None)
        return {}

    def point(self, index: int, move: Mapping[str, Any], votes: int, anew: bool) -> dict[str, Any]:
        """Is the moved input inside the region, and what does the smoothed classifier say there?"""

        def found() -> dict[str, Any]:
            specimen = self._specimen(index)
            place = specimen.point(self._offset(specimen, move))
            promised = None if self._memory is None else self._memory.answer(specimen.certified(place))
            return views.point_view(specimen, place, specimen.ask(place, votes, anew=anew), promised)

        return self._done(found)

    # On the thread

    def _done(self, question: Callable[[], Value]) -> Value:
        return self._thread.submit(question).result()

    def _warm(self) -> None:
        """Do once, before anybody waits, what is slow the first time; what goes wrong is told when it is asked for."""
        specimen = self._specimen(min(self.records))
        views.input_view(specimen)
        self._axes_of(specimen, "nearest", 0)

    def _opened_memory(self, place: Place | None) -> Memory | None:
        own, norm, owner = self.smoother.memory, self.smoother.norm, self.smoother.identity
        with open_run(self.run.place) as store:
            found = self._held.enter_context(memory_of(store, place, own, norm=norm, owner=owner))
        check_memory(self.records.values(), found, self.run.place)
        return found

    def _record(self, index: int) -> Any:
        if index not in self.records:
            raise InputError(f"the run holds no record of input {index}; choose one from the table")
        return self.records[index]

    def _specimen(self, index: int) -> Specimen:
        record = self._record(index)

        def make() -> Specimen:
            x = torch.from_numpy(self.dataset.inputs([index]))[0]
            with open_run(self.run.place) as store:
                own = [one for one in store.findings() if one.index == index and speaks_of(one, record)]
                worst = min((one for one in own if one.offset.any()), key=rank, default=None)
                return Specimen(record, self.smoother, x, store, worst)

        return _kept(self._specimens, index, make)

    def _axes_of(self, specimen: Specimen, name: str, seed: int) -> Axes:
        key = (specimen.index, name, seed)
        return _kept(self._axes, key, lambda: axes_of(name, specimen, seed))

    def _offset(self, specimen: Specimen, move: Mapping[str, Any]) -> FloatArray:
        """A move in the plane of a slice, a drawing over the picture, places with one value, or the worst of a threat."""
        if "drawing" in move:
            return views.drawn_offset(specimen, move["drawing"], move.get("channel"), float(move["far"]))
        if "places" in move:
            return views.replaced_offset(specimen, move["places"], float(move["value"]))
        if "worst" in move:
            return self._worst(specimen, int(move["worst"]))
        asked = Asked(specimen.index, str(move["axes"]), int(move["seed"]))
        axes = self._axes_of(specimen, asked.axes, asked.seed)
        return np.asarray([float(move["a"]), float(move["b"])]) @ axes.vectors

    def _worst(self, specimen: Specimen, size: int) -> FloatArray:
        if not isinstance(self.smoother.aim.against, Threat) or size < 0:
            raise InputError(
                f"worst={size}: a size from 0 up, in a run that is certified against a threat, such as a patch"
            )
        return _kept(self._worsts, (specimen.index, size), lambda: specimen.worst_of_size(size))

    def _begun(self, asked: Asked) -> Job:
        job = self._jobs.get(asked)
        if job is None or job.problem or not (job.whole or job.wanted):
            job = self._jobs[asked] = Job()
            while len(self._jobs) > KEPT:
                self._jobs.popitem(last=False)[1].waiting.clear()
            self._thread.submit(self._guarded, job, lambda: self._start(asked, job))
        return job

    def _start(self, asked: Asked, job: Job) -> None:
        """Find the axes and begin; every step is a task of its own, after which other questions get their turn."""
        if not job.wanted:
            return
        specimen = self._specimen(asked.index)
        axes = self._axes_of(specimen, asked.axes, asked.seed)
        found = described(specimen, axes, asked) | asdict(asked)
        found |= {"label": [None] * SIZE**2, "share": [None] * SIZE**2, "deployed": []}
        job.found = found
        steps = self._steps(specimen, axes, asked, job)

        def advance() -> None:
            if job.wanted and next(steps, None) is not None:
                self._thread.submit(self._guarded, job, advance)

        advance()

    def _steps(self, specimen: Specimen, axes: Axes, asked: Asked, job: Job) -> Iterator[bool]:
        """The landscape, coarse to fine, and then, where the noise reads the input, what the deployed classifier says."""
        for cells in landscape(specimen, axes, job.found["extent"], asked.votes):
            for place, label, share in cells:
                job.found["label"][place], job.found["share"][place] = label, share
            job.done += len(cells)
            yield True
        if self.smoother.tuner.reads_input:
            for answer in flips(specimen, axes, job.found["extent"]):
                job.found["deployed"].append(answer)
                yield True
        job.whole = True

    @staticmethod
    def _guarded(job: Job, step: Callable[[], None]) -> None:
        try:
            step()
        except SmoothcertError as problem:
            job.problem = str(problem)
        except Exception as problem:
            job.problem = f"{type(problem).__name__}: {problem}"


def _kept(cache: OrderedDict[Any, Value], key: Any, make: Callable[[], Value]) -> Value:
    """The value of this key, made when it is not there; the oldest is dropped when there are many."""
    if key not in cache:
        cache[key] = make()
        if len(cache) > KEPT:
            cache.popitem(last=False)
    return cache[key]
