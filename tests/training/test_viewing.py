"""Views in place of noise: each copy is one of the views of its example, and recipes take them."""

import numpy as np
import pytest
import torch

from smoothcert.training.noising import Batch
from smoothcert.training.recipes import recipe_named
from smoothcert.training.viewing import Viewing
from smoothcert.views import view_named

PICTURES = torch.randint(0, 256, (6, 1, 5, 5), generator=torch.Generator().manual_seed(0)) / 255


@pytest.mark.parametrize("spec", ["splitting:lam=0.1", "bands:width=2", "blocks:side=2", "ablation:keep=2,ask=all"])
def test_every_copy_is_a_view_of_its_example(spec: str) -> None:
    view = view_named(spec)
    copies = Viewing(view, torch.Generator().manual_seed(1)).copies(PICTURES, 3)
    assert copies.shape == (3, *PICTURES.shape)
    assert copies.dtype == torch.float32
    lens = view.lens((1, 5, 5), np.arange(view.count((1, 5, 5))))
    for example, seen in zip(PICTURES, copies.transpose(0, 1), strict=True):
        given = example.numpy() if view.grid is None else np.rint(example.numpy() * view.grid).astype(np.int64)
        every = (view.through(given, lens) / np.float32(view.unit)).astype(np.float32)
        assert all((every == one.numpy()).all(axis=(1, 2, 3)).any() for one in seen)


def test_the_nearest_grid_point_is_seen() -> None:
    """A pixel just below its grid point, as float32 arithmetic may leave it, is that grid point: cells of one step."""
    viewing = Viewing(view_named("splitting:lam=0.05,steps=10"), torch.Generator().manual_seed(1))
    exact = torch.arange(11.0).div(10).view(1, 11)
    assert torch.equal(viewing.copies(exact - 1e-6, 1), viewing.copies(exact, 1))
    assert len(viewing.copies(exact, 1).unique()) == 11


def test_views_are_fresh_for_each_example() -> None:
    copies = Viewing(view_named("bands:width=1"), torch.Generator().manual_seed(1)).copies(torch.ones(40, 1, 5, 5), 2)
    shown = (copies == 1).flatten(2)[:, :, :5].float().argmax(-1)
    assert len(shown[0].unique()) == len(shown[1].unique()) == 5
    assert not torch.equal(shown[0], shown[1])


@pytest.mark.parametrize("recipe", ["gaussian", "stability", "consistency"])
def test_recipes_take_views(recipe: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(25, 3))
    viewing = Viewing(view_named("bands:width=2"), torch.Generator().manual_seed(2))
    loss = recipe_named(recipe).loss(model, Batch(PICTURES, torch.tensor([0, 1, 2, 0, 1, 2]), viewing))
    loss.backward()
    assert bool(loss.isfinite())
    assert float(model[1].weight.grad.abs().sum()) > 0
