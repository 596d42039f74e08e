"""The volume of a region inside the input box, so that regions are compared by what an input can be.

A network that ignores a pixel has a region without end along it, and a volume without meaning. Here it is V, the volume of
{‖x/s‖_p <= r, low <= x <= high}, with the center at zero and inside the box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaln, log_ndtr

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import log_volume


@dataclass(frozen=True)
class BoxedVolume:
    """The logarithm of a volume: a rigorous upper bound, and an estimate that is close in many dimensions (100 and more)."""

    estimate: float
    upper: float

    def proxy_radius(self, norm: float, dim: int) -> float:
        """The radius of the plain ball without a box that has the estimated volume.

        >>> BoxedVolume(math.log(math.pi * 4), math.log(math.pi * 4)).proxy_radius(2, 2)
        2.0
        """
        return math.exp((self.estimate - log_volume(1.0, 1.0, norm, dim)) / dim)


def boxed_log_volume(
    radius: float, scale: ArrayLike, low: ArrayLike, high: ArrayLike, norm: float = 2.0
) -> BoxedVolume:
    """The log-volume of {‖x/scale‖_norm <= radius} in the box, any norm > 0; exact for l∞ and where the region holds the box.

    Chernoff: V <= exp(t·r^p)·Z(t) for every t >= 0, Z(t) = ∏∫ exp(−t|x/s|^p) dx over the box. The best t is the one at
    which Q = Σ|x_i/s_i|^p has mean r^p under the law ∝ exp(−tQ); with v its variance there and λ = t√v, the estimate is
    the saddle point's, log V = t·r^p + log Z + λ²/2 + log Φ(−λ). Where half of the box or more is inside, t = 0 and the
    estimate is the box times the normal approximation of P(Q <= r^p).

    >>> square = boxed_log_volume(0.5, np.ones(3), 0.0, 1.0, math.inf)
    >>> round(math.exp(square.upper), 6), square.estimate == square.upper
    (0.125, True)
    """
    axes, below, above = _checked(radius, scale, low, high, norm)
    if math.isinf(norm):
        volume = float(np.sum(np.log(np.minimum(above, radius * axes) + np.minimum(below, radius * axes))))
        return BoxedVolume(volume, volume)
    box, level = float(np.sum(np.log(above + below))), radius**norm
    walls = np.stack([below / axes, above / axes]) ** norm
    if float(np.sum(walls.max(axis=0))) <= level:
        return BoxedVolume(box, box)
    mean, variance = _flat_moments(walls, norm)
    if mean <= level:
        return BoxedVolume(box + float(log_ndtr((level - mean) / math.sqrt(variance))), box)
    tilt = _tilt(level, walls, norm)
    log_z, _, variance = _tilted(tilt, axes, walls, norm)
    rounding = 1e-13 * (len(axes) + float(np.sum(np.abs(np.log(axes)))) + abs(tilt * level))
    upper = tilt * level + log_z + rounding
    size = tilt * math.sqrt(variance)
    return BoxedVolume(upper + size**2 / 2 + float(log_ndtr(-size)), upper)


def _checked(
    radius: float, scale: ArrayLike, low: ArrayLike, high: ArrayLike, norm: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The axes, and the distances to the lower and upper walls, one for each coordinate."""
    values = (np.ravel(np.asarray(value, dtype=float)) for value in (scale, low, high))
    axes, bottom, top = np.broadcast_arrays(*values)
    if not (radius > 0 and norm > 0 and np.all(axes > 0) and np.all(np.isfinite(axes))):
        raise SettingError(
            f"radius={radius}, norm={norm} and every scale must be numbers above 0; a point has no volume"
        )
    if not (np.all(bottom <= 0) and np.all(top >= 0) and np.all(bottom < top) and np.all(np.isfinite(top - bottom))):
        raise SettingError("the box must be finite and hold the center: give low - center <= 0 <= high - center")
    return axes, -bottom, top


def _flat_moments(walls: FloatArray, norm: float) -> tuple[float, float]:
    """Mean and variance of Q under the uniform law of the box; walls are (2, dim), as powers |wall/s|^p."""
    lengths = walls ** (1.0 / norm)
    share = lengths / lengths.sum(axis=0)
    first = np.sum(share * walls, axis=0) / (norm + 1)
    second = np.sum(share * walls**2, axis=0) / (2 * norm + 1)
    return float(first.sum()), float(np.sum(second - first**2))


def _tilt(level: float, walls: FloatArray, norm: float) -> float:
    """The t at which Q has mean ``level``, to be found between 0 and d/(p·level), its value without a box."""
    ones = np.ones(walls.shape[1])
    most = 2.0 * walls.shape[1] / (norm * level)  # without a box the mean is d/(p·t), and walls only lower it

    def excess(log_t: float) -> float:
        return _tilted(math.exp(log_t), ones, walls, norm)[1] - level

    least = math.log(most)
    while excess(least) <= 0 and least > -600:
        least -= 2.0
    from scipy.optimize import brentq  # 0.1 s to import

    return math.exp(brentq(excess, least, math.log(most))) if least < math.log(most) else most


def _tilted(t: float, axes: FloatArray, walls: FloatArray, norm: float) -> tuple[float, float, float]:
    """log Z, and mean and variance of Q under the law ∝ exp(−tQ): incomplete gamma functions, all terms positive."""
    shape, reach = 1.0 / norm, t * walls
    parts = [gammainc(shape + order, reach).sum(axis=0) for order in range(3)]
    log_z = np.log(axes) - shape * math.log(t) + float(gammaln(1 + shape)) + np.log(parts[0])
    first = parts[1] / parts[0] * shape / t
    second = parts[2] / parts[0] * shape * (shape + 1) / t**2
    return float(log_z.sum()), float(first.sum()), float(np.sum(second - first**2))
