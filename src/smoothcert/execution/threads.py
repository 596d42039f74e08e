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
        torch.set_num_threads(1)
    while (task := desk.take()) is not None:
        try:
            _do(task, desk, caster)
        except BaseException as problem:  # handed to the caller's thread
            desk.failed(problem)


def _do(task: Task, desk: Desk, caster: Caster) -> None:
    began = time.perf_counter()
    found = caster.cast(task) if isinstance(task, Ask) else caster.tune(task)
    desk.done(task, found, time.perf_counter() - began)
