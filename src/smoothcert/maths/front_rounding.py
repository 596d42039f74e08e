"""What rounding costs a linear front end: noise is laid on k numbers z = U(x − μ), rounded to multiples of a step η.

The network receives (rint(z_j/η) + i_j)·η with i whole-numbered noise, exact in float32 while the sum is below 2²⁴. Rounding
the noisy point is post-processing and free. Rounding the center is not: two inputs at distance zero in z may sit on two sides
of a half, and their centers then differ by η in every coordinate. With e the error of z in float64,

    ‖η(k(y) − k(x))/scale‖ <= ‖U(y − x)/scale‖ + ‖(η + 2e)/scale‖,

and the last term, √k·(η + 2e) at scale one in l2, is taken off the certified radius. Where z is whole-numbered by itself, as sums
of 8-bit pixels are, nothing is rounded and nothing is lost.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm

UNIT = 2.0**-53  # of rounding: the relative error of one float64 operation


def product_error(matrix: ArrayLike, largest: float) -> float:
    """e: no z_j = U_j·(x − μ), in float64 and summed in any order, is off by more, while every |x_i − μ_i| <= largest.

    ``largest`` must hold for every input that is ever asked about, not for the certified one alone. A sum of d products errs
    by at most γ_d Σ|U_ji||x_i − μ_i| (Higham 2002, 3.1), and the difference by one rounding more.

    >>> product_error(np.eye(3, 784), 1.0) < 1e-13
    True
    """
    rows = np.asarray(matrix, dtype=float)
    if rows.ndim != 2 or not np.all(np.isfinite(rows)) or not 0 <= largest < math.inf:
        raise SettingError(
            f"the matrix is {rows.shape} and largest={largest}; give finite numbers of shape (k, dim), and a box"
        )
    return float(1.01 * (rows.shape[1] + 2) * UNIT * np.abs(rows).sum(axis=1).max(initial=0.0)) * largest


def rounded_centers(products: ArrayLike, step: float) -> FloatArray:
    """rint(z/η), whole numbers in float64; exact because the step is a power of two.

    >>> rounded_centers([0.26, -0.9], 0.25).tolist()
    [1.0, -4.0]
    """
    if not (step > 0 and math.frexp(step)[0] == 0.5):
        raise SettingError(
            f"step={step} must be a power of two, so that dividing by it is exact; the usual one is 2**-14"
        )
    return np.asarray(np.rint(np.asarray(products, dtype=float) / step))


def rounding_loss(scale: ArrayLike, step: float, error: float, norm: float = 2.0) -> float:
    """‖(η + 2e)/scale‖: what rounding the centers takes off a radius at unit scale; rounded up.

    ``scale`` (k,) is that of the noise on z.

    >>> round(rounding_loss(np.ones(50), 2.0**-14, 0.0), 6)
    0.000432
    """
    axes = np.ravel(np.asarray(scale, dtype=float))
    if not (np.all(axes > 0) and step >= 0 and error >= 0):
        raise SettingError(f"every scale must be above 0, and step={step} and error={error} at least 0")
    return float(p_norm((step + 2.0 * error) / axes, norm)) * (1 + (len(axes) + 16) * 2 * UNIT)


def reduced_radius(radius: float, loss: float) -> float:
    """The radius in ‖U(y − x)/scale‖ that is left of one proved for the rounded centers; rounded down, zero if none is.

    >>> reduced_radius(1.0, 0.25) <= 0.75, reduced_radius(0.1, 0.25)
    (True, 0.0)
    """
    return max(0.0, math.nextafter(radius - loss, -math.inf))
