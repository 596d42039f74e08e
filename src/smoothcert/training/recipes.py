"""The recipes by name."""

from __future__ import annotations

from smoothcert.registry import Registry
from smoothcert.training.base import Recipe
from smoothcert.training.consistency import Consistency
from smoothcert.training.gambler import Gambler
from smoothcert.training.gaussian import Gaussian
from smoothcert.training.macer import Macer
from smoothcert.training.several_draws import SeveralDraws
from smoothcert.training.smoothadv import SmoothAdv
from smoothcert.training.stability import Stability

RECIPES: dict[str, type[Recipe]] = {
    "gaussian": Gaussian,
    "stability": Stability,
    "consistency": Consistency,
    "smoothadv": SmoothAdv,
    "macer": Macer,
    "ucan": SeveralDraws,
    "gambler": Gambler,
}

REGISTRY: Registry[Recipe] = Registry("recipe", "smoothcert.recipes", RECIPES, Recipe)  # type: ignore[type-abstract]
recipe_named = REGISTRY.make
