"""Votes on the threads of this process: the embedded default."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from smoothcert.asks import Ask, Task
from smoothcert.execution.base import Caster, Executor
from smoothcert.execution.desk import Desk
from smoothcert.polling import TOGETHER, on_one_core

TASK = 0.005  # seconds: a block of a small network takes less, and what is done once per task then counts
MOST_SHARED = 4  # blocks of a task whose draws others are to share: so many are kept for each worker


@dataclass(frozen=True)
class Threads(Executor):
    """The threads of this process, as many as workers."""

    name = "threads"

    def places(self, caster: Caster) -> int:
        return caster.pollster.workers

    @contextmanager
    def serve(self, desk: Desk, caster: Caster) -> Iterator[None]:
        threads = [threading.Thread(target=_work, args=(desk, caster), daemon=True) for _ in range(desk.places)]
        before = torch.get_num_threads()
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            desk.finish()
            for thread in threads:
                thread.join()
            torch.set_num_threads(before)


def _work(desk: Desk, caster: Caster) -> None:
    if caster.pollster.device.type == "cpu":
        on_one_core()
    most = 1
    while (task := desk.take(most)) is not None:
        try:
            seconds = _do(task, desk, caster)
            most = blocks_for(task, seconds)
        except BaseException as problem:  # handed to the caller's thread
            desk.failed(problem)


def _do(task: Task, desk: Desk, caster: Caster) -> float:
    """The seconds that it took."""
    began = time.perf_counter()
    found = caster.cast(task) if isinstance(task, Ask) else caster.tune(task)
    seconds = time.perf_counter() - began
    desk.done(task, found, seconds)
    return seconds


def blocks_for(task: Task, seconds: float) -> int:
    """How many blocks make a task of about TASK seconds, by how long this one took."""
    if not isinstance(task, Ask):
        return 1
    return max(1, min(MOST_SHARED if task.shared else TOGETHER, int(TASK * task.number / seconds)))
