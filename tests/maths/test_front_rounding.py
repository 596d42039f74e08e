"""Rounding in front of the noise: the error of products in rational numbers, and classifiers that live off the rounding."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from smoothcert.errors import SettingError
from smoothcert.maths.front_rounding import product_error, reduced_radius, rounded_centers, rounding_loss

STEP = 2.0**-6


@pytest.mark.parametrize("dim", [1, 2, 7, 300])
def test_products_err_by_less(dim):
    generator = np.random.default_rng(dim)
    for spread in (0.0, 3.0):
        rows = generator.normal(size=(6, dim)) * np.exp(spread * generator.normal(size=dim))
        rows -= rows.mean(axis=1, keepdims=True)  # sums that cancel
        x, offset = generator.random(dim), generator.random(dim)
        largest = float(np.abs(x - offset).max()) * (1 + 1e-15)
        bound = product_error(rows, largest)
        for order in (slice(None), slice(None, None, -1), generator.permutation(dim)):
            z = rows[:, order] @ (x - offset)[order]
            for row, value in zip(rows, z, strict=True):
                exact = sum(
                    Fraction(float(u)) * (Fraction(float(a)) - Fraction(float(b)))
                    for u, a, b in zip(row, x, offset, strict=True)
                )
                assert abs(Fraction(float(value)) - exact) <= Fraction(bound)
        assert bound <= 1.2e-16 * 1.02 * (dim + 2) * np.abs(rows).sum(axis=1).max()


def test_one_coordinate_may_err_by_a_whole_rounding():
    """A product with a difference that rounds: the error is of the size that is allowed for, within a factor of three."""
    generator, worst = np.random.default_rng(0), 0.0
    for u, x, offset in generator.random((2000, 3)) * (1.0, 1.0, 1 / 7):
        exact = Fraction(u) * (Fraction(x) - Fraction(offset))
        bound = product_error([[u]], abs(x - offset) * (1 + 1e-15))
        worst = max(worst, float(abs(Fraction(u * (x - offset)) - exact)) / bound if bound else 0.0)
    assert 1 / 3 < worst <= 1.0


def test_known_errors():
    """By hand: 102 roundings of the largest row's sum of sizes, and one hundredth more; sums of ones need every term."""
    rows = np.array([[1.0] * 100, [-2.0, *[0.0] * 99]])
    assert product_error(rows, 3.0) == pytest.approx(1.01 * 102 * 2.0**-53 * 100 * 3, rel=1e-12)
    assert product_error(rows[1:], 3.0) == pytest.approx(1.01 * 102 * 2.0**-53 * 2 * 3, rel=1e-12)


def test_known_losses():
    assert rounding_loss(np.ones(50), 2.0**-14, 0.0) == pytest.approx(np.sqrt(50) * 2.0**-14, rel=1e-12)
    assert rounding_loss(np.array([1.0, 0.5]), 0.25, 0.125) == pytest.approx(0.5 * np.sqrt(5), rel=1e-12)
    assert rounding_loss(np.full(4, 2.0), 0.25, 0.0, norm=1.0) == pytest.approx(0.5, rel=1e-12)
    assert rounding_loss(np.ones(3), 0.0, 0.0) == 0.0


def test_centers_of_close_inputs_differ_by_no_more_than_the_loss():
    generator, largest = np.random.default_rng(1), 0.0
    rows = np.linalg.qr(generator.normal(size=(8, 3)))[0].T
    scale = np.array([0.5, 1.0, 2.0])
    for _ in range(4000):
        x = generator.random(8)
        y = x + generator.normal(size=8) * generator.choice([1e-9, 1e-3, 0.05])
        apart = STEP * (rounded_centers(rows @ y, STEP) - rounded_centers(rows @ x, STEP)) / scale
        excess = np.linalg.norm(apart) - np.linalg.norm(rows @ (y - x) / scale)
        largest = max(largest, excess)
    loss = rounding_loss(scale, STEP, product_error(rows, 2.0))
    assert 0.5 * loss < largest <= loss


def chance_even(scale):
    """P(rint(scale·ε/η) is even), ε standard normal: the bands around the even numbers."""
    even = 2.0 * np.arange(-40, 41) * STEP
    return float(np.sum(ndtr((even + STEP / 2) / scale) - ndtr((even - STEP / 2) / scale)))


def test_a_classifier_that_reads_the_parity_of_the_center():
    """Its answer flips between two inputs a billionth apart; only the radius with the rounding taken off is true."""
    scale = 0.3 * STEP
    x, y = np.array([0.5 - 1e-9]) * STEP, np.array([0.5 + 1e-9]) * STEP
    here, there = rounded_centers(x, STEP)[0], rounded_centers(y, STEP)[0]
    assert (here % 2, there % 2) == (0, 1)  # even wins at x with the chance of an even noise, odd at y
    radius = float(ndtri(chance_even(scale)))
    assert radius > 1.2
    distance = float(abs(y - x)[0]) / scale
    assert distance < radius  # what would be certified wrongly
    assert reduced_radius(radius, rounding_loss([scale], STEP, 0.0)) < distance


@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("size", [1, 2])
def test_half_spaces_of_rounded_numbers(size, factor):
    """The class is where the sum of the received whole numbers is at least 3: exact chances, every pair of a fine grid."""
    scale = factor * STEP
    noise = np.arange(-30, 31)
    chances = np.diff(ndtr((np.arange(-30, 32) - 0.5) / factor))
    if size == 2:
        noise, chances = (noise[:, None] + noise).ravel(), np.outer(chances, chances).ravel()
    axis = np.linspace(-1.0, 7.0, 161 if size == 1 else 41) * STEP + 1e-9
    z = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)
    totals = rounded_centers(z, STEP).sum(axis=1)
    wins = np.array([chances[noise + total >= 3].sum() for total in totals])
    plain = ndtri(np.clip(wins, 1e-15, 1 - 1e-15))
    loss = rounding_loss(np.full(size, scale), STEP, 0.0)
    apart = np.linalg.norm(z[:, None] - z[None], axis=-1) / scale
    lost = wins <= 0.5
    flips = {"plain": 0, "reduced": 0}
    for i in np.flatnonzero(~lost):
        nearest = apart[i, lost].min()
        flips["plain"] += plain[i] > nearest
        flips["reduced"] += reduced_radius(float(plain[i]), loss) > nearest
    assert flips["reduced"] == 0
    assert flips["plain"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: product_error([1.0, 2.0], 1.0),
        lambda: product_error([[np.nan]], 1.0),
        lambda: product_error([[1.0]], np.inf),
        lambda: rounded_centers([1.0], 0.1),
        lambda: rounded_centers([1.0], 0.0),
        lambda: rounding_loss([0.0], 0.1, 0.0),
        lambda: rounding_loss([1.0], 0.1, -1.0),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
