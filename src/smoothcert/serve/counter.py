"""A desk that is open as long as the server: who asked is told of every look, and jobs can be laid aside and taken up again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smoothcert.execution.counts import Count, Errand, Job
from smoothcert.execution.desk import Desk
from smoothcert.seeds import Stage
from smoothcert.votes import Votes


class Counter(Desk):
    """Hands inputs out as soon as they are done, in any order.

    On a worker's thread ``looked`` is asked whether these votes satisfy all who wait for them, and ``finished`` and
    ``broken`` are told.
    """

    def __init__(
        self,
        places: int,
        looked: Callable[[int, Votes], bool],
        finished: Callable[[Count], object],
        broken: Callable[[BaseException], object],
    ) -> None:
        super().__init__(places, shared=False)
        self.looked, self.finished, self.broken = looked, finished, broken
        self._aside: dict[int, Count] = {}  # enough for those who asked, by index
        self._stopping: set[int] = set()

    def _replace(self, job: Job, following: Count) -> None:
        if following.index in self._stopping:
            assert isinstance(job, Count)
            self._stopping.remove(following.index)
            self.running.remove(job)
            self._aside[job.index] = job
        elif following.done:
            self.running.remove(job)
            self.changed.notify_all()
            self.finished(following)
        else:
            if following.stage is Stage.ESTIMATE:
                following.stops = partial(self._look, following, following.stops)
            super()._replace(job, following)

    def _look(self, count: Count, stops: Callable[[Votes], bool], votes: Votes) -> bool:
        if stops(votes):
            return True
        enough = self.looked(count.index, votes)
        if enough:
            self._stopping.add(count.index)
        return enough

    def failed(self, problem: BaseException) -> None:
        """The classifier or a worker is broken: nothing goes on, and who waits is told."""
        super().failed(problem)
        self.broken(problem)

    def lay_aside(self, index: int) -> Count | None:
        """Count no further for an input; what to take up later, None if its noise is still being chosen or it is done."""
        with self.changed:
            if index in self._aside:
                return self._aside.pop(index)
            found = next((job for job in self.running if isinstance(job, Count) and job.index == index), None)
            if found is not None:
                self.running.remove(found)
                found.done = True  # blocks that are out come back to it, and are counted when it is taken up
            return found

    def resume(self, index: int) -> None:
        """Somebody wants more votes on an input than all who asked before."""
        with self.changed:
            if index in self._aside:
                self.take_up(self._aside.pop(index))

    def take_up(self, job: Job) -> None:
        """Go on with a job that was laid aside, or begin a new one."""
        with self.changed:
            if isinstance(job, Errand) or not job.done:
                self.put(job)
                return
            job.done = False
            self.running.append(job)
            job.add(job.counted, [], 0.0)
            if job.done:  # what had come back meanwhile was enough
                self._replace(job, (job.then(job) if job.then else None) or job)
            self.changed.notify_all()
