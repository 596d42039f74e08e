"""From what confidence on a view may vote, chosen on inputs whose certificates nobody reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.counting import counted_reach

CANDIDATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def certified_counts(winners: IntArray, confidences: FloatArray, classes: int, confidence: float) -> IntArray:
    """The votes of those views that are sure enough, (inputs, classes), from each view's answer, (inputs, views).

    What is no number is no answer: NaN is never sure enough.
    """
    sure = confidences >= confidence
    return np.stack([((winners == label) & sure).sum(axis=1) for label in range(classes)], axis=1)


def best_confidence(
    winners: IntArray,
    confidences: FloatArray,
    truths: IntArray,
    classes: int,
    needed: Sequence[int],
    candidates: Sequence[float] = CANDIDATES,
) -> float:
    """The candidate with most right answers that hold, summed over the numbers of changed views that are of interest.

    Any value is sound when it was fixed before the inputs that are certified; the first of equals is taken.
    """

    def score(confidence: float) -> int:
        winner, reach = counted_reach(certified_counts(winners, confidences, classes, confidence))
        return sum(int(((winner == truths) & (reach >= views)).sum()) for views in needed)

    return max(candidates, key=score)
