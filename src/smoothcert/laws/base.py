"""A law of noise at unit scale, and the rule that turns a probability into a radius."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.maths import Array, FloatArray
from smoothcert.maths.quadrature import HalfLine
from smoothcert.registry import Plugin


class Draws(Protocol):
    """What a law is handed: a keyed source of plain random numbers, on either side of the curtain.

    No number is one at which a logarithm, a quotient or a quantile would be infinite; what a source returns instead has
    probability at most 2^-52 a number in float64, and 2^-23 in float32. Votes are cast with float64 only.
    """

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normal numbers, none of them 0."""

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Independent numbers, uniform on (0, 1) without its ends, on a lattice of 2^-53 (float32: 2^-24)."""

    def symmetric(self, shape: tuple[int, ...]) -> Array:
        """Independent numbers, uniform on [-1, 1], on a lattice of 2^-63 where they are small: 2·uniform − 1 is coarser."""

    def exponential(self, shape: tuple[int, ...]) -> Array:
        """Independent standard exponential numbers, above 0."""

    def gamma(self, shape: tuple[int, ...], k: float) -> Array:
        """Independent numbers with density x^(k-1) exp(-x) / Γ(k), above 0.

        For k < 1 many are too small for float32, and below k = 1/20 for float64: gamma(1 + k)·uniform^(1/k), whose
        logarithm never underflows, has the same law.
        """

    def signs(self, shape: tuple[int, ...]) -> Array:
        """Independent fair signs, -1.0 or 1.0."""


@dataclass(frozen=True)
class RadiusRule:
    """A theorem: if the class wins with probability >= lower and every rival with <= upper, the radius at unit scale.

    ``radius(lower, upper, dim)`` works on arrays. With one class bounded, upper is 1 - lower. ``tight`` is the closed
    range of norms in which some classifier flips at exactly this radius, converted from the rule's own norm.
    """

    theorem: str
    radius: Callable[[Array, Array, int], Array]
    tight: tuple[float, float] | None = None

    def slope(self, lower: Array, upper: Array, dim: int) -> tuple[Array, Array]:
        """How fast the radius grows with lower and with upper; by central differences, so no formula is written twice.

        >>> from smoothcert.laws import law_named
        >>> [round(float(slope), 6) for slope in law_named("uniform").radii[1.0].slope(0.9, 0.1, 10)]
        [1.0, -1.0]
        """
        lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
        a, b = (1e-5 * np.minimum(p, 1.0 - p) for p in (lower, upper))
        by_lower = (self.radius(lower + a, upper, dim) - self.radius(lower - a, upper, dim)) / (2.0 * a)
        by_upper = (self.radius(lower, upper + b, dim) - self.radius(lower, upper - b, dim)) / (2.0 * b)
        return by_lower, by_upper


@dataclass(frozen=True)
class BoxedRule:
    """A theorem about inputs in a box: as a RadiusRule, but for ``caps``, (dim,), in place of the dimension.

    No perturbation is larger than its cap in any coordinate, in units of scale. Never below the rule without a box.
    """

    theorem: str
    radius: Callable[[Array, Array, FloatArray], Array]


class Law(Plugin, ABC):
    """Unit noise: centred, symmetric, scale one. Coordinates are independent unless ``independent`` is False.

    A law of your own gives ``sample`` and ``log_prob``; the rest is worked out numerically. With independent
    coordinates ``log_prob`` is elementwise; otherwise it takes (..., dim) and returns (...). Its parameters are the fields
    of a frozen dataclass, declared by ``setting``; a law without any may be a plain class.
    """

    independent: ClassVar[bool] = True
    inverts: ClassVar[bool] = False  # quantile is exact, also far out: votes on the pixel grid are drawn by it

    @abstractmethod
    def sample(self, shape: tuple[int, ...], draws: Draws) -> Array:
        """Independent draws of the unit law."""

    @abstractmethod
    def log_prob(self, z: Array) -> Array:
        """The log density of one coordinate, elementwise, for numpy arrays."""

    @property
    def log_concave(self) -> bool:
        """Is the log density concave? Declared, never guessed: a false claim makes the l1 radius unsound."""
        return False

    def tail(self, z: Array) -> Array:
        """P(Z > z) for one coordinate, elementwise."""
        return self._half_line.tail(z)

    def quantile(self, p: Array) -> Array:
        """The inverse of the distribution function of one coordinate, elementwise."""
        return self._half_line.quantile(p, self.tail)

    def score(self, z: Array) -> Array:
        """Minus the derivative of the log density, elementwise."""
        return self._half_line.score(z)

    @property
    def std(self) -> float | None:
        """Standard deviation of one coordinate; None when the law has none."""
        return self._half_line.std if self.independent else None

    def worst_log_ratio(self, shift: Array) -> Array:
        """The supremum over z of log φ(z - shift)/φ(z), elementwise; infinite where no closed form is known."""
        return np.where(np.asarray(shift) == 0, 0.0, np.inf)

    @property
    def radii(self) -> Mapping[float, RadiusRule]:
        """norm -> proved rule; a missing norm has no theorem. A log-concave law has one in l1."""
        if not self.log_concave:
            return {}
        return {1.0: RadiusRule("log-concave l1, F⁻¹(p)", self.half_gap, tight=(0.0, 1.0))}

    @property
    def boxed_radii(self) -> Mapping[float, BoxedRule]:
        """norm -> a rule that proves more where inputs lie in a box; most laws have none."""
        return {}

    def half_gap(self, lower: Array, upper: Array, dim: int) -> Array:
        """½(F⁻¹(p_A) − F⁻¹(p_B)): the l1 radius of any i.i.d. symmetric log-concave law, F its distribution function.

        No set of probability q grows along a coordinate faster than the half-line, at the rate φ(F⁻¹(q)), and half-lines
        reach this rate; the differential inequality integrates to F⁻¹.
        """
        return 0.5 * (self.quantile(lower) - self.quantile(upper))

    @cached_property
    def _half_line(self) -> HalfLine:
        if not self.independent:
            raise SettingError(
                f"the law {self} has dependent coordinates, so one coordinate has no density to integrate"
            )
        return HalfLine(self.log_prob)

    def scale_of(self, sigma: float) -> float:
        """The scale at which one coordinate has standard deviation sigma."""
        if not self.std:
            raise SettingError(f"the law {self} has no standard deviation, so sigma={sigma} says nothing; give scale")
        return sigma / self.std


def in_place(function: np.ufunc, values: Array) -> Array:
    """An elementwise function, such as np.expm1, written over a numpy array or over a tensor, whose module has its name.

    >>> in_place(np.expm1, np.array([0.0, 1e-20]))
    array([0.e+00, 1.e-20])
    """
    if not isinstance(values, np.ndarray) and values.device.type != "cpu":
        return getattr(values, function.__name__)()
    shared = np.asarray(values)  # the tensor's own memory: numpy's arcsinh is twelve times as fast as torch's
    function(shared, out=shared)
    return values
