"""8-bit pictures: what they keep, which shapes have one, and that a store keeps them with the record."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.recertify import recertify
from smoothcert.store import open_run
from smoothcert.store.pictures import LARGEST, picture_of


def test_an_8_bit_image_comes_back_exactly() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 7, 5), dtype=np.uint8)
    picture = picture_of(pixels / np.float32(255))
    assert picture is not None
    np.testing.assert_array_equal(picture.pixels, np.moveaxis(pixels, 0, -1))
    assert (picture.low, picture.high) == (0.0, 1.0)


def test_other_ranges_are_kept_to_half_a_step() -> None:
    values = np.random.default_rng(0).normal(size=(1, 9, 9))
    picture = picture_of(values)
    assert picture is not None
    back = picture.low + (picture.high - picture.low) * picture.pixels / 255
    assert np.abs(back - values[0]).max() <= (picture.high - picture.low) / 510 + 1e-12
    constant = picture_of(np.full((4, 4), 7.0))
    assert constant is not None
    assert (constant.pixels == 0).all()


def test_large_pictures_shrink_by_means() -> None:
    values = np.zeros((1, 200, 100))
    values[:, :100] = 1.0
    picture = picture_of(values)
    assert picture is not None
    assert max(picture.pixels.shape) <= LARGEST
    assert picture.pixels[0, 0] == 255
    assert picture.pixels[-1, -1] == 0
    strip = picture_of(np.ones((1, 300)))
    assert strip is not None
    assert strip.pixels.shape == (1, 60)


@pytest.mark.parametrize("shape", [(), (5,), (2, 4, 4), (1, 1, 4, 4), (3, 0, 4)])
def test_what_is_no_image_has_no_picture(shape: tuple[int, ...]) -> None:
    assert picture_of(np.zeros(shape)) is None


@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
def test_a_run_keeps_them_and_recertify_too(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (4, 1, 6, 6), dtype=np.uint8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).eval()
    with torch.no_grad():
        model[1].bias.copy_(torch.tensor([5.0, 0.0]))
    smoother = sc.Smoother(
        model, sc.Noise.isotropic("gaussian", 0.1, grid=1 / 255), select=20, estimate=100, engine=sc.Engine(block=50)
    )
    sc.certify_all(smoother, ArrayDataset("four", pixels, [0, 1, 0, 1]), tmp_path / "run", indices=[0, 2])
    recertify(tmp_path / "run", tmp_path / "again", {"alpha": 0.01})
    for name in ("run", "again"):
        with open_run(tmp_path / name) as store:
            assert store.pictured() == [0, 2]
            np.testing.assert_array_equal(store.picture(2).pixels, pixels[2, 0])
