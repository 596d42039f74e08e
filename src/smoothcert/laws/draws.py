"""Plain random numbers from a numpy generator, for the side of the curtain without tensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smoothcert.maths import Array

# Of the lattice of uniform numbers: 2^-53 in float64.
STEPS = {kind: float(np.finfo(kind).epsneg) for kind in (np.float32, np.float64)}


class NumpyDraws:
    """The Draws protocol over a numpy generator, in float64 or float32.

    >>> NumpyDraws(np.random.default_rng(0)).signs((2, 3)).shape
    (2, 3)
    """

    def __init__(self, generator: np.random.Generator, kind: type[np.float32] | type[np.float64] = np.float64) -> None:
        self.generator, self.kind = generator, kind
        self.step = STEPS[kind]

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normal numbers, none of them 0."""
        numbers = self.generator.standard_normal(shape, self.kind)
        numbers[numbers == 0] = self.step / 2
        return numbers

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Independent numbers, uniform on (0, 1)."""
        numbers = self.generator.random(shape, self.kind)
        return np.clip(numbers, self.step / 2, 1 - self.step, out=numbers)

    def symmetric(self, shape: tuple[int, ...]) -> Array:
        """Independent numbers, uniform on [-1, 1], fine near 0."""
        steps = self.generator.integers(-(2**63), 2**63 - 1, shape, endpoint=True)
        return np.multiply(steps, 2.0**-63).astype(self.kind, copy=False)

    def exponential(self, shape: tuple[int, ...]) -> Array:
        """Independent standard exponential numbers, above 0."""
        numbers = self.generator.standard_exponential(shape, self.kind)
        return np.maximum(numbers, self.step / 2, out=numbers)

    def gamma(self, shape: tuple[int, ...], k: float) -> Array:
        """Independent numbers with density x^(k-1) exp(-x) / Γ(k), above 0."""
        numbers = self.generator.standard_gamma(k, shape, self.kind)
        return np.maximum(numbers, np.finfo(self.kind).smallest_subnormal, out=numbers)

    def signs(self, shape: tuple[int, ...]) -> Array:
        """Independent fair signs."""
        number = int(np.prod(shape))
        bits = np.unpackbits(np.frombuffer(self.generator.bytes(number // 8 + 1), dtype=np.uint8), count=number)
        numbers: Array = bits.astype(self.kind).reshape(shape)
        numbers *= 2.0
        numbers -= 1.0
        return numbers

    def bits(self, number: int) -> NDArray[np.uint16]:
        """So many times sixteen random bits: a generator's own words, cut in four."""
        words: NDArray[np.uint64] = self.generator.bit_generator.random_raw(-(-number // 4))
        return words.view(np.uint16)[:number]
