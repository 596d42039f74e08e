"""What an executor is: where tasks are done. No number depends on it, so it is no part of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from smoothcert.asks import Ask, Cast, Tuning
from smoothcert.execution.desk import Desk
from smoothcert.noise import Noise
from smoothcert.polling import Pollster
from smoothcert.registry import Plugin


class Caster(Protocol):
    """What does tasks: a smoothed classifier. What it finds is a pure function of the task."""

    pollster: Pollster
    references: Any  # what tuners compare an input with

    def cast(self, ask: Ask) -> Cast:
        """The tally of each block, with the key of the ask."""

    def tune(self, tuning: Tuning) -> Noise:
        """The noise that is chosen for an input."""

    def prove(self, ask: Ask) -> dict[str, str]:
        """Who it is, and hashes of what it draws and computes for a block: equal where all numbers are."""

    def elsewhere(self) -> Callable[[], Caster]:
        """What makes a copy of it, without memory, in a process that this is sent to."""


class Executor(Plugin, ABC):
    """Takes tasks from a desk and has them done; a frozen dataclass whose fields are its parameters."""

    ahead: ClassVar[int] = 1  # tasks that a worker is given at once

    @abstractmethod
    def places(self, caster: Caster) -> int:
        """How many tasks are done at once."""

    @abstractmethod
    def serve(self, desk: Desk, caster: Caster) -> AbstractContextManager[None]:
        """Work beside the caller's thread until the desk is over, and then let go."""

    def open(self, caster: Caster) -> None:
        """Engage what is kept for this classifier from one call to the next, or say what is wrong before anything is written."""

    def close(self, caster: Caster) -> None:
        """Let go of what is kept for this classifier."""

    def told(self, caster: Caster) -> str:
        """How far each worker is, for people; empty if there is nothing to tell."""
        return ""
