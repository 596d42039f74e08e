"""Who chooses the noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from smoothcert.noise import Noise
from smoothcert.registry import Plugin

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


class Tuner(Plugin, ABC):
    """Chooses the noise for a batch, from draws that are never the certifying draws.

    A frozen dataclass whose fields are its parameters; they are part of every run that it serves.
    """

    reads_input: ClassVar[bool]  # True: certificates are FROZEN until a memory settles them
    costly: ClassVar[bool] = True  # reading inputs takes work: they are taken one by one, and each is voted on at once

    @abstractmethod
    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        """The noise for each input of x, from the noise the user gave; draws are keyed by index and stage TUNE."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Refuse a run that this tuner cannot serve; facts is the run's configuration."""
