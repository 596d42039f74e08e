"""What stands behind the radii, input by input: probabilities, factors, and classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothcert.certificates import Soundness
from smoothcert.maths import FloatArray
from smoothcert.records.record import Record

ALIKE = 1e-6  # values that differ by no more than this share of the largest are one value to the eye


def probabilities(records: Sequence[Record]) -> FloatArray:
    """The lower bound of p_A of every input, abstentions too, in order; a log that was read says nothing of it."""
    return np.sort([record.lower for record in records if record.soundness is not Soundness.IMPORTED])


def ecdf(values: FloatArray, points: FloatArray) -> FloatArray:
    """The share of the sorted values that lie at or below each point.

    >>> ecdf(np.array([0.5, 0.9, 0.9]), np.array([0.4, 0.5, 0.9])).round(3).tolist()
    [0.0, 0.333, 1.0]
    """
    return np.searchsorted(values, points, side="right") / max(len(values), 1)


def gap(record: Record) -> float | None:
    """The radius in units of the noise, r in ANCER's Figure 5; None where nothing is certified."""
    return record.region_radius if record.region_radius > 0 else None


def sigma_factor(record: Record) -> float | None:
    """The smallest scale of the noise of this input, the other factor of its radius; None where nothing is certified."""
    if not record.region_radius > 0:
        return None
    if isinstance(record.scale, float) and record.front is None:
        return record.scale
    return float(f"{record.radius / record.region_radius:.14g}")  # what is left of the scale behind that is rounding


def bin_edges(values: Sequence[float], bins: int = 30) -> FloatArray:
    """Edges of equal bins that hold all the values; one bin around values that differ by no more than their rounding.

    >>> bin_edges([0.12, 0.12 + 2**-56]).round(3).tolist(), bin_edges([0.0, 3.0], bins=3).tolist()
    ([0.114, 0.126], [0.0, 1.0, 2.0, 3.0])
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    size = max(abs(low), abs(high))
    if high - low > ALIKE * size:
        return np.linspace(low, high, bins + 1)
    return np.array([low - 0.05 * size, high + 0.05 * size]) if size else np.array([-0.5, 0.5])


def by_class(records: Sequence[Record]) -> dict[int, list[Record]]:
    """The records of each true class; inputs without a truth are in none."""
    classes = sorted({record.truth for record in records if record.truth is not None})
    return {truth: [record for record in records if record.truth == truth] for truth in classes}
