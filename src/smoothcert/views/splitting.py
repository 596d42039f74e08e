"""Splitting noise with all its views asked: exact certificates in l1 (Levine and Feizi 2021, here per coordinate)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.maths import Array, FloatArray, IntArray
from smoothcert.maths.counting import rounded_down
from smoothcert.regions import Region
from smoothcert.registry import setting
from smoothcert.threats import Threat
from smoothcert.views.base import View, chosen

MOST_VIEWS = 1_000_000


@dataclass(frozen=True)
class Splitting(View):
    """Every coordinate is cut into cells of L = 2·lam·steps grid steps, and a view tells the cell, not the value.

    View t has its cuts above the levels s, s ± L, … with s = (v + t) mod L, where v is drawn once for each coordinate.
    Moving one coordinate by one step crosses a cut in exactly one of L views. With L_i of its own per coordinate
    (``file``) there are L = lcm(L_i) views, and such a step changes L/L_i of them: so while ρ views may change, the answer
    is constant for Σ|δ_i|/λ_i <= 2ρ/L with λ_i = L_i/(2·steps).
    """

    name = "splitting"
    summary = "cells with all their cuts, exact in l1 (Levine and Feizi 2021)"
    norms = (1.0,)

    lam: float = setting(1.0, "half of the length of a cell: a whole number of half grid steps", above=0)
    steps: int = setting(255, "steps of the grid in one unit: 255 for 8-bit pictures", least=1)
    seed: int = setting(0, "the key of the cuts of view 0", least=0)
    file: str | None = setting(
        None, "a .npy file of whole numbers, the grid steps in a cell of each coordinate, for lam"
    )

    @property
    def grid(self) -> int:
        return self.steps

    @property
    def unit(self) -> int:
        """Middles of cells are whole numbers of quarter steps."""
        return 4 * self.steps

    @property
    def scale(self) -> FloatArray:
        """λ_i: half of the length of a cell."""
        lengths = np.array(self._whole_length()) if self.file is None else self._from_file
        return np.asarray(lengths / (2 * self.steps))

    def content(self) -> object:
        """The parameters, with the numbers that the file holds in its place."""
        return super().content() if self.file is None else (self.steps, self.seed, self._from_file)

    def lengths(self, shape: tuple[int, ...]) -> IntArray:
        """L_i: the grid steps in a cell of each coordinate."""
        if self.file is None:
            return np.full(shape, self._whole_length())
        found = self._from_file
        if found.shape != shape:
            raise SettingError(f"{self.file} holds numbers for inputs of shape {found.shape}; these have shape {shape}")
        return found

    def count(self, shape: tuple[int, ...]) -> int:
        views = math.lcm(*np.unique(self.lengths(shape)).tolist())
        if views > MOST_VIEWS:
            raise SettingError(
                f"{self}: the cells of the coordinates together have {views:.3g} views, and up to {MOST_VIEWS} can be "
                "asked; give numbers of steps that divide one another, such as 255, 510 and 1530"
            )
        return views

    def lens(self, shape: tuple[int, ...], numbers: IntArray) -> IntArray:
        """The levels below the cuts within [0, 1], then what is shown of the cells between them: (cuts + cells, views, *shape).

        An input on the grid is in cell m if it is above m of the cuts; the cell's middle is in quarter steps.
        """
        lengths = self.lengths(shape)
        # A stream of numbers that numpy never changes; what remains after division is as good as any.
        words = np.random.SeedSequence(self.seed).generate_state(math.prod(shape), np.uint64)
        first = (words % lengths.ravel().astype(np.uint64)).astype(np.int64).reshape(shape)
        lowest = (first + numbers.reshape(-1, *[1] * len(shape))) % lengths
        cuts = [lowest + k * lengths for k in range(-(-self.steps // int(lengths.min())))]
        edges = [2 * (cut - lengths) + 1 for cut in cuts[:1]] + [2 * cut + 1 for cut in cuts]
        shown = [edge.clip(0, None) + (edge + 2 * lengths).clip(None, 2 * self.steps) for edge in edges]
        return np.stack(cuts + shown)

    def through(self, x: Array, lens: Array) -> Array:
        cuts = len(lens) // 2
        seen = lens[cuts]
        for cut, shown in zip(lens[:cuts], lens[cuts + 1 :], strict=True):
            seen = chosen(x > cut, shown, seen)
        return seen

    def region(self, center: FloatArray, threat: Threat | float, reach: int) -> Region:
        if threat != 1.0:
            raise self.no_certificate(str(threat) if isinstance(threat, Threat) else f"l{threat:g}")
        radius = rounded_down(Fraction(2 * reach, self.count(np.shape(center))))
        return Region(center, self.scale, radius, norm=1.0)

    def _whole_length(self) -> int:
        exact = 2 * self.lam * self.steps
        length = round(exact)
        if length < 1 or abs(exact - length) > 1e-9 * exact:
            fits = [f"{max(steps, 1) / (2 * self.steps):.12g}" for steps in (math.floor(exact), math.ceil(exact))]
            raise SettingError(
                f"splitting: lam={self.lam} makes cells of {exact:g} grid steps of 1/{self.steps}, which must be a whole "
                f"number; use lam={' or '.join(dict.fromkeys(fits))}"
            )
        return length

    @cached_property
    def _from_file(self) -> IntArray:
        """Read once: what is proved and what was seen must follow from the same numbers."""
        assert self.file is not None
        try:
            found = np.load(self.file, allow_pickle=False)
        except (OSError, ValueError) as problem:
            raise SettingError(f"cannot read {self.file} ({problem}); give a .npy file of whole numbers") from problem
        if not (np.issubdtype(found.dtype, np.integer) and found.size and found.min() >= 1):
            raise SettingError(f"{self.file} must hold whole numbers from 1 up, the grid steps in a cell")
        return np.asarray(found, dtype=np.int64)
