"""A recipe: the loss that training goes down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from smoothcert.registry import Plugin
from smoothcert.training.noising import Batch


@dataclass(frozen=True)
class Recipe(Plugin, ABC):
    """A loss and its parameters, which are the fields."""

    attacks: ClassVar[bool] = False  # True: needs the gradient of the model in its input
    reads_noise: ClassVar[bool] = (
        False  # True: asks for more than copies (law, scale, draws), so that views will not do
    )

    passes: ClassVar[bool] = False  # True: the network has one more class, "pass", for a cascade

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss of a batch, with gradients in the model's weights (and in the noise, if it has any)."""
