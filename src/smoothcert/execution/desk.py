"""Which task is next: what a look needs, of the earliest input; else what may turn out to be wasted."""

from __future__ import annotations

import threading
from collections import deque
from operator import attrgetter
from typing import Any
from weakref import WeakSet

from smoothcert.asks import Ask, Cast, Task
from smoothcert.errors import ClusterError
from smoothcert.execution.counts import Count, Errand, Job
from smoothcert.noise import Noise


class Desk:
    """Where workers take tasks and bring back what they found. It knows nothing of where they are.

    Every method may be called from any thread. What was lost is given out again; what comes back twice counts once. What
    is seen not to answer its task ends all: whoever brings it may have mixed up others unseen.
    """

    def __init__(self, places: int, *, shared: bool) -> None:
        self.places, self.shared = places, shared
        self.running: deque[Job] = deque()  # taken in and not yet handed out, in order
        self.out: dict[Task, Job] = {}  # who a task is for
        self.given: WeakSet[Task] = WeakSet()  # all that were ever given out
        self.changed = threading.Condition()
        self.over = False
        self.problem: BaseException | None = None

    def put(self, job: Job) -> None:
        """Take in one more job."""
        with self.changed:
            self.running.append(job)
            self.changed.notify_all()

    def take(self, most: int = 1, *, speculate: bool = True, wait: float | None = None) -> Task | None:
        """The next task of at most so many blocks; None when all is over, or when there was none for ``wait`` seconds."""
        with self.changed:
            while not self.over:
                job, needed = self._next()
                if job is not None and (needed or speculate):
                    return self._taken(job, most)
                if not self.changed.wait(timeout=0.2 if wait is None else wait) and wait is not None:
                    return None
        return None

    def _next(self) -> tuple[Job | None, bool]:
        """The job to do next, and is it sure to be needed?"""
        wanted = (job for job in self.running if job.wanted)
        # With shared noise in step, so that a draw serves all inputs.
        job = min(wanted, key=attrgetter("issued"), default=None) if self.shared else next(wanted, None)
        if job is not None:
            return job, True
        return next((job for job in self.running if job.left), None), False

    def _taken(self, job: Job, most: int) -> Task:
        if isinstance(job, Errand):
            job.issued = 1
            task: Task = job.tuning
        else:
            task = job.take(most if most == 1 else self._part(most), shared=self.shared)
        self.out[task] = job
        self.given.add(task)
        return task

    def _part(self, most: int) -> int:
        """How many blocks a task has, so that what is needed now keeps all workers busy."""
        needed = 0
        for job in self.running:
            needed += max(0, job.blocks_to(job.due)) if isinstance(job, Count) and not job.done else 0
            if needed >= most * self.places:
                return most
        return max(1, -(-needed // self.places))

    def done(self, task: Task, found: Any, seconds: float) -> None:
        """A task came back: what ``Caster.cast`` gave, or the noise that was chosen."""
        with self.changed:
            fault = self._fault(task, found)
            if fault:
                self.failed(
                    ClusterError(f"the executor brought back something else than it was given: {fault}; repair it")
                )
                return
            job = self.out.pop(task, None)
            if isinstance(job, Errand):
                self._replace(job, job.then(found, seconds))
            elif job is not None:
                assert isinstance(task, Ask)
                if task in job.returned:  # given up, and back after all
                    job.returned.remove(task)
                was_done = job.done
                job.add(task.first, found.tallies, seconds)
                if job.done and not was_done:
                    following = None if job.then is None else job.then(job)
                    self._replace(job, following or job)

    def _fault(self, task: Task, found: Any) -> str:
        """What tells that this does not answer the task; empty if nothing does."""
        if task not in self.given:
            return "a task that this desk never gave out, perhaps a copy of one; hand back the object that was taken"
        job = self.out.get(task)
        if job is None:
            return ""  # it is back already, and this is ignored
        kind = Noise if isinstance(job, Errand) else Cast
        if not isinstance(found, kind):
            return f"a {type(found).__name__}, which is no {kind.__name__}"
        if isinstance(found, Noise):
            return ""
        assert isinstance(task, Ask)
        assert isinstance(job, Count)
        fault = found.fault(task, job.block)
        return fault and f"as the answer to {task.key}: {fault}"

    def lost(self, task: Task) -> None:
        """A task will not come back, or not soon: it is given out again."""
        with self.changed:
            job = self.out.get(task)
            if isinstance(job, Errand):
                job.issued = 0
            elif job is not None:
                assert isinstance(task, Ask)
                job.lose(task)
            self.changed.notify_all()

    def failed(self, problem: BaseException) -> None:
        """The classifier or a worker is broken: nothing goes on, and the caller's thread is told."""
        with self.changed:
            self.problem, self.over = problem, True
            self.changed.notify_all()

    def finish(self) -> None:
        """Nobody wants anything any more."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    @property
    def under_way(self) -> int:
        """How many jobs are not done."""
        with self.changed:
            return sum(not job.done for job in self.running)

    def ready(self, *, wait: bool) -> list[Count]:
        """The first counts that are done, in order; if there is nothing else to do, waits for something to happen."""
        found = []
        with self.changed:
            if wait and self.running and not self.running[0].done and self.problem is None:
                self.changed.wait(timeout=0.5)
            if self.problem is not None:
                raise self.problem
            while self.running and isinstance(count := self.running[0], Count) and count.done:
                found.append(count)
                self.running.popleft()
        return found

    def _replace(self, job: Job, following: Count) -> None:
        self.running[self.running.index(job)] = following
        self.changed.notify_all()
