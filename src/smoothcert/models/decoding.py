"""A network that sees inputs, behind a front that gives numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.fronts import Front


class Decoding(nn.Module):
    """From the numbers z of a front to the logits of a network on μ + U⁺z."""

    back: Tensor
    offset: Tensor

    def __init__(self, front: Front, network: nn.Module) -> None:
        super().__init__()
        self.network, self.shape = network, front.shape
        self.register_buffer("back", torch.from_numpy(front.decoder.T.copy()).float(), persistent=False)
        self.register_buffer("offset", torch.from_numpy(front.offset).float(), persistent=False)

    def decoded(self, z: Tensor) -> Tensor:
        """The inputs, (batch, *event)."""
        return torch.addmm(self.offset, z.flatten(1), self.back).reshape(-1, *self.shape)

    def forward(self, z: Tensor) -> Tensor:
        """The network's logits."""
        logits: Tensor = self.network(self.decoded(z))
        return logits
