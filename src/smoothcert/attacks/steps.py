"""A cascade under attack: every stage is searched for the point that misleads it, and the whole is judged there."""

from __future__ import annotations

import zlib

import numpy as np

from smoothcert.asks import Noisy
from smoothcert.attacks.victim import Victim
from smoothcert.cascade import Cascade
from smoothcert.execution.counts import Count
from smoothcert.maths import FloatArray
from smoothcert.records.findings import Attempt
from smoothcert.seeds import Stage
from smoothcert.votes import Votes


def judge_cascade(
    cascade: Cascade, victim: Victim, name: str, offset: FloatArray, *, votes: int, alpha: float
) -> Attempt:
    """What the cascade answers at one offset: broken with probability at most alpha if it is the label.

    Fresh votes of every stage that can be reached leave some answers possible; the label is broken if it is none of them.
    The shares are those of the stage that answers by these votes.
    """
    point, asked = victim.points(offset[None])[0], list[Votes]()
    key = (victim.index << 32) | zlib.crc32(f"{name} {victim.region.radius!r}".encode())

    def votes_of(at: int) -> Votes:
        stage = list(cascade)[at]
        scene = Noisy(point.to(stage.device), stage.noise)
        count = Count(key, Stage.VERDICT, scene, np.array([votes]), stage.plan.block)
        asked.append(next(stage.driver.run([count], own_noise=True)).votes())
        return asked[-1]

    possible = cascade.walk(votes_of, alpha)
    answering = next((votes for at, votes in enumerate(asked) if cascade.chosen_class(at, votes) >= 0), asked[-1])
    counts, label = answering.counts[0, -1][: cascade.classes], victim.label
    others = counts.copy()
    others[label] = -1
    rival, cast = int(others.argmax()), int(answering.trials[0, -1])
    total = sum(int(each.trials[0, -1]) for each in asked)
    shares = int(counts[label]) / cast, int(counts[rival]) / cast
    return Attempt(name, victim.gauge(offset), rival, *shares, total, label not in possible)
