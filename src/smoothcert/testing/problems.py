"""Classifiers whose smoothed version is known exactly, so that a certificate can be held against the truth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.noise import Noise


@dataclass(frozen=True, eq=False)
class HalfSpace:
    """Class 1 where weight·z + offset > 0, else class 0.

    Under noise symmetric about loc its smoothed version is the half-space of x + loc, so the largest region that can
    be certified at x touches the plane: true_radius is the distance to it in units of scale.
    """

    weight: Tensor
    offset: float = 0.0

    def __call__(self, batch: Tensor) -> Tensor:
        score = batch.flatten(1).to(self.weight.dtype) @ self.weight + self.offset
        return torch.stack([-score, score], dim=1)

    def true_radius(self, x: Tensor, noise: Noise, norm: float) -> Tensor:
        """min ‖δ/scale‖_norm over δ with weight·(x + loc + δ) + offset = 0, per input (Hölder, with the dual norm)."""
        flat = x.flatten(1).double()
        weight = self.weight.double()
        loc = torch.broadcast_to(noise.loc, x.shape[1:]).flatten() if noise.loc.ndim < x.ndim else noise.loc.flatten(1)
        scale = torch.broadcast_to(noise.scale, x.shape).flatten(1)
        margin = ((flat + loc) @ weight + self.offset).abs()
        dual = float("inf") if norm == 1 else norm / (norm - 1) if norm != float("inf") else 1.0
        reach: Tensor = torch.linalg.vector_norm(scale * weight, ord=dual, dim=1)
        return margin / reach


@dataclass(frozen=True, eq=False)
class RoundingProbe:
    """Class 1 where every coordinate of z is what float32 gives for home + (something): (z - home) + home == z.

    Under noise added in float32 it recognises its home input by rounding alone, at any noise level.
    """

    home: Tensor

    def __call__(self, batch: Tensor) -> Tensor:
        return _votes(((batch - self.home) + self.home == batch).flatten(1).all(dim=1))


@dataclass(frozen=True, eq=False)
class QuotientProbe:
    """Class 1 where z is what float32 gives for home + j/levels with a whole number j.

    It recognises its home input under noise that is rounded to the grid but added in float32.
    """

    home: Tensor
    levels: int = 255

    def __call__(self, batch: Tensor) -> Tensor:
        steps = (self.home.double() * self.levels).round()
        jump = ((batch.double() * self.levels).round() - steps) / self.levels
        return _votes((batch == self.home + jump.float()).flatten(1).all(dim=1))


def _votes(yes: Tensor) -> Tensor:
    return torch.stack([~yes, yes], dim=1).float()
