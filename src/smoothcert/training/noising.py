"""The noise of one batch in training: copies of its inputs, each draw scaled for the input it falls on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from smoothcert.laws import Law
from smoothcert.seeds import TorchDraws


@dataclass(frozen=True, eq=False)
class Noising:
    """Noise loc + scale·z for the inputs of one batch.

    scale and loc are a number, one value per coordinate, or have the batch as their first axis; they may carry
    gradients. The pixel grid is left out: it makes votes sound, and a network learns the same without it.
    """

    law: Law
    scale: Tensor
    loc: Tensor
    generator: torch.Generator

    def draw(self, x: Tensor, count: int) -> Tensor:
        """Fresh noise, (count, batch, *event): the batch is the second axis, so each input keeps its own scale."""
        z: Tensor = self.law.sample((count, *x.shape), TorchDraws(self.generator, x.dtype, x.device))
        z = z * self.scale if self.scale.requires_grad else z.mul_(self.scale)
        return z + self.loc if self.loc.requires_grad or bool(self.loc.any()) else z

    def copies(self, x: Tensor, count: int) -> Tensor:
        """Noisy copies of the batch, (count, batch, *event)."""
        return self.draw(x, count).add_(x)

    def times(self, factors: Tensor) -> Noising:
        """The noise with the scale of each input multiplied by its factor, (batch, 1, …, 1)."""
        return replace(self, scale=self.scale * factors)

    def size(self, x: Tensor) -> Tensor:
        """The geometric mean of each input's scale, (batch,): what turns a radius at unit scale into a proxy radius."""
        return self.scale.log().expand(x.shape).flatten(1).mean(1).exp()


class Copies(Protocol):
    """What every recipe may ask of noise or of views."""

    def copies(self, x: Tensor, count: int) -> Tensor:
        """Noisy copies, or views, of the batch, (count, batch, *event)."""


@dataclass(frozen=True, eq=False)
class Batch:
    """What a recipe gets at a step: inputs (batch, *event), labels, their noise or views, and how warm the run is.

    warmth rises from 0 to 1 during the warm-up and stays there.
    """

    x: Tensor
    y: Tensor
    noising: Copies
    warmth: float = 1.0

    @property
    def added(self) -> Noising:
        """The noise, for a recipe that reads its law, scale or draws and says so (``reads_noise``)."""
        assert isinstance(self.noising, Noising)
        return self.noising


class NoiseGenerator(nn.Module):
    """A network that gives each input its noise and learns with the classifier. Subclasses give both methods."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """scale (above 0) and loc, as a Noising takes them."""
        raise NotImplementedError

    def penalty(self, scale: Tensor, loc: Tensor) -> Tensor:
        """What is added to the recipe's loss: minus the mean scale, for example."""
        raise NotImplementedError


def logits_of(model: nn.Module, copies: Tensor) -> Tensor:
    """The logits of (count, batch, *event) as (count, batch, classes).

    One call per copy: calls of the batch's own size stay in the cache, and two of 128 images take a quarter less time than
    one of 256 on a CPU. Logits have the precision of the copies, also where the model computes in bfloat16, which cannot
    tell 0.999 from 1.
    """
    return torch.stack([model(copy) for copy in copies]).to(copies.dtype)
