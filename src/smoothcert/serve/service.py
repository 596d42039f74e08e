"""What the server does with an input: a promise that holds it answers, or votes do, and then a promise is made."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from smoothcert.certificates import Certificate, Soundness
from smoothcert.data.base import Dataset
from smoothcert.errors import ModelError, NotFixed, RunError, SettingError
from smoothcert.estimators.bounds import Bound, leads
from smoothcert.estimators.sequential import Watching
from smoothcert.execution.counts import Count
from smoothcert.maths import FloatArray
from smoothcert.maths.sequential import undecided
from smoothcert.memory.memory import Memory
from smoothcert.regions import Region
from smoothcert.registry import written
from smoothcert.serve.counter import Counter
from smoothcert.serve.line import Line
from smoothcert.serve.messages import Answer, Asked, Status
from smoothcert.serve.metrics import Metrics
from smoothcert.serve.points import Listener, Point, Points, new_index
from smoothcert.serve.promises import PREDICTION, Promises, answer_of
from smoothcert.serve.settings import NO_FRONT, ONE_CLASSIFIER, Serving
from smoothcert.smoother import Batch, Poll, Smoother
from smoothcert.threats import Threat
from smoothcert.votes import Votes

PROBED = 200  # after so many certificates the classifier is asked again whether it is still the same


class Late(Exception):
    """The time for a request is over, and nothing can be said before all votes are in; they are kept for who asks again."""


class Service:
    """One smoothed classifier with its memory, and all who ask it; every method runs on the loop that ``start`` was called on."""

    def __init__(self, smoother: Smoother, dataset: Dataset, memory: Memory | None, settings: Serving) -> None:
        if smoother.front is not None:
            raise SettingError(NO_FRONT)
        if not smoother.is_plain:  # the desk below asks one classifier for classes
            raise SettingError(ONE_CLASSIFIER)
        self.smoother, self.settings, self.metrics = smoother, settings, Metrics()
        self.shape, self.grid = tuple(dataset.shape), dataset.grid
        self.classes, self.class_names = dataset.classes, tuple(dataset.class_names)
        self._prepare(torch.from_numpy(dataset.inputs([0])))
        if smoother.tuner.reads_input:
            smoother.refer_to(dataset)
        threat = isinstance(smoother.aim.against, Threat) or smoother.aim.complete  # there is no memory of these
        if memory is not None and not threat:
            memory.bind(dim=math.prod(self.shape), norm=smoother.norm, owner=smoother.identity)
        self.promises = None if memory is None or threat else Promises(memory, smoother.noise.domain)
        self.points, self.line = Points(settings.remember, math.prod(self.shape)), Line[Point](settings.queue)
        self.metrics.waiting.set_function(lambda: len(self.line))
        self.certificates = 0
        self._changed: RunError | None = None
        self._nothing = Certificate(None, Bound(0.0, smoother.plan.alpha, 0), None, Soundness.GLOBAL)
        self._held = ExitStack()
        self._tasks: set[asyncio.Task[None]] = set()

    def _prepare(self, x: Tensor) -> None:
        """Probe the classifier, and compute what the first judge would make its client wait for."""
        self.smoother.probe(Batch(x, [new_index()]))
        if self.smoother.aim.complete:
            return
        plan = self.smoother.plan
        judge = self.smoother.estimator.judge(plan, self.smoother.target(self.smoother.noise, x[0]))
        look = np.array([[[int(plan.looks[0]), 0]]])
        with suppress(SettingError):
            judge.stops(Votes(look, 0 * look[:, :, 0]), 0)

    def start(self) -> None:
        """Begin to cast votes."""
        self._loop = asyncio.get_running_loop()
        driver = self.smoother.driver
        self.desk = Counter(
            driver.places,
            self._looked,
            self._finished,
            lambda problem: self._loop.call_soon_threadsafe(self._failed, problem),
        )
        driver.executor.open(self.smoother)
        self._held.enter_context(driver.executor.serve(self.desk, self.smoother))

    async def stop(self) -> None:
        """End once nobody waits any more: the classifier is asked a last time, and the memory is let go."""
        with suppress(NotFixed):
            await self._probe()
        await asyncio.to_thread(self._held.close)
        await asyncio.to_thread(self.smoother.close)
        if self.promises is not None:
            await asyncio.to_thread(self.promises.close)

    @property
    def broken(self) -> RunError | None:
        """Why nothing is answered any more."""
        return self._changed or (None if self.promises is None else self.promises.broken)

    # What may be asked

    def status(self) -> Status:
        """What it is, and what was spent."""
        smoother, tries = self.smoother, self.points.tries
        promises, spent = (0, 0.0) if self.promises is None else self.promises.memory.tally
        aim, plan = smoother.aim.against, smoother.plan
        alpha = 0.0 if smoother.aim.complete else plan.alpha
        return Status(
            model=self.settings.name,
            shape=list(self.shape),
            classes=self.classes,
            class_names=list(self.class_names),
            norm=str(aim) if isinstance(aim, Threat) else written(aim),
            noise=repr(smoother.noise),
            grid=smoother.noise.domain,
            alpha=alpha,
            votes=plan.trials,
            radii=list(plan.radii),
            memory=None if self.promises is None else self.promises.memory.name,
            promises=promises,
            tries=tries,
            expected_wrong=spent + tries * alpha,
            batch=self.settings.batch,
        )

    async def certify(self, x: Tensor, asked: Asked, client: str, *, looks: bool = False) -> AsyncIterator[Answer]:
        """The answer, settled; with looks, before it those of growing worth, which are provisional."""
        center = self._checked(x)
        if asked.limited and not self.smoother.estimator.anytime:
            raise SettingError(
                f"this server's estimator, {self.smoother.estimator.title}, proves nothing before its last vote; ask without "
                "radii, votes and deadline"
            )
        hit = None if self.promises is None else await self.promises.hit(center, bare=False)
        point = self.points.known(center, None)
        if hit is not None and not (point is not None and _may_grow(point, hit, asked)):
            self.metrics.hits.inc()
            yield hit
            return
        point = self.points.at(x, center, None)
        last = self._nothing
        async with aclosing(self._judged(point, Listener(asked, looks), center, client)) as judged:
            async for certificate, enough in judged:
                last = certificate
                if looks and not enough:
                    yield replace(answer_of(certificate, self.smoother.noise.domain), provisional=True)
        yield await self._settled(point, center, last)

    async def predict(self, x: Tensor, client: str) -> Answer:
        """The label alone, from few votes; it is promised for this very input."""
        center = self._checked(x)
        hit = None if self.promises is None else await self.promises.hit(center, bare=True)
        if hit is not None:
            self.metrics.hits.inc()
            return hit
        only = None if self.smoother.aim.complete else self.smoother.select
        point = self.points.at(x, center, only)
        async with aclosing(self._judged(point, Listener(Asked()), center, client)) as judged:
            found = [certificate async for certificate, _ in judged]
        return await self._settled(point, center, (found or [self._nothing])[-1])

    def _checked(self, x: Tensor) -> FloatArray:
        """The point that is certified, if votes may be cast for it."""
        if self.broken is not None:
            raise self.broken
        self.smoother.noise.check_inside(x)
        return self.smoother.noise.center_of(x)

    # Votes

    async def _judged(
        self, point: Point, listener: Listener, center: FloatArray, client: str
    ) -> AsyncGenerator[tuple[Certificate, bool]]:
        """What looks prove, and whether it is enough; votes are cast as long as anybody waits. Nothing once it is final."""
        point.listeners.add(listener)
        asked, smoother = listener.asked, self.smoother
        anytime = smoother.estimator.anytime and point.only is None and not smoother.aim.complete
        until = time.monotonic() + min(asked.deadline or math.inf, self.settings.seconds)
        try:
            while point.final is None:
                votes, done, late = point.votes, point.done, time.monotonic() >= until
                if votes is not None and point.only is not None:
                    yield self._predicted(votes, center), True
                    return
                if votes is not None and (done or (anytime and (late or listener.judges))):
                    certificate, enough = await asyncio.to_thread(self._judge, point.polled(votes), asked)
                    yield certificate, enough or done or late
                    if enough or done or late:
                        return
                elif late and anytime:
                    return
                elif late:
                    raise Late("the time for a request is over before its votes are; they are kept: ask again")
                self._go_on(point, client)
                await _heard(listener, until)
        finally:
            point.listeners.discard(listener)
            if not point.listeners:
                self._lay_aside(point)

    def _judge(self, poll: Poll, asked: Asked) -> tuple[Certificate, bool]:
        """What votes prove, and is it enough for who asks?"""
        return self.smoother.conclude(poll), self._satisfies(poll, asked)

    def _predicted(self, votes: Votes, center: FloatArray) -> Certificate:
        """What the votes of a prediction are worth: a label for this point, or an abstention."""
        alpha = self.smoother.plan.alpha
        label = int(votes.leaders()[0]) if leads(votes, alpha)[0] else None
        region = None if label is None else Region(center, np.array(1.0), 0.0, self.smoother.norm)
        bound, worth = Bound(0.0, alpha, int(votes.trials[0, -1])), self.smoother.inquiry.worth(own=True)
        return Certificate(label, bound, region, worth, PREDICTION)

    def _satisfies(self, poll: Poll, asked: Asked) -> bool:
        """Are there as many votes as were asked for, or is each radius proved or out of reach? It only stops votes."""
        votes = poll.ballot.estimation
        if asked.votes is not None and int(votes.trials[0, -1]) >= asked.votes:
            return True
        if not asked.radii:
            return False
        smoother, label = self.smoother, int(poll.ballot.selection.leaders()[0])
        target = smoother.target(poll.noise, poll.x)
        judge = smoother.estimator.judge(smoother.plan, target, smoother.uniform_for(poll.index))
        bound = judge.bound(votes, label)
        high = judge.highest(votes, label, bound) if isinstance(judge, Watching) else math.inf
        return not bool(undecided(target.radius(bound.lower, bound.upper), high, grid=asked.radii))

    def _go_on(self, point: Point, client: str) -> None:
        """Have votes cast for a point, from where they were laid aside."""
        if point.running or point.done:
            self.desk.resume(point.index)
            return
        if point.poll is None or point.job is None:
            assert point.x is not None  # it is let go once all votes are in
            point.job, point.poll = self.smoother.inquiry.begin(point.x, point.index, point.only)
        self.line.put(client, point)
        self.points.begun(point)
        self._feed()

    def _feed(self) -> None:
        """Give the workers what waits: as much as keeps them busy with votes that are needed for sure."""
        room = (self.smoother.driver.executor.ahead + 1) * self.desk.places
        while len(self.desk.running) < room and (point := self.line.take()) is not None:
            assert point.job is not None
            job, point.job = point.job, None
            self.desk.take_up(job)

    def _lay_aside(self, point: Point) -> None:
        """Nobody waits for this input: its votes go on when somebody asks again."""
        if not point.running:
            return
        if point.job is None:
            point.job = self.desk.lay_aside(point.index)
        self.line.leave(point)
        if point.job is not None:
            self.points.ended(point)
        self._feed()

    def _looked(self, index: int, votes: Votes) -> bool:
        """On a worker's thread: do these votes satisfy all who wait for them, so that none is cast in vain?"""
        point = self.points.running.get(index)
        if point is None:
            return True
        point.votes, waiting = votes, list(point.listeners)
        judging = [listener.asked for listener in waiting if listener.judges]
        enough = len(judging) == len(waiting)
        if enough:
            poll = point.polled(votes)
            enough = all(self._satisfies(poll, asked) for asked in judging)
        if enough or judging:
            self._loop.call_soon_threadsafe(self._told, index)
        return enough

    def _finished(self, count: Count) -> None:
        """On a worker's thread: all is counted."""
        point = self.points.running.get(count.index)
        if point is not None:
            point.votes = point.polled(None).ballot.estimation if point.only is None else count.votes()
            self._loop.call_soon_threadsafe(self._told, count.index, True)

    def _told(self, index: int, done: bool = False) -> None:
        """A look was reached, or all is counted."""
        point = self.points.running.get(index)
        if point is None:
            return
        if done:
            point.done = True
            self.points.ended(point)
        self.metrics.votes.inc(point.cast - point.told)
        point.told = point.cast
        point.tell()
        if not point.listeners:
            self._lay_aside(point)
        self._feed()

    def _failed(self, problem: BaseException) -> None:
        """The classifier failed: who waits is told, and others may try again."""
        self._held.close()
        told = ModelError(f"the classifier failed ({type(problem).__name__}: {problem}); see the server's log")
        for point in self.points.unfinished():  # also of votes that are laid aside a block may be lost
            self.points.ended(point)
            self.line.leave(point)
            point.job = point.poll = point.votes = None  # its index stays, and with it its votes
            point.told = 0
            point.tell(told)
        self.start()

    # Promises

    async def _settled(self, point: Point, center: FloatArray, certificate: Certificate) -> Answer:
        """The answer that is given out, the same to all who got as many votes; an abstention is remembered."""
        async with point.lock:
            trials = certificate.bound.trials
            known = point.final or point.answers.get(trials)
            if known is not None:
                return known
            if self.promises is None:
                answer = answer_of(certificate, self.smoother.noise.domain)
            else:
                answer = await self.promises.settle(certificate, center, point.index)
            self.metrics.answers.labels("abstention" if answer.label is None else answer.soundness).inc()
            if answer.id is not None and all(earlier.id is None for earlier in point.answers.values()):
                self.points.tries -= 1  # it is counted with the promises
            point.answers[trials] = answer
            if point.done and trials == point.cast:
                point.close(answer)
        self.certificates += 1
        if self.certificates % PROBED == 0:
            task = asyncio.create_task(self._probe())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    async def _probe(self) -> None:
        """Is the classifier still the function that was probed? If not, nothing is answered any more."""
        try:
            await asyncio.to_thread(self.smoother.confirm)
        except NotFixed as problem:
            self._changed = RunError(f"the classifier changed while it was served: {problem}")
            if self.promises is not None:
                await self.promises.void(str(problem))


async def _heard(listener: Listener, until: float) -> None:
    """Wait for news, or until it is late; a problem is raised."""
    news: list[BaseException | None] = []
    with suppress(TimeoutError):
        news.append(await asyncio.wait_for(listener.news.get(), max(0.0, until - time.monotonic())))
    while not listener.news.empty():
        news.append(listener.news.get_nowait())
    for problem in filter(None, news):
        raise problem


def _may_grow(point: Point, hit: Answer, asked: Asked) -> bool:
    """Were votes on this point ended early, and does who asks want more than was promised then?"""
    if point.votes is None or point.done:
        return False
    if asked.radii and hit.radius >= max(asked.radii):
        return False
    return asked.votes is None or asked.votes > point.cast
