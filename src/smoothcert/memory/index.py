"""The stored regions as seen by the memory: which contain a point, and how near a new region may come to the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.geometry import p_norm
from smoothcert.maths.inside import room_inside
from smoothcert.maths.overlap import clear_radius, largest_gauge, plane_clearance
from smoothcert.maths.sketch import BLOCKS, distance_at_least, sketch, sketch_axes, sketched_clearance
from smoothcert.regions import Region

CACHE = 1 << 28  # bytes of regions kept at hand; the others are read from the file when a test needs them
FIRST, ELEMENTS = 16, 1 << 20  # entries in the first chunk of a test; numbers in a later one
ROUNDING = 1e-6  # relative, far above what two ways of adding up the coordinates can differ by
MARGIN = 1e-9  # closed sets touch at the clear radius; this is what is left between them, relative
Load = Callable[[int], Region]


class Shelf:
    """Regions by position 0, 1, …: a sketch, a label and an enclosing l2 ball each decide most questions about them.

    A region's enclosing ball has radius ``reach`` and sketches never overstate a distance, so what they rule out is
    ruled out exactly.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self.dim = 0
        self._near: dict[int, Region] = {}
        self._spare = CACHE
        self._size = 0
        self._axes = np.empty((0, 0))
        self._sketches, self._facts = np.empty((0, 0)), np.empty((0, 4))  # columns: label, norm, squared norm, reach

    def __len__(self) -> int:
        return self._size

    @property
    def norms(self) -> set[float]:
        """The norms of the regions."""
        return {float(norm) for norm in np.unique(self._column(1))}

    def add(self, label: int, region: Region) -> None:
        """Put a region behind the others."""
        center = np.asarray(region.center, dtype=float).reshape(1, -1)
        row = sketch(center)[0]
        if self._size == len(self._sketches):
            self._grow(len(row))
        self._sketches[self._size] = row
        self._axes[self._size] = region.radius * sketch_axes(region.full_scale.ravel(), region.norm)
        self._facts[self._size] = (label, region.norm, row @ row, region.radius * _reach(region))
        self._keep(self._size, region)
        self._size, self.dim = self._size + 1, region.dim

    def containing(self, point: FloatArray) -> list[int]:
        """Positions of the regions that contain the point, oldest first: exactly those whose ``contains`` says so."""
        if not self._size:
            return []
        distance, reach = self._distances(point), self._column(3)
        candidates = np.flatnonzero(distance <= reach * (1 + MARGIN))
        likely = np.zeros(self._size, dtype=bool)
        for part in _chunks(candidates, self.dim):  # many at once, which rounds otherwise; a region's own word decides
            for norm, entries in self._by_norm(part):
                regions = [self._region(int(i)) for i in entries]
                centers = np.stack([np.ravel(r.center) for r in regions])
                scales = np.stack([r.full_scale.ravel() for r in regions])
                gauges = p_norm((np.ravel(point) - centers) / scales, norm)
                likely[entries] = gauges <= np.array([r.radius for r in regions]) * (1 + ROUNDING)
        return [int(i) for i in np.flatnonzero(likely) if _contains(self._region(int(i)), point)]

    def clear_radius(self, region: Region, label: int) -> float:
        """The radius at which a copy of the region touches the first region of another label; infinite if that exceeds
        its own radius. Nearest candidates first, so that what was found rules out the rest."""
        if not self._size:
            return math.inf
        bounds = (self._distances(np.asarray(region.center)) - self._column(3)) / _reach(region)
        bounds -= MARGIN * np.abs(bounds)
        cap = region.radius * (1 + 4 * MARGIN)
        candidates = np.flatnonzero((bounds < cap) & (self._column(0) != label))
        for norm, entries in self._by_norm(candidates):
            bounds[entries] = np.maximum(bounds[entries], self._sketched(region, norm, entries))
        candidates = candidates[bounds[candidates] < cap]
        candidates = candidates[np.argsort(bounds[candidates], kind="stable")]
        best = math.inf
        for part in _chunks(candidates, region.dim):
            part = part[bounds[part] < min(cap, best)]
            for norm, entries in self._by_norm(part):
                best = min(best, self._nearest(region, norm, entries, min(cap, best)))
        return best if best < cap else math.inf

    def most_room(self, region: Region, positions: list[int]) -> tuple[float, int]:
        """The largest radius of a copy of the region inside one of these, and the position of that one."""
        best, where = -1.0, positions[0]
        for norm, entries in self._by_norm(np.array(positions)):
            offset, axes = self._arrays(region, entries)
            room = room_inside(offset, region.full_scale.ravel(), region.norm, axes, norm)
            if room.max() > best:
                best, where = float(room.max()), int(entries[room.argmax()])
        return best, where

    def largest_around(self, point: FloatArray, positions: list[int]) -> tuple[Region, int]:
        """The largest copy around a point of one of these regions, which hold it, inside that one; and its position."""
        copies = ((self._region(position).around(point), position) for position in positions)
        return max(copies, key=lambda found: (found[0].inner_radius, found[1]))

    def label(self, position: int) -> int:
        """The label promised there."""
        return int(self._facts[position, 0])

    def _sketched(self, region: Region, norm: float, entries: IntArray) -> FloatArray:
        """Lower bounds of the clear radius from block averages alone."""
        row = sketch(np.asarray(region.center, dtype=float).reshape(1, -1))[0]
        offset = self._sketches[entries, :BLOCKS] - row[:BLOCKS]
        lengths = np.sqrt(self._facts[entries, 2]) + np.sqrt(row @ row)
        axes = sketch_axes(region.full_scale.ravel(), region.norm)
        return sketched_clearance(offset, lengths, axes, region.norm, self._axes[entries], norm)

    def _nearest(self, region: Region, norm: float, entries: IntArray, cap: float) -> float:
        """The least clear radius among entries of one norm, or any value >= cap."""
        offset, axes = self._arrays(region, entries)
        scale = region.full_scale.ravel()
        # The plane across the line between the centres costs one pass and often suffices.
        easy = plane_clearance(offset, offset, scale, region.norm, axes, norm)
        hard = np.flatnonzero(~(easy >= cap))
        if not len(hard):
            return math.inf
        return float(clear_radius(offset[hard], scale, region.norm, axes[hard], norm).min())

    def _arrays(self, region: Region, entries: IntArray) -> tuple[FloatArray, FloatArray]:
        """Centers as seen from the region's, and semi-axes: (entries, dim) each."""
        regions = [self._region(int(i)) for i in entries]
        centers = np.stack([np.asarray(r.center).ravel() for r in regions]).astype(float)
        axes = np.stack([r.radius * r.full_scale.ravel() for r in regions])
        return centers - np.asarray(region.center, dtype=float).ravel(), axes

    def _by_norm(self, entries: IntArray) -> Iterator[tuple[float, IntArray]]:
        norms = self._facts[entries, 1]
        for norm in np.unique(norms):
            yield float(norm), entries[norms == norm]

    def _distances(self, point: FloatArray) -> FloatArray:
        row = sketch(np.asarray(point, dtype=float).reshape(1, -1))[0]
        return distance_at_least(self._sketches[: self._size], self._column(2), row)

    def _column(self, number: int) -> FloatArray:
        return self._facts[: self._size, number]

    def _grow(self, width: int) -> None:
        """Twice the rows, so that adding costs the same on average however many there are."""
        rows = max(64, self._size)
        blocks = min(width, BLOCKS)
        self._sketches = np.vstack([self._sketches.reshape(self._size, width), np.zeros((rows, width))])
        self._axes = np.vstack([self._axes.reshape(self._size, blocks), np.zeros((rows, blocks))])
        self._facts = np.vstack([self._facts, np.zeros((rows, 4))])

    def _region(self, position: int) -> Region:
        found = self._near.get(position)
        if found is None:
            found = self._load(position)
            self._keep(position, found)
        return found

    def _keep(self, position: int, region: Region) -> None:
        compact = Region(_compact(region.center), _compact(region.scale), region.radius, region.norm)
        size = compact.center.nbytes + compact.scale.nbytes
        if size <= self._spare:
            self._spare -= size
            self._near[position] = compact


def _contains(region: Region, point: FloatArray) -> bool:
    return region.contains(point.reshape(np.shape(region.center)))


def _reach(region: Region) -> float:
    """The radius of the l2 ball around a copy of radius one."""
    scale = region.full_scale.ravel()
    return float(largest_gauge(scale, region.norm, np.ones_like(scale), 2.0))


def _compact(array: FloatArray) -> FloatArray:
    """The same numbers in half of the space when float32 holds them exactly, as it does images."""
    with np.errstate(over="ignore"):
        half = np.asarray(array, dtype=np.float32)
    return half if np.array_equal(half, array) else np.array(array, dtype=float)  # type: ignore[return-value]


def _chunks(positions: IntArray, dim: int) -> Iterator[IntArray]:
    """A short piece first, then pieces of bounded size."""
    start, size = 0, FIRST
    while start < len(positions):
        yield positions[start : start + size]
        start, size = start + size, max(FIRST, ELEMENTS // dim)
