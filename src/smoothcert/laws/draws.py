"""Plain random numbers from a numpy generator, for the side of the curtain without tensors."""

from __future__ import annotations

import numpy as np

from smoothcert.maths import FloatArray


class NumpyDraws:
    """The Draws protocol over a numpy generator, in float64.

    >>> NumpyDraws(np.random.default_rng(0)).signs((2, 3)).shape
    (2, 3)
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def normal(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent standard normal numbers."""
        return self.generator.standard_normal(shape)

    def uniform(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent numbers, uniform on [0, 1)."""
        return self.generator.random(shape)

    def exponential(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent standard exponential numbers."""
        return self.generator.standard_exponential(shape)

    def gamma(self, shape: tuple[int, ...], k: float) -> FloatArray:
        """Independent numbers with density x^(k-1) exp(-x) / Γ(k)."""
        return self.generator.standard_gamma(k, shape)

    def signs(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent fair signs."""
        return np.asarray(2.0 * self.generator.integers(0, 2, shape) - 1.0, dtype=float)
