"""Which inputs were asked about: their votes and abstentions are kept for a while, so that asking again buys no second alpha."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from smoothcert.execution.counts import Job
from smoothcert.maths import FloatArray
from smoothcert.serve.messages import Answer, Asked
from smoothcert.smoother import Poll
from smoothcert.votes import Votes

MOST = 4096


def new_index() -> int:
    """What keys the draws for an input: 62 random bits, drawn once its body has arrived.

    With an index that could be foreseen, who asks could search offline for an input whose certificate is false.
    """
    return secrets.randbits(62)


@dataclass(eq=False)
class Point:
    """One input that was asked about: all who ask share its index, and with it its votes."""

    x: Tensor
    center: FloatArray
    only: int | None  # votes to predict with; None: to certify
    index: int = field(default_factory=lambda: new_index())
    job: Job | None = None  # to begin, or to take up again
    poll: Callable[[Votes | None], Poll] | None = None
    votes: Votes | None = None  # by the last look
    done: bool = False
    running: bool = False
    answers: dict[int, Answer] = field(default_factory=dict)  # what was given out, by the number of votes
    listeners: dict[asyncio.Queue[BaseException | None], Asked] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    heard: float = field(default_factory=time.monotonic)

    @property
    def cast(self) -> int:
        """How many votes the last look has seen."""
        return 0 if self.votes is None else int(self.votes.trials[0, -1])

    def tell(self, problem: BaseException | None = None) -> None:
        """Wake who waits."""
        for listener in self.listeners:
            listener.put_nowait(problem)


class Points:
    """The inputs that are under way, or were asked about lately: at most so many, for so many seconds."""

    def __init__(self, seconds: float, most: int = MOST) -> None:
        self.seconds, self.most = seconds, most
        self._points: OrderedDict[tuple[bytes, int | None], Point] = OrderedDict()
        self._running: dict[int, Point] = {}

    def __len__(self) -> int:
        return len(self._points)

    def at(self, x: Tensor, center: FloatArray, only: int | None) -> Point:
        """The point, as it is known, or new with an index of its own."""
        self._forget()
        key = (center.tobytes(), only)
        if key not in self._points:
            self._points[key] = Point(x, center, only)
        point = self._points[key]
        point.heard = time.monotonic()
        self._points.move_to_end(key)
        return point

    def known(self, center: FloatArray, only: int | None) -> Point | None:
        """The point, if it was asked about lately."""
        self._forget()
        return self._points.get((center.tobytes(), only))

    def begun(self, point: Point) -> None:
        """Votes are being cast for it."""
        point.running = True
        self._running[point.index] = point

    def ended(self, point: Point) -> None:
        """No votes are cast for it any more, or not now."""
        point.running = False
        self._running.pop(point.index, None)

    def of(self, index: int) -> Point | None:
        """The point under way with this index."""
        return self._running.get(index)

    def all_running(self) -> list[Point]:
        """Those under way."""
        return list(self._running.values())

    def _forget(self) -> None:
        """Let the oldest go that nobody waits for."""
        now = time.monotonic()
        for key, point in list(self._points.items()):
            if point.running or point.listeners:
                continue
            if len(self._points) <= self.most and now - point.heard <= self.seconds:
                break
            del self._points[key]
