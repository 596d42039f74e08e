"""The recipes by name."""

from __future__ import annotations

from smoothcert.errors import make_named
from smoothcert.training.base import Recipe
from smoothcert.training.consistency import Consistency
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
}


def recipe_named(spec: str) -> Recipe:
    """The recipe written as ``name`` or ``name:parameter=value,…``.

    >>> recipe_named("consistency:strength=5")
    Consistency(draws=2, strength=5.0, entropy=0.5)
    """
    return make_named("recipe", spec, RECIPES, lambda name: f"it takes {RECIPES[name]()}, comma-separated")
