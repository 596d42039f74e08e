"""One number for several runs: the area under the best certified accuracy, and the average of the largest radii."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from smoothcert.certificates import Soundness, weakest
from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import decimal_of, round_down
from smoothcert.metrics.curves import certified_accuracy
from smoothcert.records.record import Record


@dataclass(frozen=True)
class Score:
    """A robustness score, and what it must not be quoted without."""

    value: float  # in units of the radius
    largest: float  # R_max, where the integral stops
    classifiers: int  # how many runs the envelope is taken over: each is another smoothed classifier
    norm: float
    soundness: Soundness  # the weakest label of all records

    def __str__(self) -> str:
        """The score in words; an envelope says that no single classifier reaches it."""
        who = "one classifier" if self.classifiers == 1 else f"the envelope of {self.classifiers} classifiers"
        return (
            f"robustness score {round_down(self.value, 4)} of {who}, l{self.norm:g} radii up to {self.largest:g} "
            f"[{self.soundness.value}]"
        )


def envelope(runs: Sequence[Sequence[Record]], radii: Sequence[float]) -> FloatArray:
    """The best certified accuracy of the runs at each radius: of several classifiers, since the best run may change."""
    _check(runs)
    return np.asarray(np.max([certified_accuracy(records, radii) for records in runs], axis=0))


def robustness_score(runs: Sequence[Sequence[Record]], largest: float) -> Score:
    """∫ max over the runs of certified accuracy(R) dR, from zero to ``largest`` (Hong et al. 2022, Equation 5).

    Exact: the accuracies are steps that fall just after a certified radius. For one run and a ``largest`` beyond all
    its radii this is the average certified radius.
    """
    _check(runs)
    if not 0.0 < largest < math.inf:
        raise SettingError(f"largest={largest} must be a finite radius above 0: the score is an integral up to it")
    falls = {record.radius for records in runs for record in records if 0.0 < record.radius < largest}
    ends = [*sorted(falls), largest]
    value = _integral(envelope(runs, ends), ends, max(map(len, runs)))
    labels = weakest(record.soundness for records in runs for record in records)
    return Score(value, float(largest), len(runs), runs[0][0].norm, labels)


def _integral(shares: FloatArray, ends: Sequence[float], inputs: int) -> float:
    """Of shares k/n, n at most ``inputs``, each up to its end: in exact terms, rounded once."""
    with localcontext(prec=60):
        total, before = Decimal(), Decimal()
        for share, end in zip(shares.tolist(), map(decimal_of, ends), strict=True):
            count, of = Fraction(share).limit_denominator(inputs).as_integer_ratio()
            total, before = total + (end - before) * count / of, end
        return float(total)


def _check(runs: Sequence[Sequence[Record]]) -> None:
    """Refuse what has no envelope: no runs, a run without records, radii of different norms."""
    if not runs or not all(runs):
        raise SettingError(f"{len(runs)} runs were given, and each must hold at least one record")
    norms = sorted({record.against for records in runs for record in records})
    if len(norms) > 1:
        raise SettingError(f"the records are of different norms ({', '.join(norms)}); radii compare in one norm only")
