"""Several smoothed classifiers in turn, each of which answers or passes on: what the whole certifies.

A *score* is r_c = scale·F⁻¹(p_c), for Gaussian noise σΦ⁻¹(p_c): it moves by at most ‖δ‖ when the input moves by δ (Salman
et al. 2019), and half the difference of two scores does too. Stage j accepts the class c when its score is ahead of every
other, the extra class "pass" among them, by more than twice the margin m_j; else the next stage is asked. The last stage
answers its best class. Nothing here depends on the input but through p, so such a certificate is of the deployed classifier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray

NO_PASS = -math.inf  # the score of a class that no vote can choose


@dataclass(frozen=True, eq=False)
class Reach:
    """How far each stage's behaviour is known: it accepts the label within ``accepts``, no other within ``no_other``.

    Arrays are (stages, ...). The last stage has no use for ``no_other``. Where stages differ in the shape of their noise, each
    number is a radius in its own stage's gauge: the region is then the meet of those, and the properties do not apply.
    """

    accepts: FloatArray
    no_other: FloatArray

    @property
    def by_stage(self) -> FloatArray:
        """min(a_j, b_1 … b_{j−1}): within it the stages before j accept the label or pass on, and stage j accepts it."""
        first = np.full_like(self.accepts[:1], np.inf)
        earlier = np.minimum.accumulate(np.concatenate([first, self.no_other[:-1]]), axis=0)
        return np.asarray(np.minimum(self.accepts, earlier))

    @property
    def radius(self) -> FloatArray:
        """The cascade answers the label within this distance; zero if it may not answer it at all.

        The best stage costs nothing: all of them follow from the one event that every bound holds.
        """
        return np.asarray(np.maximum(self.by_stage.max(axis=0), 0.0))


def margin_reach(
    label: ArrayLike,
    rival: ArrayLike,
    margins: ArrayLike,
    pass_low: ArrayLike = NO_PASS,
    pass_high: ArrayLike = NO_PASS,
) -> Reach:
    """How far the stages are known from the label's score from below, its strongest rival's from above, and pass's from both.

    a_j = ½(r_A − max(r_B, r_P)) − m_j and b_j = ½(max(r_A, r_P) − r_B) + m_j (theorem: decisions compose), each with
    the bound of a score that makes it smaller. All are (stages, ...); margins (stages,), at least zero and zero in the end.
    One stage, or no margin and no pass in the first, is plain smoothing by two classes: never below its radius.

    >>> margin_reach([0.2, 0.9], [-0.4, -1.1], [0.1, 0.0], [-0.5, NO_PASS], [-0.3, NO_PASS]).by_stage.round(6)
    array([0.15, 0.4 ])
    """
    low, high = np.broadcast_arrays(np.asarray(label, dtype=float), np.asarray(rival, dtype=float))
    margin = _per_stage(margins, low.ndim)
    if len(margin) != len(low) or not (np.all(margin >= 0) and np.all(margin[-1] == 0)):
        raise SettingError(
            f"margins={np.ravel(margin).tolist()} for {len(low)} stages; give one for each, at least 0, and 0 for the last, "
            "which must answer"
        )
    may_pass, surely = (np.array(np.broadcast_to(np.asarray(p, dtype=float), low.shape)) for p in (pass_high, pass_low))
    may_pass[-1] = surely[-1] = NO_PASS
    accepts = _half(low, np.maximum(high, may_pass)) - margin
    return Reach(accepts, _half(np.maximum(low, surely), high) + margin)


def threshold_reach(label: ArrayLike, rival: ArrayLike, thresholds: ArrayLike) -> Reach:
    """The same where a stage accepts the class whose score is above its threshold scale·F⁻¹(θ_j), θ_j >= ½.

    a_j = r_A − t_j and b_j = t_j − r_B; the last stage answers its best class, within half the gap. ``thresholds`` are
    scores, one for every stage but the last; below zero two classes could pass one, and it is refused.

    >>> threshold_reach([0.524401, 0.822427], [-1.281552, -1.026874], [0.0]).by_stage.round(6)
    array([0.524401, 0.92465 ])
    """
    low, high = np.broadcast_arrays(np.asarray(label, dtype=float), np.asarray(rival, dtype=float))
    bar = _per_stage(thresholds, low.ndim)
    if len(bar) != len(low) - 1 or not np.all(bar >= 0):
        raise SettingError(
            f"thresholds={np.ravel(bar).tolist()} for {len(low)} stages; give one for every stage but the last, at least 0 "
            "(a probability of 1/2): below it two classes may qualify"
        )
    accepts = np.concatenate([low[:-1] - bar, _half(low[-1:], high[-1:])])
    return Reach(accepts, np.concatenate([bar - high[:-1], np.full_like(high[-1:], np.inf)]))


@dataclass(frozen=True, eq=False)
class StageScores:
    """Bounds on the scores of every class at one stage, and of passing on; all hold together."""

    low: FloatArray
    high: FloatArray
    pass_low: float = NO_PASS
    pass_high: float = NO_PASS


def possible_answers(stages: Iterable[StageScores], margins: Sequence[float]) -> frozenset[int]:
    """Every class that the cascade may answer, given what is known of the scores: a single one is its answer.

    Stages are taken one by one, so that a generator polls only those that can still be reached. Undecided between "this
    class" and "pass on, then this class" is decided.

    >>> unsure = StageScores(np.array([0.3, -2.0]), np.array([0.9, -1.0]), pass_low=-0.5, pass_high=0.5)
    >>> sure = StageScores(np.array([1.0, -2.0]), np.array([1.5, -1.5]))
    >>> possible_answers([unsure, sure], [0.2, 0.0])
    frozenset({0})
    """
    answers: set[int] = set()
    for place, (stage, margin) in enumerate(zip(stages, margins, strict=True), start=1):
        last = place == len(margins)
        accepted, certain = _outcomes(stage, margin, last)
        answers.update(np.flatnonzero(accepted).tolist())
        if certain or last:
            break
    return frozenset(answers)


def _outcomes(stage: StageScores, margin: float, last: bool) -> tuple[FloatArray, bool]:
    """Which classes the stage may answer, and whether it surely answers one of them instead of passing on."""
    others_low, others_high = _strongest_other(stage.low), _strongest_other(stage.high)
    if last:
        return np.asarray(stage.high >= others_low), True  # also where scores may tie
    may = _half(stage.high, np.maximum(others_low, stage.pass_low)) > margin
    surely = _half(stage.low, np.maximum(others_high, stage.pass_high)) > margin
    return np.asarray(may), bool(np.any(surely))


def _strongest_other(scores: FloatArray) -> FloatArray:
    """For each class the largest score among the others; that of no class where there is but one."""
    best, rest = int(np.argmax(scores)), np.sort(scores)
    result = np.full(len(scores), rest[-1])
    result[best] = rest[-2] if len(scores) > 1 else NO_PASS
    return result


def _half(ahead: FloatArray, behind: FloatArray) -> FloatArray:
    """½(ahead − behind); minus infinity where both are infinite and nothing is known."""
    with np.errstate(invalid="ignore"):
        difference = 0.5 * (ahead - behind)
    return np.asarray(np.where(np.isnan(difference), -np.inf, difference))


def _per_stage(values: ArrayLike, ndim: int) -> FloatArray:
    """One value for each stage, ready to be combined with arrays of (stages, ...)."""
    given = np.atleast_1d(np.asarray(values, dtype=float))
    return given.reshape(given.shape + (1,) * (ndim - 1)) if given.ndim == 1 else given
