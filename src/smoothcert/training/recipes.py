"""The recipes by name."""

from __future__ import annotations

from smoothcert.errors import SettingError, look_up
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
    name, _, rest = spec.partition(":")
    make = look_up("recipe", name, RECIPES)
    try:
        parameters = {key: float(value) for key, _, value in (part.partition("=") for part in rest.split(",") if part)}
        return make(**parameters)
    except SettingError:
        raise
    except (TypeError, ValueError) as problem:
        raise SettingError(
            f"recipe {spec!r}: cannot read the parameters {rest!r} ({problem}); it takes {make()}, comma-separated"
        ) from problem
