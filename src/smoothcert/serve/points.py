"""Which inputs were asked about: their votes and abstentions are kept for a while, so that asking again buys no second alpha."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from torch import Tensor

from smoothcert.execution.counts import Job
from smoothcert.maths import FloatArray
from smoothcert.serve.messages import Answer, Asked
from smoothcert.smoother import Poll
from smoothcert.votes import Votes

MOST, ROOM = 4096, 1 << 29  # points, and bytes of their inputs


def new_index() -> int:
    """What keys the draws for an input: 62 random bits, drawn once its body has arrived.

    With an index that could be foreseen, who asks could search offline for an input whose certificate is false.
    """
    return secrets.randbits(62)


@dataclass(eq=False)
class Listener:
    """Somebody who waits for votes on a point: for what, and whether every look is told."""

    asked: Asked
    looks: bool = False
    news: asyncio.Queue[BaseException | None] = field(default_factory=asyncio.Queue)

    @property
    def judges(self) -> bool:
        """May a look before the last be worth something?"""
        return self.looks or bool(self.asked.radii) or self.asked.votes is not None


@dataclass(eq=False)
class Point:
    """One input that was asked about: all who ask share its index, and with it its votes."""

    x: Tensor | None  # until all votes are in
    only: int | None  # votes to predict with; None: to certify
    index: int = field(default_factory=lambda: new_index())
    job: Job | None = None  # to begin, or to take up again
    poll: Callable[[Votes | None], Poll] | None = None
    votes: Votes | None = None  # by the last look; a worker's thread sets it
    told: int = 0  # of them were counted in the metrics
    done: bool = False
    running: bool = False
    tried: bool = False
    answers: dict[int, Answer] = field(default_factory=dict)  # what was given out, by the number of votes
    final: Answer | None = None  # what all votes amount to
    listeners: set[Listener] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    heard: float = field(default_factory=time.monotonic)

    @property
    def cast(self) -> int:
        """How many votes the last look has seen."""
        return self.told if self.votes is None else int(self.votes.trials[0, -1])

    def polled(self, votes: Votes | None) -> Poll:
        """What these votes, or all, amount to."""
        assert self.poll is not None
        return self.poll(votes)

    def close(self, answer: Answer) -> None:
        """All votes are in and this was given out: nothing else is kept, or thousands of points would fill the memory."""
        self.final, self.x, self.job, self.poll, self.votes = answer, None, None, None, None

    def tell(self, problem: BaseException | None = None) -> None:
        """Wake who waits."""
        for listener in self.listeners:
            listener.news.put_nowait(problem)


class Points:
    """The inputs that are under way, or were asked about lately: for so many seconds, and as many as there is room for."""

    def __init__(self, seconds: float, size: int) -> None:
        self.seconds, self.most = seconds, max(1, min(MOST, ROOM // (8 * size)))
        self._points: OrderedDict[tuple[bytes, int | None], Point] = OrderedDict()  # by the hash of the center
        self.running: dict[int, Point] = {}  # votes are being cast for them; by index
        self.tries = 0  # points whose votes were begun, and of which nothing was promised

    def at(self, x: Tensor, center: FloatArray, only: int | None) -> Point:
        """The point, as it is known, or new with an index of its own."""
        key = (_hash(center), only)
        point = self._points[key] = self.known(center, only) or Point(x, only)
        point.heard = time.monotonic()
        self._points.move_to_end(key)
        return point

    def known(self, center: FloatArray, only: int | None) -> Point | None:
        """The point, if it was asked about lately."""
        self._forget()
        return self._points.get((_hash(center), only))

    def begun(self, point: Point) -> None:
        """Votes are being cast for it."""
        self.tries += not point.tried
        point.running = point.tried = True
        self.running[point.index] = point

    def ended(self, point: Point) -> None:
        """No votes are cast for it any more, or not now."""
        point.running = False
        self.running.pop(point.index, None)

    def unfinished(self) -> list[Point]:
        """Those of which not all votes are in: under way, or laid aside."""
        return [point for point in self._points.values() if not point.done]

    def _forget(self) -> None:
        """Let some of the oldest go that nobody waits for; it is called more often than points are added."""
        now = time.monotonic()
        for key, point in list(islice(self._points.items(), 8)):
            old = len(self._points) > self.most or now - point.heard > self.seconds
            if old and not point.running and not point.listeners:
                del self._points[key]


def _hash(center: FloatArray) -> bytes:
    return hashlib.sha256(center.tobytes()).digest()
