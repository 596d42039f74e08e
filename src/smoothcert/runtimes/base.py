"""What a runtime is: who computes the network. Another one is another base classifier, so it is part of the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from smoothcert.registry import Plugin

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Runtime(Plugin, ABC):
    """Computes a network on blocks of noisy copies; a frozen dataclass whose fields are its parameters."""

    @abstractmethod
    def load(self, network: Callable[[Tensor], Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
        """From a block of copies on the device, (block, *event), to its logits; called by several threads at once."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The coarsest numbers that it computes in: so much of an answer may be rounding."""
