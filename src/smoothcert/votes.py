"""Votes: the count table. Before it are tensors; from here on, only numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.maths import IntArray


@dataclass(frozen=True, eq=False)
class Votes:
    """How often each class won: counts is (batch, looks, classes), cumulative over looks.

    invalid is (batch, looks): rows with NaN logits. Each is a vote against every class and for its strongest
    rival, so trials = counts.sum(-1) + invalid at every look, and no vote is ever dropped.
    """

    counts: IntArray
    invalid: IntArray

    def __post_init__(self) -> None:
        assert self.counts.ndim == 3, f"counts {self.counts.shape} must be (batch, looks, classes)"
        assert self.invalid.shape == self.counts.shape[:2], f"invalid {self.invalid.shape} must be (batch, looks)"

    @property
    def trials(self) -> IntArray:
        """How many votes were cast by each look: (batch, looks)."""
        return np.asarray(self.counts.sum(axis=-1) + self.invalid)

    def leaders(self) -> IntArray:
        """The class with most votes at the last look, the first of equals: (batch,)."""
        return np.asarray(self.counts[:, -1].argmax(axis=-1))

    def top_two(self) -> tuple[IntArray, IntArray]:
        """The largest and second largest count at the last look, invalid votes on the rival's side: (batch,) each."""
        ordered = np.sort(self.counts[:, -1], axis=-1)
        return ordered[:, -1], ordered[:, -2] + self.invalid[:, -1]
