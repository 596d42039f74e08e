"""The plane that keeps two shapes apart the longest, found through a problem in one unknown.

Letters: Δ >= 0 the distance of the centres per coordinate, a and b the semi-axes of the new and of the stored shape, p
and q their norms. The nearest point of the stored shape splits Δ = u + v, with ‖u/a‖_p least and ‖v/b‖_q = 1; the
gradient of ‖u/a‖_p at u, which is a multiple of the gradient of ‖v/b‖_q at v, is the plane's normal. Both problems are
separable once the multiplier is known, and ‖v/b‖_q falls as it grows: one unknown, found by bisection (Boyd and
Vandenberghe 2004, Section 5.5.3). Nothing here needs to be exact to be sound: any normal proves something.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import p_norm

HALVINGS = 64  # of a bracket: as far as float64 tells values apart
Gauge = Callable[[FloatArray], FloatArray]  # of the unknown, (entries, 1) -> ‖v/b‖_q, (entries,), falling


def best_normal(distance: FloatArray, a: FloatArray, p: float, b: FloatArray, q: float) -> FloatArray:
    """The normal (entries, dim), not negative, that proves the clear radius; distance is outside every stored shape.

    >>> normal = best_normal(np.array([[3.0, 4.0]]), np.ones(2), 2.0, np.ones((1, 2)), 2.0)
    >>> (normal / normal.max()).round(9)  # between balls, along the line of their centres
    array([[0.75, 1.  ]])
    """
    with np.errstate(all="ignore"):
        a = np.broadcast_to(a, b.shape)
        if math.isinf(q):  # the box: each coordinate comes as near as it can
            return gradient(np.maximum(distance - b, 0.0), a, p)
        if math.isinf(p):
            return _from_box(distance, a, b, q)
        if p == q == 1:
            return _knapsack(distance, a, b)
        if p == q == 2:
            return _ellipsoids(distance, a, b)
        return np.nan_to_num(np.exp(_smooth(distance, a, p, b, q)), posinf=0.0)


def gradient(point: FloatArray, axes: FloatArray, norm: float) -> FloatArray:
    """A positive multiple of a (sub)gradient of ‖point/axes‖_norm, per row, for points that are not negative."""
    ratio = point / axes
    if math.isinf(norm):
        return np.where(np.arange(ratio.shape[-1]) == ratio.argmax(axis=-1)[:, None], 1.0 / axes, 0.0)
    share = ratio / ratio.max(axis=-1, keepdims=True)
    return np.where(share > 0, share ** (norm - 1), 0.0) / axes


def _from_box(distance: FloatArray, a: FloatArray, b: FloatArray, q: float) -> FloatArray:
    """A growing box takes t·a of every coordinate: t with ‖(Δ - t·a)+/b‖_q = 1."""

    def left(t: FloatArray) -> FloatArray:
        return np.maximum(distance - t * a, 0.0)

    high = np.max(distance / a, axis=-1, keepdims=True)
    low, _ = _bisect(lambda t: p_norm(left(t) / b, q), np.zeros_like(high), high)
    return gradient(left(low), b, q)


def _knapsack(distance: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Cross-polytopes: Σ Δ/b - 1 is spent on the cheapest coordinates (largest a/b); the last one sets the price."""
    order = np.argsort(-a / b, axis=-1)
    spent = np.cumsum(np.take_along_axis(distance / b, order, axis=-1), axis=-1)
    last = np.argmax(spent >= spent[:, -1:] - 1.0, axis=-1)[:, None]
    price = np.take_along_axis(b / a, np.take_along_axis(order, last, axis=-1), axis=-1)
    return np.minimum(1.0 / a, price / b)


def _ellipsoids(distance: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Ellipsoids: v = Δ/(1 + μa²/b²), with ‖v/b‖_2 = 1.

    1/‖v/b‖_2 is concave and rises with μ, so Newton's steps from the left never overshoot (Conn, Gould and Toint 2000,
    Lemma 7.3.3).
    """
    ratio, share = (a / b) ** 2, distance / b
    mu = ((p_norm(share, 2) - 1) / ratio.max(axis=-1))[:, None]
    for _ in range(HALVINGS):
        gauge = share / (1 + mu * ratio)
        square = np.sum(gauge**2, axis=-1, keepdims=True)
        slope = np.sum(gauge**2 * ratio / (1 + mu * ratio), axis=-1, keepdims=True)
        step = square * (np.sqrt(square) - 1) / slope
        mu = mu + step
        if not np.any(np.abs(step) > 1e-12 * mu):
            break
    return np.asarray(share / (b * (1 + mu * ratio)))


def _smooth(distance: FloatArray, a: FloatArray, p: float, b: FloatArray, q: float) -> FloatArray:
    """Logarithms of the normal for finite norms; the unknown is a logarithm of the multiplier."""
    far, near = np.log(distance / a), np.log(distance / b)
    if p == 1:
        price = np.log(b / a) / (q - 1)
        low = _solve(lambda x: p_norm(np.exp(np.minimum(near, price - x)), q), len(b))
        return np.minimum(-np.log(a), (q - 1) * (low + near) - np.log(b))
    if q == 1:
        price = np.log(a / b) / (p - 1)
        low = _solve(lambda x: p_norm((distance - a * np.exp(np.minimum(far, price + x))) / b, 1), len(b))
        return (p - 1) * np.minimum(far, price + low) - np.log(a)
    split = _equal(a, b, p) if p == q else _unequal(far, near, a, p, b, q)
    low = _solve(lambda x: p_norm(distance / b * split(x), q), len(b))
    return _centred((q - 1) * (near + np.log(split(low))) - np.log(b))


def _equal(a: FloatArray, b: FloatArray, p: float) -> Gauge:
    """v/Δ for two shapes of the same norm: 1/(1 + θ), θ = e^x·(a/b)^(1 + 1/(p-1))."""
    price = np.log(a / b) * (1 + 1 / (p - 1))
    return lambda x: np.asarray(expit(-(x + price)))


def _unequal(far: FloatArray, near: FloatArray, a: FloatArray, p: float, b: FloatArray, q: float) -> Gauge:
    """v/Δ for two norms: per coordinate, (u/a)^(p-1)/a = e^x·(v/b)^(q-1)/b.

    In ξ = log(v/u) both sides' logarithms differ by a function that falls and is convex or concave throughout, so
    Newton's method converges from everywhere; it starts where the last call ended.
    """
    constant = np.nan_to_num((p - 1) * far - np.log(a) - (q - 1) * near + np.log(b), neginf=0.0, posinf=0.0)
    state = [np.zeros_like(a)]

    def split(x: FloatArray) -> FloatArray:
        xi = state[0]
        for _ in range(8):
            share = expit(xi)
            value = (q - 1) * np.logaddexp(0, -xi) - (p - 1) * np.logaddexp(0, xi) + constant - x
            xi = xi + value / ((p - 1) * share + (q - 1) * (1 - share))
        state[0] = xi
        return np.asarray(expit(xi))

    return split


def _solve(gauge: Gauge, entries: int) -> FloatArray:
    """The logarithm of the multiplier with gauge 1, by doubling out of zero and bisection."""
    low, high = np.full((entries, 1), -1.0), np.ones((entries, 1))
    for _ in range(12):
        low = np.where((gauge(low) < 1)[:, None], 2 * low, low)
        high = np.where((gauge(high) > 1)[:, None], 2 * high, high)
    return _bisect(gauge, low, high)[0]


def _bisect(gauge: Gauge, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The bracket (low, high), each (entries, 1), halved around the place where the gauge falls through 1."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (gauge(middle) > 1)[:, None]
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low, high


def _centred(logarithms: FloatArray) -> FloatArray:
    """The same normal, scaled so that its largest entry is one."""
    return np.asarray(logarithms - np.max(logarithms, axis=-1, keepdims=True))
