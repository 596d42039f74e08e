"""Randomness keyed by (seed, input index, stage, block): the same noise for every batch, worker and resume point."""

from __future__ import annotations

import threading
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.laws.draws import NumpyDraws
from smoothcert.maths import Array


class Stage(IntEnum):
    """What the draws are for. Stages never share a draw; the numbers are part of every run and never change."""

    SELECT = 0
    ESTIMATE = 1
    TUNE = 2
    PREDICT = 3
    TRAIN = 4
    RANDOMIZE = 5
    PROBE = 6  # to see whether the classifier is a fixed function of its row
    ECHO = 7  # to see whether other inputs are answered the same
    ATTACK = 8  # to search for a perturbation
    VERDICT = 9  # to judge the one that was found


def entropy_for(seed: int, index: int, stage: Stage, block: int, *child: int) -> np.random.SeedSequence:
    """The root of one block's randomness: distinct keys give independent streams (128 bits of entropy)."""
    key = (index, int(stage), block, *child)
    if min(seed, *key) >= 0 and max(seed, *key) < 2**32:  # numpy makes the same words of the key, in twice the time
        return np.random.SeedSequence(np.array((seed, 0, 0, 0, *key), dtype=np.uint32))
    return np.random.SeedSequence(entropy=seed, spawn_key=key)


class _Twister(threading.local):
    """One thread's copy of the state of a fresh Mersenne Twister of torch, and its 624 words as numpy sees them."""

    def __init__(self) -> None:
        self.state = torch.Generator().manual_seed(0).get_state()
        self.words = self.state.numpy().view(np.uint64)[3:627]


_TWISTER = _Twister()


def generator_for(
    seed: int, index: int, stage: Stage, block: int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """A torch generator for one key.

    ``manual_seed`` on the CPU uses 32 bits only, so that among a million blocks about a hundred would repeat another;
    the whole Mersenne Twister state is filled instead.
    """
    source = np.random.SFC64(entropy_for(seed, index, stage, block))
    generator = torch.Generator(device=device)
    if generator.device.type != "cpu":
        return generator.manual_seed(int(source.random_raw()) >> 1)
    np.right_shift(source.random_raw(624), 32, out=_TWISTER.words)
    return generator.set_state(_TWISTER.state)


class TorchDraws:
    """Plain random numbers from a torch generator, in its device and a dtype."""

    def __init__(self, generator: torch.Generator | None, dtype: torch.dtype, device: torch.device | str) -> None:
        self.generator, self.dtype, self.device = generator, dtype, torch.device(device)

    def _empty(self, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """Independent standard normal numbers, none of them 0."""
        numbers = self._empty(shape).normal_(generator=self.generator)
        return numbers.masked_fill_(numbers == 0, self._step / 2)

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """Independent numbers, uniform on (0, 1)."""
        numbers = self._empty(shape).uniform_(generator=self.generator)
        return numbers.clamp_(self._step / 2, 1 - self._step)

    def symmetric(self, shape: tuple[int, ...]) -> Tensor:
        """Independent numbers, uniform on [-1, 1], fine near 0."""
        steps = torch.empty(shape, dtype=torch.int64, device=self.device)
        return steps.random_(-(2**63), None, generator=self.generator).to(self.dtype).mul_(2.0**-63)

    def exponential(self, shape: tuple[int, ...]) -> Tensor:
        """Independent standard exponential numbers, above 0."""
        return self._empty(shape).exponential_(generator=self.generator).clamp_min_(self._step / 2)

    def gamma(self, shape: tuple[int, ...], k: float) -> Tensor:
        """Independent numbers with density x^(k-1) exp(-x) / Γ(k), above 0."""
        if self.device.type != "cpu":
            numbers = torch._standard_gamma(self._empty(shape).fill_(k), generator=self.generator)
            return numbers.clamp_min_(float(np.finfo(self._kind).smallest_subnormal))
        # Measured per number on one core: torch 85 ns, numpy 34.
        key = torch.randint(2**62, (4,), generator=self.generator).tolist()
        return torch.from_numpy(NumpyDraws(np.random.Generator(np.random.SFC64(key)), self._kind).gamma(shape, k))

    def signs(self, shape: tuple[int, ...]) -> Tensor:
        """Independent fair signs."""
        return self._empty(shape).bernoulli_(0.5, generator=self.generator).mul_(2.0).sub_(1.0)

    @property
    def _kind(self) -> type[np.float32] | type[np.float64]:
        return np.float64 if self.dtype == torch.float64 else np.float32

    @property
    def _step(self) -> float:
        """Of the lattice of uniform numbers: 2^-53 in float64, 2^-24 in float32."""
        return torch.finfo(self.dtype).eps / 2


class KeyedDraws(TorchDraws):
    """The fastest sources on a CPU for one key: torch for float32 normals, numpy for everything else.

    Measured per number on one core: normal float32 torch 4.3 ns, numpy 9.7; float64 torch 23, numpy 9.8;
    uniform torch 3.6, numpy 2.5; exponential torch 25, numpy 5.3. torch's float32 normals end at 5.8 and have an atom of
    2^-24 at zero: good enough to tune and to train with, not to vote with.
    """

    def __init__(
        self, seed: int, index: int, stage: Stage, block: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(None, dtype, device)
        self._key = (seed, index, stage, block)
        self._made: NumpyDraws | None = None

    @property
    def _numpy(self) -> NumpyDraws:
        if self._made is None:  # a cached_property takes a lock, which takes longer
            self._made = NumpyDraws(np.random.Generator(np.random.SFC64(entropy_for(*self._key, 0))), self._kind)
        return self._made

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        if self.dtype == torch.float64:
            return torch.from_numpy(self._numpy.normal(shape))
        if self.generator is None:  # made when first needed: filling its state takes as long as 10 000 draws
            self.generator = generator_for(*self._key)
        return super().normal(shape)

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self._numpy.uniform(shape))

    def symmetric(self, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self._numpy.symmetric(shape))

    def exponential(self, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self._numpy.exponential(shape))

    def gamma(self, shape: tuple[int, ...], k: float) -> Tensor:
        return torch.from_numpy(self._numpy.gamma(shape, k))

    def signs(self, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self._numpy.signs(shape))

    def bits(self, number: int) -> NDArray[np.uint16]:
        """So many times sixteen random bits."""
        return self._numpy.bits(number)

    def uniform_numbers(self, shape: tuple[int, ...]) -> Array:
        """Uniform numbers inside (0, 1) as an array."""
        return self._numpy.uniform(shape)


def draws_for(
    seed: int, index: int, stage: Stage, block: int, *, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> TorchDraws:
    """The keyed source of one block's noise."""
    place = torch.device(device)
    if place.type == "cpu":
        return KeyedDraws(seed, index, stage, block, dtype, place)
    return TorchDraws(generator_for(seed, index, stage, block, place), dtype, place)
