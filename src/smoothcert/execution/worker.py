"""A worker of another process or machine: it holds a copy of the smoothed classifier and does tasks with it."""

from __future__ import annotations

import os
import pickle
import platform
import time
from dataclasses import replace
from typing import Any

import torch

from smoothcert.asks import Ask, Noisy, Task
from smoothcert.execution.base import Caster
from smoothcert.seeds import Stage


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


def trial(task: Task, caster: Caster) -> tuple[Ask, dict[str, str]]:
    """A block like those of a task, by which every worker is to prove itself, and the proof that this process gives."""
    if isinstance(task, Ask):
        ask = replace(task, stage=Stage.PROBE, first=0, number=1, shared=False)
    else:
        scene = Noisy(task.x.to(caster.pollster.device), task.start)
        ask = Ask(task.index, Stage.PROBE, scene, 0, 1, caster.pollster.block)
    with caster.pollster.pool() as pool:  # on one thread, as votes are cast
        return ask, pool.submit(caster.prove, ask).result()


def unlike(proof: dict[str, str], expected: dict[str, str]) -> list[str]:
    """In what a worker's proof is not the expected one, in words; nothing if it computes the same numbers."""
    pairs = ((name, proof.get(name), value) for name, value in expected.items())
    return [f"{name} {found} instead of {value}" for name, found, value in pairs if found != value]
