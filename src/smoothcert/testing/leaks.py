"""Predictors that leak: their noise is chosen from the input, and tells the label past the certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from smoothcert.noise import Noise
from smoothcert.smoother import Smoother, Tuner


class LocLeak(Tuner):
    """Theory §3: loc = 5·sign(x)."""

    name, reads_input = "loc_leak", True

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return Noise(start.law, start.scale, 5.0 * x.detach().double().sign())


class ScaleLeak(Tuner):
    """Wide noise right of zero, narrow noise left of it."""

    name, reads_input = "scale_leak", True

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return Noise(start.law, torch.where(x.detach().double() > 0, 3.0, 0.1))


class SmoothShift(Tuner):
    """A generator with gradients: loc = tanh(2x), scale = 1 + x²/4."""

    name, reads_input = "smooth_shift", True

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return Noise(start.law, 1.0 + x.double() ** 2 / 4, torch.tanh(2.0 * x.double()))


class NaiveGrid(Noise):
    """The mistake of theory §13: noise rounded to the grid, but added to the input in float32."""

    def row(self, position: int, shape: tuple[int, ...], batch: int) -> Noise:
        return self

    def placer(self, x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda drawn, out: torch.add(drawn / self.levels, x, out=out)


def outside(batch: Tensor) -> Tensor:
    """Class 1 where |z| > 1."""
    far = (batch.flatten(1).abs() > 1).all(dim=1)
    return torch.stack([~far, far], dim=1).float()
