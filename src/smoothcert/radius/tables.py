"""Tables p -> radius, one per law, norm and dimension: a certificate then costs a look-up.

A radius depends on the law and on p_A, never on the input. Nodes are a half per cent or a hundredth apart in Φ⁻¹(p),
whichever is less, up to 1 − 1e-7. Since the radius is convex in p, interpolation would overstate it: the certified radius
is the value at the largest node at or below p, the upper radius the value at the next node up. The values are those of
``bracket``: a table is at most a step below it, and never above.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from smoothcert.errors import SettingError
from smoothcert.files import keep_arrays, kept_arrays
from smoothcert.laws import Law, law_named
from smoothcert.maths import FloatArray
from smoothcert.maths.cells import positive_edges
from smoothcert.maths.composition import (
    composed_attack,
    coordinate_attack,
    directions,
    flip_along,
    flip_length,
    flip_score,
    half_line,
)
from smoothcert.radius.bracket import LARGEST_P, Engines, check_request

# Part of every file name: raise it whenever a number in a table would come out different.
TABLE_VERSION = 3

# In Φ⁻¹(p): nodes grow by a part of themselves, later by a step. The upper radius is computed at every eighth node from
# UPPER_FROM on, and at every fourth of the even ones.
_FIRST, _PART, _STEP = 1e-4, 0.005, 0.01
_UPPER_FROM = 1e-3
_PROBES = (0.6, 0.95, 1.0 - 1e-6)  # where directions are compared before the worst ones are followed
_KNOTS = 40  # of the curve from which lengths are predicted
_CELLS = 500  # a table takes fewer cells than a single radius: its steps are coarser than they are


@dataclass(frozen=True, eq=False)
class RadiusTable:
    """The certified and the upper radius at unit scale for each probability in ``nodes``; rules[which] proved them."""

    nodes: FloatArray
    lower: FloatArray
    upper: FloatArray
    rules: tuple[str, ...]
    which: FloatArray

    def __post_init__(self) -> None:
        for array in (self.nodes, self.lower, self.upper, self.which):
            array.flags.writeable = False  # tables are shared through the cache

    @cached_property
    def _lists(self) -> tuple[list[float], list[float], list[float]]:
        return self.nodes.tolist(), self.lower.tolist(), self.upper.tolist()  # bisect is fastest on lists

    def certified(self, p: float) -> float:
        """The radius at unit scale certified when the label's probability is at least p; zero below the first node."""
        nodes, lower, _ = self._lists
        at = bisect_right(nodes, p)
        return lower[at - 1] if at and p >= nodes[0] else 0.0  # NaN certifies nothing

    def highest(self, p: float) -> float:
        """The radius at unit scale that no rule can exceed at p; infinite above the last node."""
        nodes, _, upper = self._lists
        at = bisect_left(nodes, p)
        return upper[at] if at < len(nodes) else math.inf

    def rule(self, p: float) -> str:
        """What proves ``certified(p)``."""
        at = bisect_right(self._lists[0], p)
        return self.rules[int(self.which[at - 1])] if at else "nothing proved"


def table_nodes() -> FloatArray:
    """The probabilities of a table, from just above one half to 1 − 1e-7: the radius falls by a half per cent at most."""
    turn, end = _STEP / _PART, float(ndtri(LARGEST_P))
    near = np.geomspace(_FIRST, turn, round(math.log(turn / _FIRST) / _PART))
    return np.asarray(ndtr(np.append(near, np.linspace(turn, end, round((end - turn) / _STEP) + 1)[1:])))


def build_table(law: Law | str, norm: float, dim: int, nodes: FloatArray | None = None) -> RadiusTable:
    """The table of one law in one norm and dimension, for one class bounded.

    >>> table = build_table("gaussian", 2, 3072)
    >>> 1.27 < table.certified(0.9) <= 1.281552 <= table.highest(0.9) < 1.30
    True
    """
    law = law_named(law)
    check_request(law, norm, dim)
    if not law.independent:
        raise SettingError(
            f"the law {law} has dependent coordinates, and no table; use certified_radius with estimate=True"
        )
    chances = table_nodes() if nodes is None else np.asarray(nodes, dtype=float)
    engines = Engines(law, dim)
    exact = engines.tight(norm, chances, 1.0 - chances)
    if exact is not None:
        return RadiusTable(chances, exact.radius.copy(), exact.radius.copy(), (exact.rule,), np.zeros(chances.size))
    upper = _upper_column(law, norm, dim, chances)
    found = engines.cheap(norm, chances, 1.0 - chances)
    found.append(engines.renyi(norm, chances, 1.0 - chances))
    stacked = np.stack([each.radius for each in found])
    # What is certified at a smaller p is certified at a larger one.
    best = np.maximum.accumulate(stacked.max(axis=0))
    return RadiusTable(chances, best, upper, tuple(each.rule for each in found), stacked.argmax(axis=0).astype(float))


def _upper_column(law: Law, norm: float, dim: int, chances: FloatArray) -> FloatArray:
    """The upper radius at each node: the half-line in one coordinate, and the directions that come out worst."""
    best = half_line(law, chances, 1.0 - chances)
    sparse = _sparse(chances)
    edges = positive_edges(law, _CELLS)
    for number in _worst_directions(law, norm, dim, edges):
        lengths = _flip_lengths(law, number, edges, chances[sparse])
        radius = lengths * float(number ** (1.0 / norm))
        best = np.minimum(best, radius[np.searchsorted(sparse, np.arange(chances.size))])  # the next such node up
    # A flip of a larger p is a flip of a smaller one.
    return np.asarray(np.minimum.accumulate(best[::-1])[::-1])


def _sparse(chances: FloatArray) -> NDArray[np.intp]:
    """The nodes at which the upper radius is computed, the last one among them."""
    places = ndtri(chances)
    far = np.flatnonzero(places > _STEP / _PART)[::-4]
    near = np.flatnonzero((places >= _UPPER_FROM) & (places <= _STEP / _PART))[::-8]
    return np.unique(np.concatenate([far, near, [chances.size - 1]]).astype(np.intp))


def _worst_directions(law: Law, norm: float, dim: int, edges: FloatArray) -> list[int]:
    """The numbers of coordinates whose attack is the shortest at one of a few probabilities."""
    tried = [each for each in directions(dim) if each in (1, 2, 4, 16, 256, dim)]
    radii = np.full((len(tried), len(_PROBES)), math.inf)
    for column, p in enumerate(_PROBES):
        guess = float(law.quantile(p))
        for row, number in enumerate(tried):
            before = tried[row - 1] if row else 1
            length = flip_along(law, edges, number, p, None, guess * math.sqrt(before / number), 1e-3)
            guess = length if math.isfinite(length) else guess
            radii[row, column] = length * float(number ** (1.0 / norm))
    return [tried[row] for row in sorted(set(radii.argmin(axis=0).tolist()))]


def _flip_lengths(law: Law, number: int, edges: FloatArray, chances: FloatArray) -> FloatArray:
    """A tested length of flip at each probability: predicted from a coarse curve, a thousandth longer, and then tested."""
    target = ndtri(chances)

    def score(length: float) -> float:
        return flip_score(composed_attack(coordinate_attack(law, length, edges), number, 2**15, fewest=4.0))

    # As if Gaussian from the ninth decile on: a heavy tail's own quantile, in many coordinates, is far too long a shift.
    guess = float(law.quantile(0.9) * target[-1] / ndtri(0.9)) / math.sqrt(number)
    longest = flip_length(lambda length: score(length) - float(target[-1]), guess, 1e-3)
    if not math.isfinite(longest):
        return np.full(chances.shape, math.inf)
    shortest = flip_length(
        lambda length: score(length) - float(target[0]), longest * float(target[0] / target[-1]), 1e-3
    )
    knots = np.geomspace(shortest, longest, _KNOTS)
    curve = np.maximum.accumulate([score(float(each)) for each in knots])
    lengths = np.exp(np.interp(np.log(target), np.log(curve), np.log(knots))) * 1.001
    lengths[-1] = longest
    reached = np.array([score(float(each)) for each in lengths])
    lengths[reached < target] = math.inf
    return np.asarray(np.minimum.accumulate(lengths[::-1])[::-1])


@dataclass(frozen=True, eq=False)
class TableCache:
    """Tables computed once per law, norm and dimension: kept in memory, and in ``folder`` if one is given.

    Processes may share a folder: a file appears whole or not at all, and equal keys hold equal numbers. A file that
    cannot be read is computed again and replaced; one that cannot be written is done without.
    """

    folder: Path | None = None
    _known: dict[str, RadiusTable] = field(default_factory=dict, repr=False)

    def get(self, law: Law | str, norm: float, dim: int) -> RadiusTable:
        """``build_table(law, norm, dim)``, from memory, from the folder, or computed now."""
        law = law_named(law)
        name = file_name(law, norm, dim)
        if name not in self._known:
            stored = None if self.folder is None else _read(self.folder / name)
            self._known[name] = stored or build_table(law, norm, dim)
            if stored is None and self.folder is not None:
                keep_arrays(self.folder / name, _columns(self._known[name]))
        return self._known[name]


def file_name(law: Law, norm: float, dim: int) -> str:
    """The file of a table: the law by its text and by all its functions at many points, so that namesakes never mix."""
    probe, chances = np.geomspace(1e-3, 60.0, 40), np.array([0.51, 0.6, 0.9, 0.999, 1.0 - 1e-6])
    with np.errstate(all="ignore"):
        functions = (law.log_prob, law.tail, law.score, law.worst_log_ratio) if law.independent else ()
        facts = [np.asarray(function(probe), dtype=float).tolist() for function in functions]
        facts += [np.asarray(rule.radius(chances, 1.0 - chances, dim)).tolist() for rule in law.radii.values()]
    words = f"{law} {float(norm).hex()} {dim} {facts} {sorted(law.radii)}"
    return f"radius-v{TABLE_VERSION}-{hashlib.sha256(words.encode()).hexdigest()[:32]}.arrays"


def _read(path: Path) -> RadiusTable | None:
    """The stored table, or None if the file is missing or damaged."""
    stored = kept_arrays(path)
    if stored is None:
        return None
    rules = tuple(stored.pop("rules").tolist())
    return RadiusTable(rules=rules, **stored)


def _columns(table: RadiusTable) -> dict[str, ArrayLike]:
    columns = {name: getattr(table, name) for name in ("nodes", "lower", "upper", "which")}
    return columns | {"rules": np.array(table.rules)}
