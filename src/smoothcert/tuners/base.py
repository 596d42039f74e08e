"""Who chooses the noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from smoothcert.noise import Noise

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


class Tuner(ABC):
    """Chooses the noise for a batch, from draws that are never the certifying draws."""

    name: ClassVar[str]
    reads_input: ClassVar[bool]  # True: certificates are FROZEN until a memory settles them

    @abstractmethod
    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        """The noise for each input of x, from the noise the user gave; draws are keyed by index and stage TUNE."""
