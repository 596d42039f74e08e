"""Two classes at once: the label's probability from below, every rival's from above."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.intervals import lower_bound, upper_bound


def two_class_bounds(
    counts: ArrayLike, label: ArrayLike, invalid: ArrayLike, alpha: ArrayLike, split: float = 0.5
) -> tuple[FloatArray, FloatArray]:
    """The label wins a vote with probability >= lower and any rival <= upper, except with probability ``alpha``.

    ``counts`` is (inputs, classes), of votes that did not choose ``label``; ``invalid`` votes go to the strongest
    rival. The label's bound takes split·alpha, the rival's the rest. Choosing the rival by these same votes needs no
    correction: the largest count is at least the true runner-up's, and Clopper–Pearson rises with the count.
    Naming the rival beforehand from a few selection votes would be wrong: it may not be the runner-up.

    ``alpha`` may be one number for each row: the looks of one input, each with its share, are such rows, and then the
    best lower and the best upper bound hold together, except with probability sum(alpha). The radius hangs more on the
    label's bound than on the rival's: a split of .9 costs next to nothing where all votes agree (3.194 against 3.199 by
    one class and 3.171 by a split of .5, 10 000 votes, alpha .001), and gives most of what is there to win elsewhere.

    >>> lower, upper = two_class_bounds([[60, 30, 10]], [0], [0], alpha=0.001)
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.431], [0.467])
    """
    table, classes, lost = _checked(counts, label, invalid)
    level = np.asarray(alpha, dtype=float)
    if not (np.all((level > 0.0) & (level < 1.0)) and 0.0 < split < 1.0):
        raise SettingError(f"alpha is {level} and split {split}, but both lie strictly between 0 and 1; try 0.001, 0.9")
    rows = np.arange(table.shape[0])
    trials = table.sum(axis=1) + lost
    lower = lower_bound(table[rows, classes], trials, split * level)
    rivals = table.copy()
    rivals[rows, classes] = 0
    most = rivals.max(axis=1, initial=0) + lost
    upper = upper_bound(most, trials, level - split * level)
    return lower, np.minimum(upper, 1.0 - lower)


def _checked(counts: ArrayLike, label: ArrayLike, invalid: ArrayLike) -> tuple[IntArray, IntArray, IntArray]:
    """The table with a label and a number of invalid votes for each of its rows, or a SettingError."""
    table = np.asarray(counts, dtype=np.int64)
    if table.ndim != 2:
        raise SettingError(f"counts are {table.shape}, but must be (inputs, classes)")
    classes = np.broadcast_to(np.asarray(label, dtype=np.int64), table.shape[:1])
    lost = np.broadcast_to(np.asarray(invalid, dtype=np.int64), table.shape[:1])
    if np.any(classes < 0) or np.any(classes >= table.shape[1]):
        raise SettingError(f"a label lies outside 0..{table.shape[1] - 1}; abstentions have no bound")
    if np.any(table < 0) or np.any(lost < 0):
        raise SettingError("a count of votes is negative; counts are whole numbers from 0 up")
    return table, classes, lost
