"""What the server does with an input: a promise that holds it answers, or votes do, and then a promise is made."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing, suppress

import numpy as np
import torch
from torch import Tensor

from smoothcert.cascade import Cascade
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
from smoothcert.regressor import SmoothedRegressor
from smoothcert.serve.counter import Counter
from smoothcert.serve.line import Line
from smoothcert.serve.messages import Answer, Asked, Status
from smoothcert.serve.metrics import Metrics
from smoothcert.serve.points import Point, Points, new_index
from smoothcert.serve.promises import PREDICTION, Promises, answer_of
from smoothcert.serve.settings import Serving
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
            raise SettingError(
                "a server cannot answer behind a front yet; serve a classifier of inputs, or use smoothcert predict"
            )
        if isinstance(smoother, Cascade | SmoothedRegressor):  # the desk below asks one classifier for classes
            raise SettingError(
                "a server answers for one smoothed classifier, not for a cascade or a regressor; use smoothcert predict for these"
            )
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
        self.points, self.line = Points(settings.remember), Line[Point](settings.queue)
        self.abstentions, self.certificates = 0, 0
        self.broken: BaseException | None = None
        self._held, self._seconds = ExitStack(), 0.1
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
        loop = asyncio.get_running_loop()
        driver = self.smoother.driver
        self.desk = Counter(
            driver.places,
            lambda *news: loop.call_soon_threadsafe(self._told, *news),
            self._content,
            lambda problem: loop.call_soon_threadsafe(self._failed, problem),
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

    # What may be asked

    def status(self) -> Status:
        """What it is, and what was spent."""
        smoother, promises = self.smoother, 0 if self.promises is None else self.promises.number
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
            abstentions=self.abstentions,
            expected_wrong=(promises + self.abstentions) * alpha,
            batch=self.settings.batch,
        )

    async def certify(self, x: Tensor, asked: Asked, client: str) -> AsyncIterator[Answer]:
        """Answers of growing worth, the last of them settled; the others are provisional."""
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
        last = Certificate(None, Bound(0.0, self.smoother.plan.alpha, 0), None, Soundness.GLOBAL)
        async with aclosing(self._judged(point, asked, client)) as looks:
            async for certificate, enough in looks:
                last = certificate
                if not enough:
                    early = answer_of(certificate, self.smoother.noise.domain)
                    yield Answer(**early.__dict__ | {"provisional": True})
        yield await self._settled(point, last)

    async def predict(self, x: Tensor, client: str) -> Answer:
        """The label alone, from few votes; it is promised for this very input."""
        center = self._checked(x)
        hit = None if self.promises is None else await self.promises.hit(center, bare=True)
        if hit is not None:
            self.metrics.hits.inc()
            return hit
        only = None if self.smoother.aim.complete else self.smoother.select
        point = self.points.at(x, center, only)
        async with aclosing(self._judged(point, Asked(), client)) as looks:
            found = [certificate async for certificate, _ in looks]
        return await self._settled(point, found[-1])

    def _checked(self, x: Tensor) -> FloatArray:
        """The point that is certified, if votes may be cast for it."""
        if self.broken is not None:
            raise self.broken
        self.smoother.noise.check_inside(x)
        return self.smoother.noise.center_of(x)

    # Votes

    async def _judged(self, point: Point, asked: Asked, client: str) -> AsyncGenerator[tuple[Certificate, bool]]:
        """What each look proves, and whether it is enough; votes are cast as long as anybody waits."""
        listener: asyncio.Queue[BaseException | None] = asyncio.Queue()
        point.listeners[listener] = asked
        until = time.monotonic() + min(asked.deadline or math.inf, self.settings.seconds)
        try:
            while True:
                if point.votes is not None and (point.done or self.smoother.estimator.anytime):
                    certificate, enough = await asyncio.to_thread(self._judge, point, point.votes, point.done, asked)
                    yield certificate, enough
                    if enough:
                        return
                await self._go_on(point, client)
                if not await self._heard(listener, until):
                    if self.smoother.estimator.anytime and point.only is None and not self.smoother.aim.complete:
                        return
                    raise Late("the time for a request is over before its votes are; they are kept: ask again")
        finally:
            point.listeners.pop(listener, None)
            if not point.listeners:
                self._lay_aside(point)

    async def _heard(self, listener: asyncio.Queue[BaseException | None], until: float) -> bool:
        """Was there news in time? A problem is raised."""
        try:
            news = [await asyncio.wait_for(listener.get(), max(0.0, until - time.monotonic()))]
        except TimeoutError:
            return False
        while not listener.empty():
            news.append(listener.get_nowait())
        for problem in filter(None, news):
            raise problem
        return True

    def _judge(self, point: Point, votes: Votes, done: bool, asked: Asked) -> tuple[Certificate, bool]:
        """What these votes prove, and is it enough for who asks?"""
        if point.only is not None:
            label = int(votes.leaders()[0]) if leads(votes, self.smoother.plan.alpha)[0] else None
            region = None if label is None else Region(point.center, np.array(1.0), 0.0, self.smoother.norm)
            bound = Bound(0.0, self.smoother.plan.alpha, int(votes.trials[0, -1]))
            return Certificate(label, bound, region, Soundness.FROZEN, PREDICTION), True
        assert point.poll is not None
        poll = point.poll(votes)
        return self.smoother.conclude(poll), done or self._satisfies(poll, votes, asked)

    def _content(self, index: int, votes: Votes) -> bool:
        """Do these votes satisfy all who wait for them? Asked on a worker's thread, so that no vote is cast in vain."""
        point = self.points.of(index)
        if point is None or point.poll is None:
            return True
        waiting = list(point.listeners.values())
        if any(asked.votes is None and not asked.radii for asked in waiting):
            return False
        poll = point.poll(votes)
        return all(self._satisfies(poll, votes, asked) for asked in waiting)

    def _satisfies(self, poll: Poll, votes: Votes, asked: Asked) -> bool:
        """Are there as many votes as were asked for, or is each radius proved or out of reach? It only stops votes."""
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

    async def _go_on(self, point: Point, client: str) -> None:
        """Have votes cast for a point, from where they were laid aside."""
        async with point.lock:
            if point.running or point.done:
                self.desk.resume(point.index)
                return
            if point.poll is None or point.job is None:
                point.job, point.poll = await asyncio.to_thread(self.smoother.begin, point.x, point.index, point.only)
            self.line.put(client, point)
            self.points.begun(point)
        self._feed()

    def _feed(self) -> None:
        """Give the workers what waits, as much as keeps them busy."""
        room = self.smoother.driver.executor.ahead * self.desk.places + 1
        while len(self.desk.running) < room and (point := self.line.take()) is not None:
            assert point.job is not None
            job, point.job = point.job, None
            self.desk.take_up(job)
        self.metrics.waiting.set(len(self.line))

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

    def _told(self, index: int, count: Count, votes: Votes | None) -> None:
        """A look was reached, or all is counted."""
        point = self.points.of(index)
        if point is None:
            return
        before = point.cast
        if votes is None:
            assert point.poll is not None
            point.done = True
            votes = point.poll(None).ballot.estimation if point.only is None else count.votes()
            self.points.ended(point)
        point.votes = votes
        self.metrics.votes.inc(point.cast - before)
        point.tell()
        if not point.listeners:
            self._lay_aside(point)
        self._feed()

    def _failed(self, problem: BaseException) -> None:
        """The classifier failed: who waits is told, and others may try again."""
        self._held.close()
        told = ModelError(f"the classifier failed ({type(problem).__name__}: {problem}); see the server's log")
        for point in self.points.all_running():
            self.points.ended(point)
            self.line.leave(point)
            point.job = point.poll = point.votes = None  # its index stays, and with it its votes
            point.tell(told)
        self.start()

    # Promises

    async def _settled(self, point: Point, certificate: Certificate) -> Answer:
        """The answer that is given out, the same to all who got as many votes; an abstention is remembered."""
        async with point.lock:
            trials = certificate.bound.trials
            if trials in point.answers:
                return point.answers[trials]
            if self.promises is None:
                answer = answer_of(certificate, self.smoother.noise.domain)
            else:
                answer = await self.promises.settle(certificate, point.center)
            self.metrics.certified(answer)
            self.abstentions += answer.label is None and trials > 0
            point.answers[trials] = answer
            if point.done:
                point.job = None
        self.certificates += 1
        if self.certificates % PROBED == 0:
            task = asyncio.create_task(self._probe())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    async def _probe(self) -> None:
        """Is the classifier still the function that was probed? If not, nothing is answered any more."""

        def again() -> None:
            for probe in self.smoother.probes.values():
                probe.again()
            self.smoother.loaded.confirm()

        try:
            await asyncio.to_thread(again)
        except NotFixed as problem:
            self.broken = RunError(f"the classifier changed while it was served: {problem}")
            if self.promises is not None:
                await self.promises.void(str(problem))


def _may_grow(point: Point, hit: Answer, asked: Asked) -> bool:
    """Were votes on this point ended early, and does who asks want more than was promised then?"""
    if point.votes is None or point.done:
        return False
    if asked.radii and hit.radius >= max(asked.radii):
        return False
    return asked.votes is None or asked.votes > point.cast
