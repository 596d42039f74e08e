"""The memory as a server uses it: on one thread, given up quickly when it cannot be reached, with names for its promises."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np

from smoothcert.certificates import Certificate
from smoothcert.errors import RunError, StoreError
from smoothcert.maths import FloatArray
from smoothcert.memory.memory import Memory
from smoothcert.records.promise import Promise, given_before
from smoothcert.registry import written
from smoothcert.serve.messages import Answer, Kept
from smoothcert.threats import ReplacedRegion

RUN = "serve"  # what promises of servers are kept under
PAUSE = 1.0  # seconds for which a memory that failed is not asked again
PREDICTION = "prediction"  # the rule of a promise for a point alone
Value = TypeVar("Value")


class Promises:
    """Hits, settles and looks promises up; a failure is a StoreError, and the next try may succeed."""

    def __init__(self, memory: Memory, domain: str) -> None:
        self.memory, self.domain = memory, domain
        self._thread = ThreadPoolExecutor(1, "memory")
        self._down: tuple[float, str] = (0.0, "")
        self.broken: RunError | None = None  # once it is void, by whoever found that the classifier changed

    async def hit(self, center: FloatArray, *, bare: bool) -> Answer | None:
        """What was promised at this point; bare: also where it is a prediction, which is worth no radius."""

        def act() -> Answer | None:
            found = self.memory.hit(center)
            if found is None or (found[1].details["rule"] == PREDICTION and not bare):
                return None
            return replace(answer_of(found[0], self.domain, found[1]), source="memory")

        return await self._done(act)

    async def settle(self, certificate: Certificate, center: FloatArray, index: int) -> Answer:
        """The answer that may be given out, once it is a promise; index: what keyed the votes.

        The key of the promise is that of its votes and how many: who asks after somebody left while this was settled finds
        that promise, and makes no second one.
        """
        key = index + certificate.bound.trials

        def act() -> Answer:
            settled = self.memory.settle(certificate, center=center, index=key, run=RUN)
            return answer_of(settled, self.domain, self.memory.made(RUN, key))

        return await self._done(act)

    async def find(self, name: str) -> Kept | None:
        """The promise of this name; None if there is none."""
        sequence = name.partition("-")[0]
        if not (sequence.isdecimal() and sequence.isascii() and len(sequence) < 16):
            return None
        promise = await self._done(lambda: self.memory.promise(int(sequence)))
        if promise is None or not secrets.compare_digest(id_of(promise).encode(), name.encode()):
            return None
        region = promise.region
        answer = replace(answer_of(given_before(promise), self.domain, promise), source="memory")
        return Kept(name, answer, region.radius, np.asarray(region.center).tolist(), np.asarray(region.scale).tolist())

    async def void(self, reason: str) -> None:
        """Never answer from this memory again."""
        await self._done(lambda: self.memory.void(reason))

    def close(self) -> None:
        """Let go of it, once what is under way is done."""
        self._thread.submit(self.memory.close)
        self._thread.shutdown()

    async def _done(self, act: Callable[[], Value]) -> Value:
        def tried() -> Value:
            until, reason = self._down
            if time.monotonic() < until:  # whoever waited behind the one that failed need not fail as slowly
                raise StoreError(reason)
            try:
                return act()
            except StoreError as problem:
                self._down = (time.monotonic() + PAUSE, str(problem))
                raise
            except RunError as problem:
                self.broken = problem
                raise

        return await asyncio.get_running_loop().run_in_executor(self._thread, tried)


def id_of(promise: Promise) -> str:
    """The name of a promise: its number, and a hash of all it says, which nobody guesses who was not told.

    The center of a promise is somebody's input.
    """
    region = promise.region
    facts = repr((promise.run, promise.index, promise.label, region.radius, promise.details)).encode()
    content = facts + np.asarray(region.center, "<f8").tobytes()
    return f"{promise.sequence}-{hashlib.sha256(content).hexdigest()[:24]}"


def answer_of(certificate: Certificate, domain: str, promise: Promise | None = None) -> Answer:
    """A certificate in the words of an answer, with the name of its promise."""
    region = certificate.region
    against = (
        "" if region is None else str(region.threat) if isinstance(region, ReplacedRegion) else written(region.norm)
    )
    assert certificate.proxy_radius is not None  # a server has no front, so its regions have an end
    return Answer(
        label=certificate.label,
        radius=certificate.radius,
        proxy_radius=certificate.proxy_radius,
        norm=against,
        soundness=certificate.soundness.value,
        lower=certificate.bound.lower,
        votes=certificate.bound.trials,
        alpha=certificate.bound.alpha,
        theorem=certificate.rule,
        grid=domain,
        id=None if promise is None else id_of(promise),
    )
