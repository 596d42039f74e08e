"""Projections against a general solver, the grid against brute force, steps against Hölder."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from smoothcert.errors import SettingError
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.overlap import dual
from smoothcert.maths.projections import climb, project, snap, to_boundary

NORMS = [1.0, 1.3, 1.5, 2.0, 2.7, 4.0, 10.0, math.inf]
LARGE = [20.0, 100.0, 1000.0]  # beyond what a general solver can do


def solved(point: np.ndarray, axes: np.ndarray, radius: float, norm: float) -> np.ndarray:
    """The nearest point by SLSQP, in smooth form: y = u - v with u, v >= 0 for l1, bounds for l∞."""
    tight = {"ftol": 1e-15, "maxiter": 2000}
    if math.isinf(norm):
        bounds = [(-radius * s, radius * s) for s in axes]
        return minimize(lambda y: np.sum((y - point) ** 2), 0 * point, bounds=bounds, method="SLSQP", options=tight).x
    sign, size = np.where(point < 0, -1.0, 1.0), np.abs(point)  # the answer has the signs of the point
    inside = {
        "type": "ineq",
        "fun": lambda y: radius**norm - np.sum((np.abs(y) / axes) ** norm),
        "jac": lambda y: -norm * np.abs(y) ** (norm - 1) * np.sign(y) / axes**norm if norm > 1 else -1.0 / axes,
    }
    start = size * 0.5 * radius / p_norm(size / axes, norm)
    found = minimize(
        lambda y: np.sum((y - size) ** 2),
        start,
        jac=lambda y: 2 * (y - size),
        bounds=[(0, None)] * len(point),
        constraints=[inside],
        method="SLSQP",
        options=tight,
    )
    return np.asarray(sign * found.x)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("plain", [True, False])
def test_projection_agrees_with_a_solver(norm: float, plain: bool) -> None:
    generator = np.random.default_rng(5)
    worst = 0.0
    for _ in range(20):
        axes = np.ones(6) if plain else generator.uniform(0.3, 2.0, 6)
        point = generator.normal(size=6) * 2
        radius = generator.uniform(0.2, 1.0) * float(p_norm(point / axes, norm))
        ours, theirs = project(point[None], axes, radius, norm)[0], solved(point, axes, radius, norm)
        assert p_norm(ours / axes, norm) <= radius * (1 + 1e-12)
        # The distance is what is minimised; a solver that stopped early may only be farther away.
        assert np.linalg.norm(ours - point) <= np.linalg.norm(theirs - point) + 1e-7
        worst = max(worst, float(np.abs(ours - theirs).max()))
    assert worst < 1e-6


@pytest.mark.parametrize("norm", [*NORMS, *LARGE])
def test_projection_satisfies_the_optimality_condition(norm: float) -> None:
    """(u − Pu)·(z − Pu) <= 0 for every z inside: tested at the z that maximises it (Hölder), in 500 dimensions."""
    generator = np.random.default_rng(6)
    axes, points = np.exp(generator.normal(size=500)), generator.normal(size=(5, 500)) * 3
    radius = 0.3 * float(p_norm(points / axes, norm).min())
    nearest = project(points, axes, radius, norm)
    gap = points - nearest
    most = radius * p_norm(gap * axes, dual(norm))
    excess = (most - np.sum(gap * nearest, axis=-1)) / most
    assert np.all(np.abs(excess) < 1e-9)


def test_points_inside_stay_and_zero_radius_gives_zero() -> None:
    point = np.array([[0.1, -0.2]])
    assert np.array_equal(project(point, 1.0, 1.0, 1.5), point)
    assert np.array_equal(project(point, 1.0, 0.0, 2), np.zeros((1, 2)))


def test_no_projection_below_one() -> None:
    with pytest.raises(SettingError, match="not convex"):
        project([[1.0]], 1.0, 1.0, 0.5)


@given(
    st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    st.sampled_from([0.5, *NORMS]),
    st.floats(0.05, 1.5),
)
def test_snapping_stays_inside_on_the_grid(values: list[float], norm: float, radius: float) -> None:
    axes = np.array([0.5, 1.0, 2.0])
    point = to_boundary(np.array([values]), lambda rows: p_norm(rows / axes, norm), radius)
    found = snap(point, axes, radius * (1 + 1e-9), norm, 8)
    assert np.allclose(found * 8, np.round(found * 8), atol=1e-12)
    assert p_norm(found / axes, norm)[0] <= radius * (1 + 1e-9)
    assert np.all(np.abs(found - point) <= 1 / 8 + 1e-9)


def test_snapping_uses_the_room_there_is() -> None:
    """Against all 2^4 roundings: the largest gauge that fits is missed by one coordinate's step at most."""
    generator = np.random.default_rng(3)
    for _ in range(50):
        point = to_boundary(generator.normal(size=(1, 4)), lambda rows: p_norm(rows, 2), 1.0)
        found = float(p_norm(snap(point, 1.0, 1.0, 2, 16), 2)[0])
        low = np.floor(np.abs(point[0]) * 16)
        gauges = [float(np.linalg.norm((low + up) / 16)) for up in itertools.product([0, 1], repeat=4)]
        assert found >= max(g for g in gauges if g <= 1.0) - 1 / 16


@pytest.mark.parametrize(("norm", "radius"), [(1.0, 0.5), (1.0, 3.0), (1.5, 0.1), (2.0, 0.0125), (2.0, 0.5)])
def test_snapping_reaches_the_boundary_where_no_coordinate_has_half_a_step(norm: float, radius: float) -> None:
    """A direction spread over 3 072 pixels: cutting alone would leave the input itself. Missed by one step at most."""
    generator = np.random.default_rng(8)
    axes = generator.uniform(0.5, 1.5, 3072)
    directions = np.concatenate([generator.normal(size=(3, 3072)), generator.choice([-1.0, 1.0], (3, 3072)) * axes])
    points = to_boundary(directions, lambda rows: p_norm(rows / axes, norm), radius)
    found = snap(points, axes, radius, norm, 255)
    gauges = p_norm(found / axes, norm)
    assert np.all(gauges <= radius)
    assert np.all(gauges >= max(radius - 2 / 255, 0.2 * radius))  # a step is at most 2/255 in units of scale
    assert np.all(np.sum(found * points, axis=-1) > 0)
    within = p_norm(snap(0.5 * points, axes, radius, norm, 255) / axes, norm)
    assert np.all(within <= 0.5 * radius)  # a point inside is not moved out


@pytest.mark.parametrize("norm", NORMS)
def test_climbing_and_projecting_reaches_the_maximum_of_a_linear_function(norm: float) -> None:
    """max h·u over ‖u‖_p <= r is r‖h‖_q (Hölder): steps and projections must agree on where that is."""
    generator = np.random.default_rng(7)
    slopes, radius = generator.normal(size=(3, 40)), 1.7
    units = generator.normal(size=(3, 40)) * 0.1
    for number in range(60):
        step = climb(slopes, norm, share=0.1 * (1 - number / 60))
        assert np.allclose(p_norm(step, norm), 1.0)
        units = project(units + 0.5 * radius * (1 - number / 60) * step, 1.0, radius, norm)
    reached, best = np.sum(units * slopes, axis=-1), radius * p_norm(slopes, dual(norm))
    assert np.all(reached >= 0.99 * best)


def test_a_spread_step_has_unit_length_and_the_largest_slopes() -> None:
    assert np.allclose(climb(np.array([[1.0, -5.0, 3.0, 0.5]]), 1, share=0.5), [[0.0, -0.5, 0.5, 0.0]])
