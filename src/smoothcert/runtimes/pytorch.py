"""PyTorch itself: plain, with batch norms folded away, or compiled."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.registry import setting
from smoothcert.runtimes.base import Compute, Runtime, quiet

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

PLAIN = "float32"


@dataclass(frozen=True)
class ByTorch(Runtime):
    """What the runtimes of PyTorch share."""

    precision: str = setting(
        PLAIN,
        "The numbers that the network computes in (autocast): with others it answers differently.",
        choices=(PLAIN, "bfloat16", "float16"),
    )

    @property
    def dtype(self) -> torch.dtype:
        import torch

        return {PLAIN: torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def check(self, device: torch.device) -> None:
        if self.precision == "float16" and device.type == "cpu":
            warnings.warn(
                "float16 is for GPUs: on a CPU a network takes about six times as long with it as with float32; "
                "use float32, or bfloat16 where the CPU has it",
                stacklevel=3,
            )

    def load(self, network: nn.Module, block: Tensor) -> Compute:
        import torch

        compute, device, last = self.prepared(network), block.device.type, self.images_channels_last

        def run(copies: Tensor) -> Tensor:
            if last and copies.ndim == 4:
                copies = copies.contiguous(memory_format=torch.channels_last)
            if self.precision == PLAIN:  # what a caller's own autocast does is left alone
                return compute(copies)
            with torch.autocast(device, dtype=self.dtype):
                return compute(copies)

        return run

    @property
    def images_channels_last(self) -> bool:
        """How images lie in memory."""
        return True

    def prepared(self, network: nn.Module) -> Compute:
        """The network in the form that is called."""
        return folded(network)


@dataclass(frozen=True)
class Torch(ByTorch):
    """The network as it is, by PyTorch."""

    name = "torch"
    plain = True

    channels_last: bool = setting(False, "How images lie in memory.", changes="rounding")

    @property
    def images_channels_last(self) -> bool:
        return self.channels_last

    def prepared(self, network: nn.Module) -> Compute:
        return network


@dataclass(frozen=True)
class Folded(ByTorch):
    """PyTorch with batch norms folded into convolutions, dropout removed and channels last, where torch.fx can trace it."""

    name = "folded"


@dataclass(frozen=True)
class Compiled(ByTorch):
    """PyTorch with batch norms folded, by torch.compile: tens of seconds at the start; needs a C++ compiler on a CPU."""

    name = "compiled"

    def prepared(self, network: nn.Module) -> Compute:
        import torch

        compiled: Compute = torch.compile(super().prepared(network), dynamic=False)
        return compiled


def folded(network: nn.Module) -> nn.Module:
    """A copy of the network without batch norms and dropout, channels last, in every part that torch.fx can trace."""
    import copy

    import torch

    with quiet(), torch.inference_mode(False), torch.no_grad():  # weights made in inference mode could not be folded
        made = _folded(copy.deepcopy(network)).requires_grad_(False)
        return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _folded(part: nn.Module) -> nn.Module:
    from torch.fx.experimental.optimization import fuse, remove_dropout

    if not list(part.children()):
        return part
    try:
        return remove_dropout(fuse(part, inplace=True))
    except Exception:  # a branch that looks at the batch fails in its own way; its parts may do without
        for name, child in part.named_children():
            setattr(part, name, _folded(child))
        return part
