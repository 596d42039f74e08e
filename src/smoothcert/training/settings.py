"""The settings of a training run; equal settings, data and initial weights give equal weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

from smoothcert.errors import SettingError, look_up

MOMENTUM = 0.9


def _adam(parameters: Iterable[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _sgd(parameters: Iterable[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    decay = settings.weight_decay
    return torch.optim.SGD(parameters, lr=settings.learning_rate, momentum=MOMENTUM, weight_decay=decay)


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * done))


def _constant(done: float) -> float:
    return 1.0


Optimizers = dict[str, Callable[[Iterable[nn.Parameter], "TrainSettings"], torch.optim.Optimizer]]
OPTIMIZERS: Optimizers = {"adam": _adam, "sgd": _sgd}
# A schedule takes the fraction of the run that is done, from 0 to 1, to a factor on the learning rate. It has no
# memory, so a resumed run needs none.
SCHEDULES: dict[str, Callable[[float], float]] = {"cosine": _cosine, "constant": _constant}
# The numbers that networks compute in; bfloat16 has the range of float32, so no loss needs to be scaled.
PRECISIONS: dict[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class TrainSettings:
    """How to train: the recipe and the optimisation; the noise is given beside them.

    ``recipe`` may carry parameters (``consistency:strength=5``). ``data_dependent`` gives each input its own sigma, and
    ``warmup`` is the share of the run before that begins and before the attacks of smoothadv and the radius term of macer are
    at full strength. ``augment`` crops at random from images padded by 4, and ``flip`` mirrors half of them as well (not for
    digits). ``start`` names the weights that the model comes with, if they are not the seed's own: it is recorded, and a
    resumed run must share it.

    >>> TrainSettings(optimizer="adamm")
    Traceback (most recent call last):
    smoothcert.errors.UnknownName: unknown optimizer 'adamm'; did you mean 'adam'? known: adam, sgd
    """

    recipe: str = "consistency"
    data_dependent: bool = False
    warmup: float = 0.1
    epochs: int = 10
    batch: int = 128
    optimizer: str = "adam"
    learning_rate: float = 3e-3
    weight_decay: float = 0.0
    schedule: str = "cosine"
    augment: bool = False
    flip: bool = False
    precision: str = "float32"
    seed: int = 0
    start: str = "seed"
    device: str = "cpu"

    def __post_init__(self) -> None:
        look_up("optimizer", self.optimizer, OPTIMIZERS)
        look_up("schedule", self.schedule, SCHEDULES)
        look_up("precision", self.precision, PRECISIONS)
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be 1 or more; got {getattr(self, name)}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise SettingError(f"weight_decay must be a finite number, 0 or more; got {self.weight_decay}")
        if not 0 <= self.warmup <= 1:
            raise SettingError(f"warmup is a share of the run and must be from 0 to 1; got {self.warmup}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise SettingError(f"learning_rate must be a finite number above 0; got {self.learning_rate}")
        if self.flip and not self.augment:
            raise SettingError("flip is a part of augment; got flip without augment; set both, or neither")

    def warmth(self, done: float) -> float:
        """How much of the warm-up is behind when ``done`` of the run is, from 0 to 1.

        >>> TrainSettings(warmup=0.5).warmth(0.25), TrainSettings(warmup=0.0).warmth(0.0)
        (0.5, 1.0)
        """
        return min(1.0, done / self.warmup) if self.warmup else 1.0

    def torch_device(self) -> torch.device:
        """The device to train on, or a SettingError if there is none such here."""
        try:
            device = torch.device(self.device)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise SettingError(f"cannot train on device {self.device!r}: {error}; use 'cpu'") from error
        return device


@dataclass(frozen=True)
class BatchReport:
    """One step: its number and the loss before it. Epochs and batches count from 1."""

    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float


@dataclass(frozen=True)
class EpochReport:
    """One epoch: its mean loss, and the accuracies under noise in eval mode, as fractions."""

    epoch: int
    epochs: int
    loss: float
    accuracy: float
    validation_accuracy: float | None
    seconds: float
