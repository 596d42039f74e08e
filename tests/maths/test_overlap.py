"""Clearance and room inside, against linear programs, an independent convex solver, and points."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from smoothcert.errors import SettingError
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.inside import room_inside
from smoothcert.maths.normals import best_normal
from smoothcert.maths.overlap import (
    check_convex,
    clear_radius,
    dual,
    largest_gauge,
    plane_clearance,
    triangle_clearance,
)
from smoothcert.maths.sketch import BLOCKS, distance_at_least, sketch, sketch_axes, sketched_clearance

PAIRS = 1000
NORMS = [1.0, 1.5, 2.0, 3.0, math.inf]
SMOOTH = [(2.0, 2.0), (1.0, 2.0), (2.0, 1.0), (2.0, math.inf), (math.inf, 2.0), (1.5, 3.0), (3.0, 1.5), (3.0, 3.0)]


def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offset of the centres and two sets of semi-axes, of dimension 1 to 6."""
    dim = int(rng.integers(1, 7))
    return rng.normal(size=dim) * 3, np.exp(rng.normal(size=dim) * 0.7), np.exp(rng.normal(size=dim) * 0.7)


def clear(offset: np.ndarray, a: np.ndarray, p: float, b: np.ndarray, q: float) -> float:
    return float(clear_radius(offset[None], a, p, b[None], q)[0])


def room(offset: np.ndarray, a: np.ndarray, p: float, b: np.ndarray, q: float) -> float:
    return float(room_inside(offset[None], a, p, b[None], q)[0])


def by_linear_program(offset: np.ndarray, a: np.ndarray, b: np.ndarray, norm: float) -> float:
    """min ‖u/a‖ with ‖(offset - u)/b‖ <= 1, both of norm 1 or both of norm ∞, as a linear program."""
    dim, eye = len(a), np.eye(len(a))
    zero, ones = np.zeros((dim, dim)), np.ones((dim, 1))
    width = dim if norm == 1 else 1
    cover = eye if norm == 1 else ones
    pad = np.zeros((dim, width))
    sizes = [(eye / a, -cover, pad), (-eye / a, -cover, pad), (-eye / b, pad, -cover), (eye / b, pad, -cover)]
    rows = [np.hstack(row) for row in sizes] + [np.hstack([zero[:1], np.zeros((1, width)), np.ones((1, width))])]
    right = np.concatenate([np.zeros(2 * dim), -offset / b, offset / b, [1.0]])
    cost = np.concatenate([np.zeros(dim), np.ones(width), np.zeros(width)])
    bounds = [(None, None)] * dim + [(0, None)] * (2 * width)
    return float(linprog(cost, A_ub=np.vstack(rows), b_ub=right, bounds=bounds).fun)


def by_slsqp(offset: np.ndarray, a: np.ndarray, p: float, b: np.ndarray, q: float) -> float | None:
    """The same minimum from a general solver; None when it gives up."""
    distance = np.abs(offset)

    def gauge(values: np.ndarray, norm: float) -> np.ndarray:
        return values if math.isinf(norm) else np.atleast_1d(p_norm(values, norm))

    limits = [
        {"type": "ineq", "fun": lambda z: z[-1] - gauge(z[:-1] / a, p)},
        {"type": "ineq", "fun": lambda z: 1 - gauge((distance - z[:-1]) / b, q)},
    ]
    start = np.append(distance * 0.999 + 1e-9, p_norm(distance / a, p) + 0.1)
    options = {"maxiter": 500, "ftol": 1e-12}
    box = [(0, x) for x in distance] + [(0, None)]
    found = minimize(lambda z: z[-1], start, constraints=limits, bounds=box, method="SLSQP", options=options)
    return float(found.fun) if found.success else None


@pytest.mark.parametrize("norm", [1.0, math.inf])
def test_clear_radius_of_polytopes_is_the_linear_program(norm: float) -> None:
    rng = np.random.default_rng(int(min(norm, 9)))
    for _ in range(PAIRS):
        offset, a, b = pair(rng)
        exact = by_linear_program(offset, a, b, norm)
        assert clear(offset, a, norm, b, norm) == pytest.approx(exact, abs=1e-6, rel=1e-6)
        assert clear(offset, a, norm, b, norm) <= exact + 1e-12 * (1 + exact) + 1e-9 * (exact == 0)


@pytest.mark.parametrize("count", [PAIRS // 10, pytest.param(PAIRS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("p", "q"), SMOOTH)
def test_clear_radius_is_what_a_general_solver_finds(p: float, q: float, count: int) -> None:
    """Few pairs by default, since the solver is slow; the test below proves the same value for a thousand pairs."""
    rng, solved = np.random.default_rng(7), 0
    for offset, a, b, found in some_pairs(rng, p, q, count):
        if p_norm(offset / b, q) <= 1:
            assert found == 0
            continue
        exact = by_slsqp(offset, a, p, b, q)
        if exact is not None:  # the solver, not the formula, gives up on a few
            solved += 1
            assert found == pytest.approx(exact, abs=2e-6, rel=1e-6)
    assert solved > 0.6 * count


def some_pairs(
    rng: np.random.Generator, p: float, q: float, count: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, float]]:
    """Pairs and their clear radii: twenty against each of several new shapes."""
    for _ in range(count // 20):
        _, a, _ = pair(rng)
        offset, b = rng.normal(size=(20, len(a))) * 3, np.exp(rng.normal(size=(20, len(a))) * 0.7)
        for row, found in enumerate(clear_radius(offset, a, p, b, q)):
            yield offset[row], a, b[row], float(found)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("q", NORMS)
def test_clear_radius_has_no_duality_gap(p: float, q: float) -> None:
    """No other plane proves more; and where a shape is strictly convex, its point on the plane is in both shapes."""
    rng = np.random.default_rng(3)
    offset, a = np.abs(rng.normal(size=(PAIRS, 4))) * 3, np.exp(rng.normal(size=4))
    b = np.exp(rng.normal(size=(PAIRS, 4)))
    outside = p_norm(offset / b, q) > 1.001
    offset, b = offset[outside], b[outside]
    radius = clear_radius(offset, a, p, b, q)
    for _ in range(50):
        plane = plane_clearance(rng.normal(size=offset.shape), offset, a, p, b, q)
        assert np.all(plane <= radius * (1 + 1e-9) + 1e-12)
    assert np.all(triangle_clearance(offset, a, p, b, q) <= radius * (1 + 1e-9) + 1e-12)
    normal = best_normal(offset, a, p, b, q)
    if 1 < q < math.inf:
        reached = offset - touching(normal, b, q)
        assert p_norm(reached / a, p) == pytest.approx(radius, rel=1e-6, abs=1e-6)
    elif 1 < p < math.inf:
        reached = radius[:, None] * touching(normal, a, p)
        assert np.all(p_norm((offset - reached) / b, q) <= 1 + 1e-6)


def touching(normal: np.ndarray, axes: np.ndarray, norm: float) -> np.ndarray:
    """The point of {‖u/axes‖ <= 1} farthest along the normal."""
    power = (axes * normal) ** (dual(norm) - 1)
    return axes * power / p_norm(power, norm)[:, None]


@pytest.mark.parametrize("p", NORMS)
def test_clear_radius_of_a_point_is_its_gauge(p: float) -> None:
    offset, a = np.array([[1.0, -2.0, 0.5]]), np.array([1.0, 2.0, 0.3])
    found = clear_radius(offset, a, p, np.zeros((1, 3)), 2.0)
    assert found[0] == pytest.approx(float(p_norm(offset / a, p)[0]), rel=1e-12)


def test_clear_radius_survives_extreme_axes() -> None:
    rng = np.random.default_rng(1)
    offset = rng.normal(size=(200, 5))
    axes, new = 10.0 ** rng.uniform(-150, 0, size=(200, 5)) * 0.1, 10.0 ** rng.uniform(-6, 6, size=5)
    for p in NORMS:
        for q in NORMS:
            radius = clear_radius(offset, new, p, axes, q)
            assert np.all(np.isfinite(radius))
            assert np.all(radius <= p_norm(offset / new, p) * (1 + 1e-12))


def test_many_entries_come_in_chunks() -> None:
    rng = np.random.default_rng(2)
    offset, axes = rng.normal(size=(60_000, 40)), np.full((60_000, 40), 0.1)
    found = clear_radius(offset, np.ones(40), 2.0, axes, 2.0)
    assert found == pytest.approx(np.linalg.norm(offset, axis=1) - 0.1, rel=1e-9)
    assert clear_radius(offset[:0], np.ones(40), 2.0, axes[:0], 2.0).shape == (0,)


numbers = st.floats(-4, 4, allow_nan=False)
sizes = st.floats(0.05, 5)
shapes = st.integers(1, 5).flatmap(
    lambda d: st.tuples(*(st.lists(kind, min_size=d, max_size=d).map(np.array) for kind in (numbers, sizes, sizes)))
)


@given(shapes, st.sampled_from(NORMS), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_point_is_in_both_shapes(shape: tuple[np.ndarray, ...], p: float, q: float, seed: int) -> None:
    offset, a, b = shape
    radius = clear(offset, a, p, b, q)
    steps = np.random.default_rng(seed).normal(size=(400, len(a)))
    points = offset + steps / p_norm(steps / b, q)[:, None]  # on the border of the stored shape
    assert np.all(p_norm(points / a, p) >= radius * (1 - 1e-12))


@given(shapes, st.sampled_from(NORMS), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_copy_inside_is_inside(shape: tuple[np.ndarray, ...], p: float, q: float, seed: int) -> None:
    offset, a, b = shape
    offset = offset / 5
    factor = room(offset, a, p, b, q)
    steps = np.random.default_rng(seed).normal(size=(400, len(a)))
    steps = np.vstack([steps, np.diag(a), -np.diag(a), np.sign(steps[:50]) * a])  # and the corners
    points = factor * steps / p_norm(steps / a, p)[:, None]
    if factor > 0:
        assert np.all(p_norm((points - offset) / b, q) <= 1 + 1e-12)


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_the_copy_inside_is_the_largest(norm: float, dim: int) -> None:
    """A copy larger by 1e-6 sticks out somewhere."""
    rng = np.random.default_rng(dim)
    a, b = np.exp(rng.normal(size=dim) * 0.7), np.exp(rng.normal(size=(PAIRS // 3, dim)) * 0.7)
    offset = rng.normal(size=b.shape)
    offset = offset / (1.01 * p_norm(offset / b, norm) / rng.uniform(size=len(b)))[:, None]
    factor = room_inside(offset, a, norm, b, norm)
    assert np.all(factor > 0)
    assert np.all(farthest(np.abs(offset), factor[:, None] * (1 + 1e-6) * a, b, norm) > 1)


def farthest(offset: np.ndarray, a: np.ndarray, b: np.ndarray, norm: float) -> np.ndarray:
    """max ‖(u + offset)/b‖ over ‖u/a‖ <= 1: the corners for l1 and l∞, ascent from every axis for l2."""
    dim = offset.shape[-1]
    if norm == 1:
        return np.max([p_norm((offset + a * corner) / b, 1) for corner in np.eye(dim)], axis=0)
    if norm == math.inf:
        return p_norm((offset + a) / b, norm)
    share, ratio, best = offset / b, a / b, np.zeros(len(b))
    for start in np.eye(dim):  # each step goes to the best point of the tangent plane: a convex function only rises
        z = np.broadcast_to(start, b.shape)
        for _ in range(2000):
            z = ratio * (share + ratio * z)
            z = z / np.linalg.norm(z, axis=-1, keepdims=True)
        best = np.maximum(best, np.linalg.norm(share + ratio * z, axis=-1))
    return best


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("q", NORMS)
def test_room_inside_of_one_centre_is_holders(p: float, q: float) -> None:
    rng = np.random.default_rng(6)
    a, b = np.exp(rng.normal(size=5)), np.exp(rng.normal(size=5))
    steps = rng.normal(size=(4000, 5))
    reached = p_norm(steps * a / p_norm(steps, p)[:, None] / b, q).max()
    bound = float(largest_gauge(a, p, b, q))
    assert reached <= bound * (1 + 1e-12)
    assert room(np.zeros(5), a, p, b, q) == pytest.approx(1 / bound, rel=1e-9)


def test_room_outside_and_in_a_point_is_zero() -> None:
    ones = np.ones(2)
    assert room(np.array([3.0, 0.0]), ones, 2, ones, 2) == 0
    assert room(np.zeros(2), ones, 2, np.zeros(2), 2) == 0


def test_ellipsoid_with_nothing_along_its_largest_ratio() -> None:
    """The hard case of the S-lemma: a = (1, 3) in the unit circle, moved along the first axis: t² = (1 - e²·9/8)/9."""
    factor = room(np.array([0.5, 0.0]), np.array([1.0, 3.0]), 2, np.ones(2), 2)
    assert factor == pytest.approx(math.sqrt((1 - 0.25 * 9 / 8) / 9), rel=1e-9)


@pytest.mark.parametrize("bad", [0.5, 0.0, -1.0, math.nan])
def test_norms_below_one_are_refused(bad: float) -> None:
    ones = np.ones((1, 2))
    with pytest.raises(SettingError, match="not convex"):
        check_convex(bad)
    with pytest.raises(SettingError):
        clear_radius(ones, ones[0], bad, ones, 2)
    with pytest.raises(SettingError):
        clear_radius(ones, ones[0], 2, ones, bad)
    with pytest.raises(SettingError):
        room_inside(ones, ones[0], 2, ones, bad)


def test_dual_norms_are_dual() -> None:
    assert [dual(dual(p)) for p in NORMS] == pytest.approx(NORMS)


@pytest.mark.parametrize("dim", [1, 128, 129, 3072])
def test_sketches_never_overstate_a_distance(dim: int) -> None:
    rng = np.random.default_rng(dim)
    stored = rng.normal(size=(300, dim)) * rng.uniform(0, 10, size=(300, 1))
    new = stored[7] + rng.normal(size=dim) * 1e-9
    kept = sketch(stored)
    low = distance_at_least(kept, np.sum(kept**2, axis=1), sketch(new[None])[0])
    assert np.all(low <= np.linalg.norm(stored - new, axis=1))


@pytest.mark.parametrize("dim", [3, 200])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("q", NORMS)
def test_sketched_shapes_never_overstate_the_clearance(p: float, q: float, dim: int) -> None:
    """Centres are smooth, as images are."""
    rng = np.random.default_rng(dim)
    stored = np.cumsum(rng.normal(size=(40, dim)), axis=1)
    new, a, b = np.cumsum(rng.normal(size=dim)), np.exp(rng.normal(size=dim)), np.exp(rng.normal(size=(40, dim)) - 2)
    offset = sketch(stored)[:, :BLOCKS] - sketch(new[None])[:, :BLOCKS]
    lengths = np.linalg.norm(stored, axis=1) + np.linalg.norm(new)
    axes = np.stack([sketch_axes(row, q) for row in b])
    low = sketched_clearance(offset, lengths, sketch_axes(a, p), p, axes, q)
    exact = clear_radius(stored - new, a, p, b, q)
    assert np.all(low <= exact * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("q", NORMS)
def test_sketched_shapes_lose_nothing_along_block_averages(p: float, q: float) -> None:
    """Alike in every coordinate, the best plane is constant on blocks; blocks of 7 and 8 coordinates."""
    dim = 7 * BLOCKS + 50
    stored, a, b = np.full((1, dim), 3.0), np.full(dim, 0.7), np.full((1, dim), 0.4)
    axes = sketch_axes(b[0], q)[None]
    low = sketched_clearance(sketch(stored)[:, :BLOCKS], np.zeros(1), sketch_axes(a, p), p, axes, q)
    assert low == pytest.approx(clear_radius(stored, a, p, b, q), rel=1e-9)
