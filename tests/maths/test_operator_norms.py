"""Operator norms: never below what ascent and enumeration find, and close to it."""

import itertools
import math
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from smoothcert.errors import SettingError
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.operator_norms import operator_norm
from smoothcert.maths.overlap import dual

MNIST = Path(
    os.environ.get("SMOOTHCERT_DATA", "~/.cache/smoothcert/data"), "MNIST/raw/train-images-idx3-ubyte"
).expanduser()


def found(matrix, norm, to=2.0, starts=200, seed=0):
    """The largest ratio that ascent by the dual map of l_p reaches from many starts: never above the operator norm."""
    generator, best = np.random.default_rng(seed), 0.0
    d = generator.normal(size=(starts, matrix.shape[1]))
    for _ in range(200):
        image = d @ matrix.T
        pull = image if to == 2 else np.sign(image) * np.abs(image) ** (min(to, 50.0) - 1)
        slope = pull @ matrix
        if math.isinf(norm):
            d = np.where(slope < 0, -1.0, 1.0)
        elif norm <= 1:
            d = np.eye(matrix.shape[1])[np.abs(slope).argmax(axis=1)]
        else:
            d = np.sign(slope) * np.abs(slope) ** (1 / (norm - 1))
        d /= p_norm(d, norm)[:, None]
        best = max(best, float(p_norm(d @ matrix.T, to).max()))
    return best


@pytest.mark.parametrize("shape", [(3, 8), (5, 12), (12, 5)])
@pytest.mark.parametrize("norm", [0.5, 1, 1.25, 1.5, 2, 2.1, 3, 6, math.inf])
def test_never_below_ascent_from_many_starts_and_close_to_it(shape, norm):
    generator = np.random.default_rng(shape[1])
    for _ in range(3):
        matrix = generator.normal(size=shape) * np.exp(0.5 * generator.normal(size=shape[1]))
        bound, reached = operator_norm(matrix, norm), found(matrix, norm)
        assert reached <= bound <= 1.15 * reached
        if norm in (0.5, 1, 2):
            assert bound == pytest.approx(reached, rel=1e-6)


@pytest.mark.parametrize("to", [1.0, 1.5, 3.0, math.inf])
@pytest.mark.parametrize("norm", [1, 1.5, 2, 4, math.inf])
def test_other_norms_of_the_image(norm, to):
    matrix = np.random.default_rng(7).normal(size=(4, 9))
    bound, reached = operator_norm(matrix, norm, to), found(matrix, norm, to)
    assert reached * (1 - 1e-12) <= bound <= 2.0 * reached  # twice: k^(1/a − 1/2) for a = 1, k = 4
    if norm == 1:
        assert bound == pytest.approx(float(p_norm(matrix.T, to).max()))
    if math.isinf(to):
        assert bound == pytest.approx(float(p_norm(matrix, dual(norm)).max()))


def test_signs_by_enumeration():
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 10)).T)[0].T
    exact = max(float(np.linalg.norm(rows @ signs)) for signs in itertools.product((-1.0, 1.0), repeat=10))
    assert exact == pytest.approx(2.890268, abs=1e-6)
    # 2.985646 is the best that weights can do: the dual problem, climbed to the end, meets it.
    assert 2.985646 < operator_norm(rows, math.inf) < 2.987053


def test_rounded_up_against_rational_numbers():
    """Columns and orthogonal rows have norms that are exact in rational numbers."""
    generator = np.random.default_rng(6)
    for _ in range(50):
        matrix = generator.normal(size=(6, 7))
        squares = [sum(Fraction(float(value)) ** 2 for value in column) for column in matrix.T]
        assert Fraction(operator_norm(matrix, 1)) ** 2 >= max(squares)
        assert Fraction(operator_norm(matrix.T[:1], 2)) ** 2 >= squares[0]
        assert operator_norm(matrix[:1], math.inf) >= sum(Fraction(abs(float(value))) for value in matrix[0])


@pytest.mark.parametrize("block", [2, 4])
def test_sums_of_blocks(block):
    """Orthonormal rows by hand: a column has norm 1/block, all-ones keeps its length."""
    side = 8
    pool = np.kron(np.eye(side // block), np.ones((1, block)))
    rows = np.kron(pool, pool) / block
    assert operator_norm(rows, 1) == pytest.approx(1 / block, rel=1e-12)
    assert operator_norm(rows, 2) == pytest.approx(1.0, rel=1e-12)
    assert operator_norm(rows, math.inf) == pytest.approx(side, rel=1e-3)
    assert operator_norm(rows, math.inf) >= np.linalg.norm(rows @ np.ones(side * side))


def test_diagonal_matrices_have_a_closed_form():
    """‖diag(1/s)‖_{p→2} is ‖1/s‖ in the norm t with 1/t = 1/2 − 1/p, and the largest entry for p <= 2."""
    scale = np.random.default_rng(2).uniform(0.2, 3.0, 15)
    for norm in (1.0, 1.4, 2.0, 2.5, 5.0, math.inf):
        excess = 0.5 - 1 / norm
        exact = 1 / scale.min() if excess <= 0 else float(p_norm(1 / scale, 1 / excess))
        assert exact <= operator_norm(np.diag(1 / scale), norm) <= exact * (1 + 2e-3)


@pytest.mark.parametrize("factor", [1e-150, 1e-3, 1e150])
def test_norms_scale_and_zero_columns_add_nothing(factor):
    matrix = np.random.default_rng(3).normal(size=(4, 9))
    wide = np.concatenate([matrix, np.zeros((4, 3))], axis=1) * factor
    for norm in (1, 1.5, 2, 3, math.inf):
        assert operator_norm(wide, norm) == pytest.approx(factor * operator_norm(matrix, norm), rel=1e-9)
        assert operator_norm(np.zeros((2, 3)), norm) == 0.0


def test_nearly_dead_columns_do_not_spoil_the_bound():
    matrix = np.random.default_rng(4).normal(size=(5, 40))
    matrix[:, 20:] *= 1e-17
    alive = operator_norm(matrix[:, :20], math.inf)
    assert found(matrix, math.inf) <= operator_norm(matrix, math.inf) <= alive * (1 + 2e-3)


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.exists(), reason="needs the MNIST training images")
@pytest.mark.parametrize(
    ("k", "column", "reached", "bound"),
    [(20, 0.3330, 18.58, 20.44), (50, 0.4523, 19.42, 21.58), (80, 0.5414, 19.79, 22.20)],
)
def test_principal_components_of_digits(k, column, reached, bound):
    pixels = np.frombuffer(MNIST.read_bytes(), np.uint8, offset=16)
    images = pixels.reshape(-1, 784)[:20_000] / 255.0
    rows = np.linalg.eigh(np.cov(images.T))[1][:, ::-1][:, :k].T
    assert operator_norm(rows, 1) == pytest.approx(column, abs=5e-5)
    assert operator_norm(rows, 2) == pytest.approx(1.0, abs=1e-9)
    signs = found(rows, math.inf, starts=60)
    assert signs == pytest.approx(reached, rel=0.02)
    assert signs <= operator_norm(rows, math.inf) <= min(bound, 1.15 * signs)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: operator_norm([[1.0, np.nan]], 2),
        lambda: operator_norm([[1.0, np.inf]], 2),
        lambda: operator_norm([1.0, 2.0], 2),
        lambda: operator_norm(np.zeros((0, 3)), 2),
        lambda: operator_norm([[1.0]], 0.0),
        lambda: operator_norm([[1.0]], 2, to=0.5),
    ],
)
def test_what_is_no_matrix_or_norm_is_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
