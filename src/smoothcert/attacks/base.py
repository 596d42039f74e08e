"""What an attack is: a search for the perturbation inside a region at which the deployed predictor is weakest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from smoothcert.attacks.victim import Victim
from smoothcert.maths import FloatArray
from smoothcert.registry import Plugin

SCREEN = 32  # votes per point where many are compared


class Attack(Plugin, ABC):
    """Searches inside the victim's region. Whatever it returns is judged on fresh votes, so it may search as it likes.

    A frozen dataclass whose fields are its parameters. Offsets are rows of (points, dim) in float64, perturbations of the input; ``victim.inside`` makes any of them legal.
    """

    needs_gradient: ClassVar[bool] = False

    @abstractmethod
    def find(self, victim: Victim, budget: int) -> FloatArray:
        """The most damaging offset found, (dim,), with about ``budget`` evaluations of the classifier."""


def weakest(victim: Victim, offsets: FloatArray, votes: int = 64) -> FloatArray:
    """The offset at which the label leads by least, in a few votes on the same draws for all."""
    return np.asarray(offsets[int(np.argmin(victim.margins(offsets, votes)))])


def plane(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """An input as channels, height and width; anything but a picture is one row.

    >>> plane((3, 32, 32)), plane((28, 28)), plane((12,))
    ((3, 32, 32), (1, 28, 28), (1, 1, 12))
    """
    if len(shape) < 2:
        return 1, 1, math.prod(shape)
    return math.prod(shape[:-2]), shape[-2], shape[-1]
