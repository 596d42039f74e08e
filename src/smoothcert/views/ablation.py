"""Ablation: a few places are kept, the rest hidden (Levine and Feizi 2020, Robustness certificates for sparse attacks)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.laws import Draws
from smoothcert.maths import Array, IntArray
from smoothcert.maths.counting import subsets_met
from smoothcert.registry import setting
from smoothcert.threats import Coordinates, Patch, Span, Threat, layout
from smoothcert.views.base import Masked, check_fits

MOST_SUBSETS = 100_000  # that can be asked one by one


@dataclass(frozen=True)
class Ablation(Masked):
    """A view keeps ``keep`` places: tokens, columns of a table, or pixels with all their channels.

    All subsets are views; where they are too many, they are sampled.
    """

    name = "ablation"
    summary = "few places kept, for any few replaced ones (Levine and Feizi 2020)"
    threats = ("l0", "patch", "span")

    keep: int = setting(45, "places that a view keeps", least=1)
    ask: str = setting("sampled", "which subsets are asked", choices=("sampled", "all"))

    @property
    def complete(self) -> bool:
        return self.ask == "all"

    def count(self, shape: tuple[int, ...]) -> int:
        places = math.prod(layout(shape))
        check_fits(self, "keep", self.keep, places, "places")
        subsets = math.comb(places, self.keep)
        if self.complete and subsets > MOST_SUBSETS:
            raise SettingError(
                f"{self}: {places} places have {subsets:.3g} subsets of {self.keep}; all of up to {MOST_SUBSETS} can be "
                "asked: sample them with ask=sampled, or keep another number"
            )
        return subsets

    def lens(self, shape: tuple[int, ...], numbers: IntArray) -> Array:
        self.count(shape)
        return _as_places(_subsets(math.prod(layout(shape)), self.keep)[numbers], shape)

    def drawn(self, shape: tuple[int, ...], count: int, draws: Draws) -> Array:
        """The first of a random order. Ties are as good as impossible in float64: below 1e-9 for 3 000 places."""
        self.count(shape)
        order = draws.uniform((count, math.prod(layout(shape)))).argsort(-1).argsort(-1)
        return _as_places(order < self.keep, shape)

    def touched(self, threat: Threat, shape: tuple[int, ...]) -> int:
        """A patch or a run is some number of places; that they lie together does not help."""
        self.count(shape)
        places = math.prod(layout(shape))
        match threat:
            case Coordinates(size) | Span(size):
                return subsets_met(places, self.keep, size)
            case Patch(size):
                return subsets_met(places, self.keep, size * size)
        raise self.no_certificate(str(threat))


def _as_places(kept: Array, shape: tuple[int, ...]) -> Array:
    """Kept places, (views, places), in the shape of the input, the same for all channels."""
    room = layout(shape)
    return kept.reshape(len(kept), *[1] * (len(shape) - len(room)), *room)


@cache
def _subsets(places: int, keep: int) -> Array:
    """Every subset in the order of itertools.combinations, (subsets, places), True where kept."""
    chosen = np.array(list(combinations(range(places), keep)))
    kept = np.zeros((len(chosen), places), dtype=bool)
    np.put_along_axis(kept, chosen, True, axis=1)
    return kept
