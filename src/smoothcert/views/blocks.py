"""Square blocks: exact certificates against patches (Levine and Feizi 2020, (De)Randomized Smoothing)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.maths import Array, IntArray
from smoothcert.maths.counting import met_on_ring
from smoothcert.registry import setting
from smoothcert.threats import Coordinates, Patch, Threat, picture
from smoothcert.views.base import Masked, check_fits


@dataclass(frozen=True)
class Blocks(Masked):
    """View t keeps a square of side × side pixels; its corner is pixel t, row by row, and it goes around the borders."""

    name = "blocks"
    summary = "square blocks, for patches (Levine and Feizi 2020)"
    threats = ("patch", "l0")

    side: int = setting(12, "pixels along the side of what a view keeps", least=1)

    def count(self, shape: tuple[int, ...]) -> int:
        height, width = picture(shape)
        check_fits(self, "side", self.side, min(height, width), "rows or columns")
        return height * width

    def lens(self, shape: tuple[int, ...], numbers: IntArray) -> Array:
        height, width = picture(shape)
        rows = (np.arange(height) - numbers[:, None] // width) % height < self.side
        columns = (np.arange(width) - numbers[:, None] % width) % width < self.side
        kept = rows[:, :, None] & columns[:, None, :]
        return kept.reshape(len(numbers), *[1] * (len(shape) - 2), height, width)

    def touched(self, threat: Threat, shape: tuple[int, ...]) -> int:
        views, sides = self.count(shape), picture(shape)
        match threat:
            case Patch(size):
                rows, columns = (met_on_ring(side, self.side, size) for side in sides)
                return rows * columns
            case Coordinates(size):
                return min(views, size * self.side**2)
        raise self.no_certificate(str(threat))
