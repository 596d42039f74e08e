"""Views in place of noise in training: a fresh one of each example, so that any recipe trains for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.errors import SettingError
from smoothcert.sight import Sight
from smoothcert.threats import THREATS
from smoothcert.training.base import Recipe
from smoothcert.training.batches import Examples
from smoothcert.training.noising import NoiseGenerator
from smoothcert.training.settings import TrainSettings
from smoothcert.views import View
from smoothcert.views.confidence import best_confidence

LOOKED_AT = 1000  # inputs whose certificates choose the confidence
SIZES = 5  # of the threat, from none on
MOST_VIEWS = 1000  # that are asked for it


@dataclass(frozen=True, eq=False)
class Viewing:
    """What a recipe asks of a batch's noise, answered with views, each drawn from all of them."""

    view: View
    generator: torch.Generator

    def copies(self, x: Tensor, count: int) -> Tensor:
        """Views of the batch, (count, batch, *event)."""
        every = x.repeat(count, *[1] * (x.dim() - 1))
        return Sight(self.view).noisy(every, self.generator).view(count, *x.shape)


def chosen_confidence(model: nn.Module, view: View, data: Examples, device: torch.device) -> float | None:
    """From what softmax on a view of this model should vote, by what it certifies on a few of these inputs.

    None where it is not chosen: views in a norm (a cell is never empty), and views that are sampled. Any value is sound
    that was fixed before the inputs that are certified.
    """
    x, y = data.batch(torch.arange(min(len(data), LOOKED_AT)), device)
    shape = tuple(x.shape[1:])
    if view.norms or not view.complete or view.count(shape) > MOST_VIEWS:
        return None
    threat = THREATS[view.threats[0]]()
    needed = [view.touched(threat.resized(size), shape) for size in range(min(SIZES, threat.most(shape)) + 1)]
    lenses = torch.as_tensor(view.lens(shape, np.arange(view.count(shape))), device=device)
    with torch.no_grad():
        seen = ((view.through(one, lenses).to(x.dtype) / view.unit) for one in x)
        sure, found = torch.stack([model.eval()(views).softmax(dim=-1) for views in seen]).max(dim=-1)
        classes = model(x[:1]).shape[1]
    return best_confidence(found.cpu().numpy(), sure.cpu().numpy(), y.cpu().numpy(), classes, needed)


def check_views(
    view: View, recipe: Recipe, settings: TrainSettings, shape: tuple[int, ...], generator: NoiseGenerator | None
) -> None:
    """Refuse views of another shape of input, and whatever needs noise that is added."""
    view.count(shape)
    asks = {
        f"the recipe {recipe.name}": recipe.reads_noise,
        "data_dependent": settings.data_dependent,
        "a generator": generator is not None,
    }
    for what in (what for what, reads in asks.items() if reads):
        raise SettingError(
            f"{what} reads the law and the scale of noise, and {view.name} views have none; "
            "train for views with the recipe gaussian, stability or consistency, and nothing that shapes noise"
        )
