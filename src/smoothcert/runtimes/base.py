"""What a runtime is: who computes the network. Another one is another base classifier, so it is part of the run."""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, ClassVar

from smoothcert.errors import SettingError
from smoothcert.registry import Plugin

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Compute = Callable[["Tensor"], "Tensor"]
TALKATIVE = ("torch.onnx", "torch.fx.experimental.symbolic_shapes")


class Runtime(Plugin, ABC):
    """Computes a network on blocks of noisy copies; a frozen dataclass whose fields are its parameters.

    What it computes is compared with torch before a vote counts (``smoothcert.answers``), unless it is ``plain``.
    """

    plain: ClassVar[bool] = False  # torch on the very network: nothing to compare

    @abstractmethod
    def load(self, network: nn.Module, block: Tensor) -> Compute:
        """From blocks of this one's shape and device to their logits; several threads call it at once, each with one core.

        What it cannot take it refuses by raising: the reason is told, and nothing else computes the network instead.
        """

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The coarsest numbers that it computes in: so much of an answer may be rounding."""

    def check(self, device: torch.device) -> None:
        """Refuse a device that it does not serve, or a library that is not there, before anything is computed."""

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries beside torch that round in their own ways, by name: part of the run."""
        return {}


def cpu_only(name: str, device: torch.device) -> None:
    """Refuse any other device."""
    if device.type != "cpu":
        raise SettingError(
            f"the runtime {name} computes on the CPU here; got the device {device}; use torch or compiled"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch says of itself: deprecations inside torch, libraries that it did not find, code that it cannot trace.

    The last it prints as a graph before it raises.
    """
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
