"""Regions: balls inside, volumes and supersets against sampling, clearance, room, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import InputError, SettingError
from smoothcert.maths.geometry import geometric_mean, p_norm
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


class TestRegions:
    @given(
        scale=st.lists(st.floats(0.1, 10), min_size=2, max_size=6),
        radius=st.floats(0.1, 3),
        norm=st.sampled_from([1.0, 1.5, 2.0, math.inf]),
        other=st.sampled_from([1.0, 1.5, 2.0, 4.0, math.inf]),
        seed=st.integers(0, 1000),
    )
    def test_the_inner_balls_are_inside_and_touch(
        self, scale: list[float], radius: float, norm: float, other: float, seed: int
    ) -> None:
        region = Region(np.zeros(len(scale)), np.array(scale), radius, norm)
        inner = region.inner_radius_in(other)
        generator = np.random.default_rng(seed)
        directions = np.vstack([generator.normal(size=(50, len(scale))), np.eye(len(scale))])
        on_ball = directions / p_norm(directions, other)[:, None] * inner
        assert all(region.gauge(point) <= radius * (1 + 1e-9) for point in on_ball)
        # The extreme direction: for q <= p the narrowest axis, else Hölder's equality case.
        excess = 1 / norm - 1 / other
        weights = (1 / np.array(scale)) ** ((1 / excess) * (1 / other)) if excess > 0 and math.isfinite(other) else None
        if excess <= 0:
            weights = (np.array(scale) == min(scale)).astype(float)
        if weights is None:
            weights = np.ones(len(scale))
        worst = weights / float(p_norm(weights, other)) * inner
        assert region.gauge(worst) >= radius * (1 - 1e-6) or (excess <= 0 and scale.count(min(scale)) > 1)

    def test_volume_against_monte_carlo(self) -> None:
        """The share of a box's points inside; four standard errors, false alarm below 1e-4 per norm, seed fixed."""
        generator, n = np.random.default_rng(0), 200_000
        scale = np.array([0.5, 1.0, 2.0])
        for norm in (0.5, 1.0, 2.0, 3.0, math.inf):
            region = Region(np.zeros(3), scale, 0.8, norm)
            points = generator.uniform(-1, 1, size=(n, 3)) * scale * 0.8
            share = np.mean(p_norm(points / scale, norm) <= 0.8)
            expected = math.exp(region.log_volume) / np.prod(2 * scale * 0.8)
            assert abs(share - expected) <= 4 * math.sqrt(max(expected * (1 - expected), 1e-12) / n) + 1e-12

    def test_proxy_radius_is_that_of_the_ball_of_the_same_volume(self) -> None:
        region = Region(np.zeros(4), np.array([0.1, 1.0, 3.0, 7.0]), 0.6, 2)
        ball = Region(np.zeros(4), np.array(1.0), region.proxy_radius, 2)
        assert math.isclose(region.log_volume, ball.log_volume)

    def test_the_geometric_mean_does_not_drift(self) -> None:
        assert geometric_mean(np.full(150_528, 0.37)) == 0.37
