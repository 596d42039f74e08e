"""A worker of another process or machine: it holds a copy of the smoothed classifier and does tasks with it."""

from __future__ import annotations

import os
import pickle
import platform
import time
from dataclasses import replace
from typing import Any

import torch

from smoothcert.asks import Ask, Task
from smoothcert.execution.base import Caster


class Worker:
    """Does tasks one after the other, exactly as the threads of the driver would."""

    def __init__(self, recipe: bytes) -> None:
        self.caster: Caster = pickle.loads(recipe)()
        if self.caster.pollster.device.type == "cpu":
            torch.set_num_threads(1)

    def prove(self, ask: Ask) -> dict[str, str]:
        """Who this worker is, and the numbers that it computes."""
        where = f"{platform.node()}, process {os.getpid()}"
        return self.caster.prove(self._here(ask)) | {"node": where}

    def do(self, task: Task, references: Any = None) -> tuple[Any, float]:
        """What a task finds, and the seconds that it took; references are what tuners compare with."""
        began = time.perf_counter()
        if isinstance(task, Ask):
            found: Any = self.caster.cast(self._here(task))
        else:
            self.caster.references = references
            found = self.caster.tune(task)
        return found, time.perf_counter() - began

    def _here(self, ask: Ask) -> Ask:
        return replace(ask, scene=ask.scene.to(self.caster.pollster.device))
