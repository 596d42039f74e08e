"""The same votes read three ways: the radius that is proved, the one nobody can exceed, and UniCR's estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from smoothcert.certificates import Soundness
from smoothcert.files import keep_arrays, kept_arrays
from smoothcert.laws import law_named
from smoothcert.maths import FloatArray
from smoothcert.radius.bracket import Engines, estimate_of
from smoothcert.radius.theorems import tables
from smoothcert.records.record import Record

UnitRadii = Callable[[FloatArray], FloatArray]  # from probabilities to radii at unit scale


def upper_radii(law: str, norm: float, dim: int) -> UnitRadii:
    """The radius that the label's probability alone cannot exceed: the proved one where it is tight, else a table's.

    >>> float(upper_radii("gaussian", 2, 784)(np.array([0.9]))[0])
    1.2815515655446...
    """

    def unit(chances: FloatArray) -> FloatArray:
        exact = Engines(law_named(law), dim).tight(norm, chances, 1.0 - chances)
        if exact is not None:
            return exact.radius
        table = tables().get(law, norm, dim)
        return np.array([table.highest(float(p)) for p in chances])

    return unit


@dataclass(frozen=True)
class Estimates:
    """UniCR's radii at a few probabilities even in Φ⁻¹(p), and straight lines in Φ⁻¹(p) between them.

    A search of seconds per probability, so each law and norm is kept in a file of ``folder``. They prove nothing.
    """

    folder: Path
    number: int
    largest: float  # the highest probability asked for

    def radii(self, law: str, norm: float, dim: int) -> UnitRadii:
        """The interpolated estimate, computed now or read from the file of an earlier start."""
        places = np.linspace(0.0, float(ndtri(self.largest)), self.number + 1)[1:]
        path = self.folder / f"{law.replace(':', '-')}-l{norm:g}-{dim}-{self.number}-{self.largest!r}.arrays"
        stored = kept_arrays(path)
        if stored is None:
            stored = {"radii": np.array([estimate_of(law_named(law), norm, dim, float(p)) for p in ndtr(places)])}
            keep_arrays(path, stored)
        radii = stored["radii"]
        return lambda chances: np.interp(ndtri(chances), np.append(0.0, places), np.append(0.0, radii))


def reread(records: Sequence[Record], unit: UnitRadii) -> list[Record]:
    """The records with radii read another way from the same bounds, labelled estimate: none of them is a certificate.

    For noise of one scale and one class bounded.
    """
    radii = np.zeros(len(records))
    answered = np.array([record.label is not None for record in records])
    if answered.any():
        radii[answered] = unit(np.array([record.lower for record in records])[answered])
    changed = []
    for record, radius in zip(records, radii.tolist(), strict=True):
        assert isinstance(record.scale, float)
        assert record.upper is None
        changed.append(replace(record, radius=radius * record.scale, soundness=Soundness.ESTIMATE))
    return changed
