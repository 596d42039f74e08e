"""The region behind a front: its balls against brute force, covariances against Woodbury, and what rounding costs."""

import itertools
import math

import numpy as np
import pytest

from smoothcert.errors import SettingError
from smoothcert.linear import LinearMap, LinearRegion
from smoothcert.regions import Region

CHANCE = np.random.default_rng(0)
WIDE = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 10)).T)[0].T * np.array([[1.0], [2.0], [0.5]])


def furthest(matrix, p, to):
    """The largest ‖Bδ‖_to on the unit l_p ball that brute force finds: corners, signs, and ascent from many starts."""
    dim = matrix.shape[1]
    tried = [np.eye(dim), np.array(list(itertools.product([-1.0, 1.0], repeat=dim)))]
    y = np.random.default_rng(1).normal(size=(300, dim))
    for _ in range(200):  # δ ∝ the dual point of the slope never goes down, for a = 2
        slope = y @ matrix.T @ matrix
        power = 1.0 if p == 2 else 0.0 if math.isinf(p) else 1.0 / (p - 1.0) if p > 1 else 50.0
        y = np.sign(slope) * np.abs(slope / np.abs(slope).max(axis=1, keepdims=True)) ** power
    tried.append(y)
    every = np.concatenate(tried)
    sizes = np.linalg.norm(every, ord=p, axis=1)
    return float((np.linalg.norm(every @ matrix.T, ord=to, axis=1) / sizes).max())


@pytest.mark.parametrize("to", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_no_point_of_a_ball_leaves_the_region(p, to):
    """Rows that are not orthonormal: a norm left at 1, or rows taken for columns, fails here."""
    region = LinearRegion(np.zeros(10), WIDE, 1.3, to)
    radius = region.inner_radius_in(p)
    worst = furthest(WIDE, p, to)
    assert radius * worst <= region.radius
    assert radius * worst >= (0.5 if to != 2 else 0.85) * region.radius
    if to == 2 and p in (1.0, 2.0):
        assert radius * worst == pytest.approx(region.radius, rel=1e-6)


def test_known_norms():
    """QR of the first draws of numpy's generator, k = 3: 1024 signs reach 2.890268, and the bound 2.987053 or less."""
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 10)).T)[0].T
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=10)))
    assert np.linalg.norm(signs @ rows.T, axis=1).max() == pytest.approx(2.890268, abs=1e-6)
    proved = 1 / LinearRegion(np.zeros(10), rows, 1.0, 2).inner_radius_in(math.inf)
    assert 2.890268 <= proved <= 2.987054


def test_a_diagonal_map_is_a_region():
    scale = np.array([0.5, 2.0, 1.0])
    plain, linear = Region(np.ones(3), scale, 0.7, 2), LinearRegion(np.ones(3), np.diag(1 / scale), 0.7, 2)
    for point in CHANCE.normal(1, 1, size=(50, 3)):
        assert linear.gauge(point) == pytest.approx(plain.gauge(point))
    assert linear.inner_radius == pytest.approx(plain.inner_radius)
    assert linear.inner_radius <= plain.inner_radius
    assert linear.proxy_radius == pytest.approx(plain.proxy_radius)
    assert linear.log_volume == pytest.approx(plain.log_volume)


def test_covariances_against_woodbury():
    deviations, factors = CHANCE.uniform(0.5, 2, size=6), CHANCE.normal(size=(6, 2))
    region = LinearRegion(np.zeros(6), LinearMap.of_covariance(deviations, factors), 1.5, 2)
    inner = np.linalg.inv(np.eye(2) + (factors.T / deviations**2) @ factors)
    for offset in CHANCE.normal(size=(40, 6)):
        scaled = offset / deviations**2
        square = offset @ scaled - (factors.T @ scaled) @ inner @ (factors.T @ scaled)
        assert region.gauge(offset) == pytest.approx(math.sqrt(square))
    log_det = 2 * np.log(deviations).sum() - np.linalg.slogdet(inner)[1]  # the determinant lemma
    assert region.proxy_radius == pytest.approx(1.5 * math.exp(log_det / 12))
    sigma = np.diag(deviations**2) + factors @ factors.T
    assert region.inner_radius == pytest.approx(1.5 * math.sqrt(np.linalg.eigvalsh(sigma)[0]))
    assert region.inner_radius_in(1) == pytest.approx(1.5 / math.sqrt(np.linalg.inv(sigma).diagonal().max()))
    whole = LinearMap.of_covariance(sigma)
    assert np.allclose(whole.matrix, region.map.matrix)
    assert np.allclose(whole.matrix @ sigma @ whole.matrix.T, np.eye(6))


@pytest.mark.parametrize(
    ("deviations", "factors"),
    [
        (np.ones(6), np.ones((3, 2))),
        (np.ones(6), np.ones(6)),
        (np.zeros(6), None),
        (np.full(6, np.nan), None),
        (np.ones((2, 3)), None),
        (np.ones((3, 3)), None),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), None),
        (np.diag([1.0, -1.0]), None),
        (np.diag([1.0, np.inf]), None),
    ],
)
def test_what_is_no_covariance(deviations, factors):
    with pytest.raises(SettingError, match="make no covariance"):
        LinearMap.of_covariance(deviations, factors)


def test_a_region_without_end_has_no_volume():
    region = LinearRegion(np.zeros(10), WIDE, 1.0, 2)
    assert region.proxy_radius is None
    assert region.log_volume is None
    blind = np.linalg.svd(WIDE)[2][-1]
    assert region.contains(1e6 * blind)
    assert LinearRegion(np.zeros(2), np.ones((2, 2)), 1.0, 2).proxy_radius is None


def test_radius_zero_is_the_center_alone():
    """Rounding may set apart inputs between which U sees no difference, so the kernel is not certified."""
    region = LinearRegion(np.zeros(3), np.eye(2, 3), 0.0, 2)
    assert region.contains(np.zeros(3))
    assert region.gauge([0.0, 0.0, 0.1]) == 0.0
    assert not region.contains([0.0, 0.0, 0.1])


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_projections_are_inside_and_change_only_what_is_seen(norm):
    region = LinearRegion(np.zeros(10), WIDE, 0.4, norm)
    offsets = CHANCE.normal(size=(60, 10))
    moved = region.project(offsets)
    assert np.all(region.gauges(moved) <= 0.4 * (1 + 1e-9))
    inside = region.gauges(offsets) <= 0.4
    assert np.allclose(moved[inside], offsets[inside])
    kernel = np.linalg.svd(WIDE)[2][3:]
    assert np.allclose((moved - offsets) @ kernel.T, 0)


def test_rounding_is_taken_off():
    """By hand: √4 · (slack/scale) of the radius in l2, slack·Σ1/scale in l1; nothing where nothing is rounded."""
    rows, scale = np.eye(4, 9), np.array([1.0, 2.0, 4.0, 4.0])
    for norm, loss in ((2.0, 0.01 * math.sqrt(1 + 1 / 4 + 2 / 16)), (1.0, 0.02), (math.inf, 0.01)):
        region = LinearRegion.behind(np.zeros(9), rows, scale, 0.5, norm, slack=0.01)
        assert region.radius == pytest.approx(0.5 - loss, rel=1e-9)
    assert LinearRegion.behind(np.zeros(9), rows, scale, 0.5, 2.0).radius == 0.5
    assert LinearRegion.behind(np.zeros(9), rows, scale, 0.001, 2.0, slack=0.01).radius == 0.0


@pytest.mark.parametrize("bad", [np.ones((2, 3)), np.full((2, 4), np.nan), np.ones(4)])
def test_maps_that_do_not_fit(bad):
    with pytest.raises(SettingError, match="give finite numbers of shape"):
        LinearRegion(np.zeros(4), bad, 1.0, 2)
