"""Boundaries of group-sequential tests, computed once and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from numpy.typing import ArrayLike

from smoothcert.files import keep_arrays, kept_arrays
from smoothcert.maths import IntArray
from smoothcert.maths.boundaries import Boundary, boundary, nested
from smoothcert.maths.sequential import check_looks

# Part of every file name: raise it whenever a boundary would come out different.
CACHE_VERSION = 1


@dataclass(frozen=True, eq=False)
class BoundaryCache:
    """Boundaries computed once per (p0, looks, alpha): kept in memory, and in ``folder`` if one is given.

    Processes may share a folder: a file appears whole or not at all, and equal keys hold equal numbers. A file that
    cannot be read is computed again and replaced; one that cannot be written is done without.

    >>> cache = BoundaryCache()
    >>> cache.get(0.9, [100, 200], 0.001) is cache.get(0.9, [100, 200], 0.001)
    True
    """

    folder: Path | None = None
    _known: dict[str, Boundary] = field(default_factory=dict, repr=False)

    def get(self, p0: float, looks: ArrayLike, alpha: float) -> Boundary:
        """``boundary(p0, looks, alpha)``, from memory, from the folder, or computed now."""
        times = check_looks(looks)
        words = f"{float(p0).hex()} {float(alpha).hex()} {times.tolist()}"
        name = f"boundary-v{CACHE_VERSION}-{hashlib.sha256(words.encode()).hexdigest()[:32]}.arrays"
        if name not in self._known:
            stored = None if self.folder is None else _read(self.folder / name, p0, times, alpha)
            self._known[name] = stored or boundary(p0, times, alpha)
            if stored is None and self.folder is not None:
                keep_arrays(self.folder / name, _columns(self._known[name]))
        return self._known[name]

    def grid(self, p0s: Iterable[float], looks: ArrayLike, alpha: float) -> tuple[Boundary, ...]:
        """The nested boundaries of several p0, ready for ``decide``."""
        return nested(self.get(p0, looks, alpha) for p0 in sorted(set(p0s)))


def _read(path: Path, p0: float, times: IntArray, alpha: float) -> Boundary | None:
    """The stored boundary, or None if the file is missing or damaged."""
    stored = kept_arrays(path)
    if stored is None:
        return None
    return Boundary(p0, times, alpha, stored["upper"], stored["lower"], float(stored["error"]))


def _columns(test: Boundary) -> dict[str, ArrayLike]:
    return {"upper": test.upper, "lower": test.lower, "error": test.error}
