"""PyTorch itself, plain or compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.registry import setting
from smoothcert.runtimes.base import Runtime

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PLAIN = "float32"


@dataclass(frozen=True)
class Torch(Runtime):
    """The network as it is, by PyTorch."""

    name = "torch"

    precision: str = setting(
        PLAIN,
        "The numbers that the network computes in (autocast): with others it answers differently.",
        choices=(PLAIN, "bfloat16", "float16"),
    )
    channels_last: bool = setting(False, "How images lie in memory.", changes="rounding")

    @property
    def dtype(self) -> torch.dtype:
        import torch

        return {PLAIN: torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def load(self, network: Callable[[Tensor], Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
        import torch

        if self.precision == "float16" and device.type == "cpu":
            warnings.warn(
                "float16 is for GPUs: on a CPU a network takes about six times as long with it as with float32; "
                "use float32, or bfloat16 where the CPU has it",
                stacklevel=3,
            )

        def compute(copies: Tensor) -> Tensor:
            if self.channels_last and copies.ndim == 4:
                copies = copies.contiguous(memory_format=torch.channels_last)
            if self.precision == PLAIN:  # what a caller's own autocast does is left alone
                return network(copies)
            with torch.autocast(device.type, dtype=self.dtype):
                return network(copies)

        return compute


@dataclass(frozen=True)
class Compiled(Torch):
    """The network by torch.compile."""

    name = "compiled"

    def load(self, network: Callable[[Tensor], Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
        import torch

        return super().load(torch.compile(network), device)
