"""Is a certificate broken at a point? Said only with a stated confidence, on votes that nothing was chosen by."""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch

from smoothcert.asks import Noisy
from smoothcert.attacks.victim import Victim
from smoothcert.errors import InputError
from smoothcert.execution.counts import Count
from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.sequential import late_spending, looks
from smoothcert.noise import Noise
from smoothcert.records.findings import Attempt
from smoothcert.seeds import Stage
from smoothcert.votes import Votes

NAMING = 200  # votes, at least, that name the rival
HOPELESS = 0.01  # votes stop when the label leads at this level: costs no alpha, as nothing is claimed


def broken(ours: int, rivals: int, alpha: float) -> bool:
    """Is the rival more probable than the label, except with probability alpha?

    Among the votes for one of the two, those for the rival are binomial with probability at most ½ if it is not
    (Clopper and Pearson 1934, given how many there are). The rival must be named before the votes are cast.

    >>> broken(300, 400, 0.001), broken(340, 360, 0.001), broken(0, 0, 0.001)
    (True, False, False)
    """
    return float(lower_bound(rivals, ours + rivals, alpha)) > 0.5


def declared(ours: IntArray, rivals: IntArray, times: IntArray, alpha: float) -> bool:
    """Was the rival ahead at one of the looks so far? At all looks together wrongly so with probability at most alpha."""
    shares = late_spending(times, alpha)[: len(ours)]
    return any(broken(int(a), int(b), float(share)) for a, b, share in zip(ours, rivals, shares, strict=True))


def judge(victim: Victim, name: str, offset: FloatArray, *, votes: int, alpha: float) -> Attempt:
    """What the deployed predictor says at one offset: broken with probability at most alpha if the label leads there.

    The memory's answer needs no votes. Otherwise the noise is chosen at the point, some votes name the rival, and fresh
    ones, looked at with alpha spent over the looks, decide.
    """
    gauge, point = victim.gauge(offset), victim.points(offset[None])[0]
    if not gauge <= victim.region.radius:
        raise InputError(
            f"the attack {name} gave a point at {gauge:g} from the center of a region of radius {victim.region.radius:g}; "
            "make it legal with victim.inside or victim.stretched"
        )
    promised = victim.promised(point)
    if promised is not None:
        kept = promised == victim.label
        return Attempt(name, gauge, promised, float(kept), float(not kept), 0, not kept)
    (noise,) = victim.chosen(point[None])
    key = (victim.index << 32) | zlib.crc32(f"{name} {victim.region.radius!r}".encode())
    block = victim.smoother.plan.block
    naming = np.array([block * math.ceil(NAMING / block)])
    rival = _rival(_count(victim, noise, point, key, Stage.ATTACK, naming, victim.label, alpha), victim.label)
    times = looks(max(votes, block), first=min(block, votes), number=12, multiple=block)
    count = _count(victim, noise, point, key, Stage.VERDICT, times, rival, alpha)
    table = count.votes()
    ours, theirs = (_won(table, each) for each in (victim.label, rival))
    total = int(table.trials[0, -1])
    shares = int(ours[-1]) / total, int(theirs[-1]) / total
    return Attempt(name, gauge, rival, *shares, total, declared(ours, theirs, times, alpha))


def _count(
    victim: Victim,
    noise: Noise,
    point: torch.Tensor,
    key: int,
    stage: Stage,
    times: IntArray,
    rival: int,
    alpha: float,
) -> Count:
    """The votes at a point, through the very engine that certifies, but never with shared draws."""
    smoother = victim.smoother

    def settled(votes: Votes) -> bool:
        ours, theirs = (_won(votes, each) for each in (victim.label, rival))
        return declared(ours, theirs, times, alpha) or broken(int(theirs[-1]), int(ours[-1]), HOPELESS)

    scene = Noisy(smoother.encoded(point[None])[0].to(smoother.device), noise)
    return next(smoother.driver.run([Count(key, stage, scene, times, smoother.plan.block, settled)], own_noise=True))


def _won(votes: Votes, label: int) -> IntArray:
    """The votes of one class at each look; the class after the last is "not a number"."""
    return np.asarray(np.concatenate([votes.counts[0], votes.invalid[0][:, None]], axis=1)[:, label])


def _rival(count: Count, label: int) -> int:
    """The strongest rival in these votes."""
    votes = count.votes()
    tally = np.append(votes.counts[0, -1], votes.invalid[0, -1])
    tally[label] = -1
    return int(tally.argmax())
