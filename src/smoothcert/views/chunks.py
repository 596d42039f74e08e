"""Chunks: exact certificates against a run of replaced places, such as tokens or bytes (Levine and Feizi 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.maths import Array, IntArray
from smoothcert.maths.counting import chunks_met
from smoothcert.registry import setting
from smoothcert.threats import Coordinates, Span, Threat, line
from smoothcert.views.base import Masked, check_fits


@dataclass(frozen=True)
class Chunks(Masked):
    """View t keeps places t·length to (t+1)·length − 1: the chunks do not overlap, and the last may be shorter."""

    name = "chunks"
    summary = "chunks without overlap, for places in a row (Levine and Feizi 2020)"
    threats = ("span", "l0")

    length: int = setting(16, "places that a view keeps", least=1)

    def count(self, shape: tuple[int, ...]) -> int:
        places = line(shape)
        check_fits(self, "length", self.length, places, "places")
        return -(-places // self.length)

    def lens(self, shape: tuple[int, ...], numbers: IntArray) -> Array:
        return np.arange(line(shape)) // self.length == numbers[:, None]

    def touched(self, threat: Threat, shape: tuple[int, ...]) -> int:
        chunks = self.count(shape)
        match threat:
            case Span(size):
                return chunks_met(line(shape), self.length, size)
            case Coordinates(size):
                return min(chunks, size)
        raise self.no_certificate(str(threat))
