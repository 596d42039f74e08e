"""Noise on the pixel grid by inversion: whole numbers of steps, looked up in a table by sixteen random bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.maths import FloatArray, IntArray

SIGN = 1 << 15  # of sixteen bits the first is the sign, the others are a cell of the tail
MOST = 1 / 16  # of the cells may be undecided: beyond, to invert the law number by number takes longer than to draw it


@dataclass(frozen=True, eq=False)
class StepTable:
    """round(scale·z) for a symmetric law of one coordinate, given by its quantiles.

    P(|z| > size) = t is uniform, and fifteen bits say in which of 2^15 cells it lies. Where both ends of a cell give the same
    number of steps, that is the draw; in the others 53 more bits place t inside the cell, and the law is inverted there. So a
    draw is that of t on a lattice of 2^-68: exact far beyond float64 sources.
    """

    scale: float
    quantile: Callable[[FloatArray], FloatArray]
    steps: NDArray[np.float32]  # by sixteen bits; NaN where they do not decide

    @classmethod
    def of(cls, quantile: Callable[[FloatArray], FloatArray], scale: float) -> StepTable | None:
        """The table, unless the grid is too fine for one.

        >>> from scipy.special import ndtri
        >>> table = StepTable.of(ndtri, 10.0)
        >>> int(np.isnan(table.steps).sum()) < 100, float(np.nanmax(table.steps))
        (True, 38.0)
        >>> StepTable.of(ndtri, 1e4) is None
        True
        """
        ends = cls._of_tail(quantile, scale, np.arange(SIGN + 1) / SIGN)
        sizes = np.where(ends[1:] == ends[:-1], ends[1:], np.nan).astype(np.float32)
        if np.isnan(sizes).mean() > MOST:
            return None
        return cls(scale, quantile, np.concatenate([sizes, -sizes]))

    @staticmethod
    def _of_tail(quantile: Callable[[FloatArray], FloatArray], scale: float, tail: FloatArray) -> FloatArray:
        return np.asarray(np.rint(scale * -np.asarray(quantile(tail / 2))))

    def fill(
        self, bits: NDArray[np.uint16], out: NDArray[np.float32], uniform: Callable[[IntArray], FloatArray]
    ) -> None:
        """Draws for these bits; uniform gives numbers inside (0, 1) for the places that they do not decide."""
        np.take(self.steps, bits, out=out, mode="clip")
        open_ = np.flatnonzero(np.isnan(out))
        cells = bits[open_]
        inside = ((cells & (SIGN - 1)) + uniform(open_)) / SIGN
        sizes = self._of_tail(self.quantile, self.scale, inside)
        out[open_] = np.where(cells & SIGN, -sizes, sizes)
