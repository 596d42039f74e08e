"""A recipe: the loss that training goes down."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

from torch import Tensor, nn

from smoothcert.errors import SettingError
from smoothcert.registry import written
from smoothcert.training.noising import Batch


@dataclass(frozen=True)
class Recipe(ABC):
    """A loss and its parameters, which are the fields: whole numbers from 1 on, or numbers from 0 on."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line with the source
    attacks: ClassVar[bool] = False  # True: needs the gradient of the model in its input

    def __post_init__(self) -> None:
        for field in fields(self):
            value, whole = getattr(self, field.name), isinstance(field.default, int)
            if not (math.isfinite(value) and value >= whole and (not whole or value == int(value))):
                allowed = "a whole number, 1 or more" if whole else "a finite number, 0 or more"
                raise SettingError(f"recipe {self.name}: {field.name} must be {allowed}; got {written(value)}")
            object.__setattr__(self, field.name, int(value) if whole else float(value))

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss of a batch, with gradients in the model's weights (and in the noise, if it has any)."""

    def __str__(self) -> str:
        """The recipe as a user would write it, all parameters given."""
        parameters = ",".join(f"{field.name}={written(getattr(self, field.name))}" for field in fields(self))
        return f"{self.name}:{parameters}" if parameters else self.name
