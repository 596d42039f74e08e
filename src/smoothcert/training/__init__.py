"""Training for smoothing: one loop, and one file per recipe.

A new recipe is one file with a subclass of Recipe and one line of RECIPES: ``loss(model, batch)`` takes noisy copies from
``batch.noising`` and does not care which law they follow, or who chose their scale.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothcert.training.ancer import AncerMap, train_on_map
    from smoothcert.training.base import Recipe
    from smoothcert.training.loop import new_model, train
    from smoothcert.training.noising import Batch, NoiseGenerator, Noising
    from smoothcert.training.recipes import RECIPES, REGISTRY, recipe_named
    from smoothcert.training.settings import BatchReport, EpochReport, GeneratorSettings, TrainSettings
    from smoothcert.training.ucan import Learned, UcanSettings, train_jointly

__all__ = [
    "RECIPES",
    "REGISTRY",
    "AncerMap",
    "Batch",
    "BatchReport",
    "EpochReport",
    "GeneratorSettings",
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
    "train_on_map",
]

_HOMES = {
    "ancer": ("AncerMap", "train_on_map"),
    "base": ("Recipe",),
    "loop": ("new_model", "train"),
    "noising": ("Batch", "NoiseGenerator", "Noising"),
    "recipes": ("RECIPES", "REGISTRY", "recipe_named"),
    "settings": ("BatchReport", "EpochReport", "GeneratorSettings", "TrainSettings"),
    "ucan": ("Learned", "UcanSettings", "train_jointly"),
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that the settings are read without torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"smoothcert.training.{home}"), name)
    raise AttributeError(f"module 'smoothcert.training' has no attribute {name!r}; it has {', '.join(__all__)}")
