"""What an executor is: where tasks are done. No number depends on it, so it is no part of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from smoothcert.asks import Ask, Tuning
from smoothcert.execution.desk import Desk
from smoothcert.maths import IntArray
from smoothcert.noise import Noise
from smoothcert.polling import Pollster
from smoothcert.registry import Plugin


class Caster(Protocol):
    """What does tasks: a smoothed classifier. Each is a pure function of the task."""

    pollster: Pollster

    def cast(self, ask: Ask) -> list[IntArray]:
        """The tally of each block."""

    def tune(self, tuning: Tuning) -> Noise:
        """The noise that is chosen for an input."""


class Executor(Plugin, ABC):
    """Takes tasks from a desk and has them done; a frozen dataclass whose fields are its parameters."""

    ahead: ClassVar[int] = 1  # tasks that a worker is given at once

    @abstractmethod
    def places(self, caster: Caster) -> int:
        """How many tasks are done at once."""

    @abstractmethod
    def serve(self, desk: Desk, caster: Caster) -> AbstractContextManager[None]:
        """Work beside the caller's thread until the desk is over, and then let go."""
