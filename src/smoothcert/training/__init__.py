"""Training for smoothing: one loop, and one file per recipe.

A new recipe is one file with a subclass of Recipe and one line of RECIPES: ``loss(model, batch)`` takes noisy copies from
``batch.noising`` and does not care which law they follow, or who chose their scale.
"""

from __future__ import annotations

from smoothcert.training.base import Recipe
from smoothcert.training.loop import new_model, train
from smoothcert.training.noising import Batch, NoiseGenerator, Noising
from smoothcert.training.recipes import RECIPES, REGISTRY, recipe_named
from smoothcert.training.settings import BatchReport, EpochReport, TrainSettings
from smoothcert.training.ucan import Learned, UcanSettings, train_jointly

__all__ = [
    "RECIPES",
    "REGISTRY",
    "Batch",
    "BatchReport",
    "EpochReport",
    "Learned",
    "NoiseGenerator",
    "Noising",
    "Recipe",
    "TrainSettings",
    "UcanSettings",
    "new_model",
    "recipe_named",
    "train",
    "train_jointly",
]
