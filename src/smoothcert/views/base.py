"""A finite family of views of an input, and what follows from how they are classified."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.laws import Draws
from smoothcert.maths import Array, FloatArray, IntArray
from smoothcert.maths.counting import largest_size
from smoothcert.regions import Region
from smoothcert.registry import Plugin, setting
from smoothcert.threats import ReplacedRegion, Threat


@dataclass(frozen=True, kw_only=True)
class View(Plugin, ABC):
    """Fixed views, numbered from 0; the smoothed classifier answers what most of them are taken for.

    View t of x is ``through(x, lens(t))``: the lens knows nothing of the input, and what is seen through it may depend on
    nothing but what it keeps. That, and ``touched`` or ``region``, is all that a proof rests on. Arrays are numpy's, or
    tensors where the input is one. ``norms`` and ``threats`` say what it has a certificate against.
    """

    summary: ClassVar[str]  # one line with the source
    norms: ClassVar[tuple[float, ...]] = ()
    threats: ClassVar[tuple[str, ...]] = ()

    confidence: float = setting(0.0, "a view whose softmax stays below this votes for nobody", least=0, below=1)

    @property
    def complete(self) -> bool:
        """Are all views asked? Then the certificate is exact; otherwise they are sampled, and it has an alpha."""
        return True

    @property
    def grid(self) -> int | None:
        """Steps of the grid in one unit, if inputs are given to ``through`` as whole numbers of steps."""
        return None

    @property
    def unit(self) -> int:
        """What is seen is divided by this, once, before the network gets it in float32."""
        return 1

    @property
    def scale(self) -> FloatArray:
        """The units of a region's radius, for regions in a norm."""
        return np.array(1.0)

    @property
    def domain(self) -> str:
        """Of which inputs the certificate speaks."""
        return "all values" if self.grid is None else f"grid 1/{self.grid}"

    @abstractmethod
    def count(self, shape: tuple[int, ...]) -> int:
        """How many views there are of an input of this shape; refuses a shape that it does not know."""

    @abstractmethod
    def lens(self, shape: tuple[int, ...], numbers: IntArray) -> Array:
        """What the views of these numbers look through, whatever the input: (views, *shape), or what broadcasts to it."""

    @abstractmethod
    def through(self, x: Array, lens: Array) -> Array:
        """What is seen of x, broadcast over the views; times ``unit``."""

    def drawn(self, shape: tuple[int, ...], count: int, draws: Draws) -> Array:
        """The lenses of ``count`` views, each drawn from all with equal probability."""
        views = self.count(shape)
        return self.lens(shape, np.array([int(u * views) % views for u in draws.uniform((count,)).tolist()]))

    def touched(self, threat: Threat, shape: tuple[int, ...]) -> int:
        """How many of all views the threat can change at most, whatever the input."""
        raise self.no_certificate(str(threat))

    def region(self, center: FloatArray, threat: Threat | float, reach: int) -> Region | ReplacedRegion:
        """Where no more than ``reach`` views change, so that the answer stays: against a threat, or in a norm.

        Against a threat it is the largest of its kind, whatever size was asked for.
        """
        shape = np.shape(center)
        if not isinstance(threat, Threat):
            raise self.no_certificate(f"l{threat:g}")
        size = largest_size(lambda size: self.touched(threat.resized(size), shape), threat.most(shape), reach)
        return ReplacedRegion(center, threat.resized(size))

    def no_certificate(self, threat: str) -> SettingError:
        """The error of a threat that these views say nothing about."""
        known = [*(f"norm {norm:g}" for norm in self.norms), *(f"threat {name}" for name in self.threats)]
        return SettingError(f"{self} has no certificate against {threat}; it has one for: {', '.join(known)}")


@dataclass(frozen=True, kw_only=True)
class Masked(View):
    """Views that keep some places as they are and hide the others: a lens is True where it keeps.

    A hidden value that inputs can have too is sound, since the network may be any function of the view; one that they
    cannot have tells the network what is hidden.
    """

    hidden: float = setting(-1.0, "what the network is shown in a hidden place")

    def through(self, x: Array, lens: Array) -> Array:
        return chosen(lens, x, self.hidden)


def check_fits(view: View, name: str, value: int, most: int, what: str) -> None:
    """Refuse views that are larger than what they look at."""
    if value > most:
        raise SettingError(f"{view}: {name}={value} is more than the {what} of the input, {most}; give {most} at most")


def chosen(where: Array, yes: Array, no: Array) -> Array:
    """``yes`` where the condition holds and ``no`` elsewhere, of numpy arrays or of tensors."""
    return np.where(where, yes, no) if isinstance(where, np.ndarray) else yes.where(where, no)
