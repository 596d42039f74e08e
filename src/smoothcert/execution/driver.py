"""Takes jobs in, has them done by an executor, and hands their counts out in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from smoothcert.execution.base import Caster, Executor
from smoothcert.execution.counts import Count, Job
from smoothcert.execution.desk import Desk


@dataclass(frozen=True, eq=False)
class Driver:
    """The one who knows all that is under way; rules of stopping, memory and store are its caller's.

    shared_noise: every input gets the same draws: faster, each certificate valid, not independent.
    """

    caster: Caster
    executor: Executor
    shared_noise: bool = False

    @property
    def places(self) -> int:
        """How many tasks are done at once."""
        return self.executor.places(self.caster)

    def run(self, jobs: Iterable[Job], at_most: int | None = None, *, own_noise: bool = False) -> Iterator[Count]:
        """Every count, finished, in the order given; new ones are taken in as others finish.

        at_most: no more inputs than this are begun and not yet handed out, so that a kill loses no more work than theirs.
        own_noise: no draws are shared, whatever is the rule.
        """
        desk = Desk(self.places, shared=self.shared_noise and not own_noise)
        entry = Entry(desk, iter(jobs), self._window(desk), at_most)
        with self.executor.serve(desk, self.caster):
            while desk.running or not entry.closed:
                taken = entry.take_in()
                yield from desk.ready(wait=not taken)

    def _window(self, desk: Desk) -> int:
        """How many inputs are under way at once: enough to keep the workers busy, and many to share draws among."""
        return 64 if desk.shared else self.executor.ahead * desk.places + 1


@dataclass(eq=False)
class Entry:
    """Where jobs come in."""

    desk: Desk
    source: Iterator[Job]
    window: int
    at_most: int | None
    room: int = 0  # how many more may join those under way
    closed: bool = False

    def take_in(self) -> bool:
        """Take in one more job, if not enough of them are under way; was one taken?

        Counts that share draws come in waves: one that joined late would need the first draws again, alone.
        """
        under_way = self.desk.under_way
        if self.at_most is not None and len(self.desk.running) >= self.at_most:
            return False
        if not self.desk.shared or under_way <= self.window // 4:
            self.room = self.window - under_way
        if self.room <= 0 or self.closed:
            return False
        self.room -= 1
        job = next(self.source, None)
        if job is None:
            self.closed = True
            return False
        self.desk.put(job)
        return True
