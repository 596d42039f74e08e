"""Column bands: exact certificates against patches (Levine and Feizi 2020, (De)Randomized Smoothing)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.maths import Array, IntArray
from smoothcert.maths.counting import met_on_ring
from smoothcert.registry import setting
from smoothcert.threats import Coordinates, Patch, Threat, picture
from smoothcert.views.base import Masked, check_fits


@dataclass(frozen=True)
class Bands(Masked):
    """View t keeps ``width`` columns from column t on, around the right border to the left."""

    name = "bands"
    summary = "bands of columns, for patches (Levine and Feizi 2020)"
    threats = ("patch", "l0")

    width: int = setting(4, "columns that a view keeps", least=1)

    def count(self, shape: tuple[int, ...]) -> int:
        columns = picture(shape)[1]
        check_fits(self, "width", self.width, columns, "columns")
        return columns

    def lens(self, shape: tuple[int, ...], numbers: IntArray) -> Array:
        columns = self.count(shape)
        kept = (np.arange(columns) - numbers[:, None]) % columns < self.width
        return kept.reshape(len(numbers), *[1] * (len(shape) - 1), columns)

    def touched(self, threat: Threat, shape: tuple[int, ...]) -> int:
        columns = self.count(shape)
        match threat:
            case Patch(size):
                return met_on_ring(columns, self.width, size)
            case Coordinates(size):
                return min(columns, size * self.width)
        raise self.no_certificate(str(threat))
