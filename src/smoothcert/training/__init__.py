"""Training for smoothing: one loop, and one file per recipe.

A new recipe is one file with a function ``loss(model, x, y, noise_draw) -> Tensor`` and one line of RECIPES;
``noise_draw(x)`` is a noisy copy of x, fresh at every call.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from smoothcert.training import gaussian
from smoothcert.training.loop import Silence, TrainingNoise, new_model, train
from smoothcert.training.settings import BatchReport, EpochReport, TrainSettings

__all__ = [
    "RECIPES",
    "BatchReport",
    "EpochReport",
    "Recipe",
    "Silence",
    "TrainSettings",
    "TrainingNoise",
    "new_model",
    "train",
]

Recipe = Callable[[nn.Module, Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]

RECIPES: dict[str, Recipe] = {
    "gaussian": gaussian.loss,
}
