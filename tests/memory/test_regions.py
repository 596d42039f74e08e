"""What regions know of each other: supersets against sampling, clearance, room inside, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from smoothcert.errors import InputError, SettingError
from smoothcert.maths.geometry import p_norm
from smoothcert.regions import Region

NORMS = [0.5, 1.0, 1.5, 2.0, 3.0, math.inf]


def border(region: Region, directions: np.ndarray) -> np.ndarray:
    """Points on the region's border, one per direction."""
    scaled = directions * region.full_scale
    return region.center + region.radius * scaled / p_norm(scaled / region.full_scale, region.norm)[:, None]


@pytest.mark.parametrize("outer_norm", NORMS)
@pytest.mark.parametrize("inner_norm", NORMS)
def test_superset_agrees_with_sampling(outer_norm: float, inner_norm: float) -> None:
    """In two dimensions 2 000 directions and the corners see an overhang of 1 %."""
    rng = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    directions = np.vstack([np.stack([np.cos(angle), np.sin(angle)], axis=1), [[1, 1], [1, -1], [1, 0], [0, 1]]])
    for _ in range(30):
        center = rng.normal(size=2)
        outer = Region(center, np.exp(rng.normal(size=2)), float(rng.uniform(0.5, 2)), outer_norm)
        inner = Region(center, np.exp(rng.normal(size=2)), 1.0, inner_norm)
        reach = p_norm((border(inner, directions) - center) / outer.full_scale, outer_norm).max()
        assert outer.superset_of(inner.resized(0.99 * outer.radius / reach))
        assert not outer.superset_of(inner.resized(1.01 * outer.radius / reach))


def test_a_region_is_a_superset_of_itself_and_of_its_inner_ball() -> None:
    rng = np.random.default_rng(1)
    for norm in NORMS:
        region = Region(np.zeros((2, 3)), np.exp(rng.normal(size=(2, 3))), 0.7, norm)
        ball = Region(np.zeros((2, 3)), np.array(1.0), region.inner_radius * (1 - 1e-12), norm)
        assert region.superset_of(region)
        assert region.superset_of(ball)
        assert not ball.superset_of(region)
        assert region.superset_of(region.resized(0.0))


def test_superset_of_another_center_is_refused() -> None:
    region = Region(np.zeros(2), np.ones(2), 1.0, 2)
    with pytest.raises(InputError, match="different centers"):
        region.superset_of(Region(np.ones(2), np.ones(2), 1.0, 2))
    with pytest.raises(InputError, match="different centers"):
        region.superset_of(Region(np.zeros(3), np.ones(3), 1.0, 2))


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, math.inf])
def test_clearance_and_room_of_images(norm: float) -> None:
    """Shapes of images and scalar scales are one with vectors; touching copies touch from both sides."""
    here = Region(np.zeros((1, 2, 2)), np.array(0.5), 1.0, norm)
    there = Region(np.full((1, 2, 2), 3.0), np.array([[[1.0, 1.0], [2.0, 2.0]]]), 1.0, norm)
    clear = here.clearance(there)
    touching = here.resized(clear)
    assert there.clearance(touching) == pytest.approx(there.radius, rel=1e-9)
    assert here.clearance(there.resized(0.0)) == pytest.approx(here.gauge(there.center), rel=1e-9)
    inner = Region(np.full((1, 2, 2), 3.1), np.array(0.5), 1.0, norm)
    assert 0 < inner.room_inside(there) <= 2.0
    assert here.room_inside(there) == 0


def test_norms_below_one_and_other_dimensions_are_refused() -> None:
    region = Region(np.zeros(2), np.ones(2), 1.0, 2)
    odd = Region(np.zeros(2), np.ones(2), 1.0, 0.5)
    for ask in (region.clearance, region.room_inside):
        with pytest.raises(SettingError, match="not convex"):
            ask(odd)
        with pytest.raises(InputError, match="dimension"):
            ask(Region(np.zeros(3), np.ones(3), 1.0, 2))
