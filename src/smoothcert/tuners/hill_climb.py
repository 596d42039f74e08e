"""Hill climbing: each input gets the scale, and the shape of the law, at which its certificate is largest (I-OPT)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from smoothcert.asks import Noisy, Plain
from smoothcert.echo import BOUND, HELP, NUMBER, VOTES, beside, mixed
from smoothcert.errors import SettingError
from smoothcert.estimators import Plan, estimator_named
from smoothcert.estimators.base import WithRivals
from smoothcert.estimators.fixed import Fixed
from smoothcert.execution.counts import Count, Mixed
from smoothcert.laws import LAWS, Law, law_named
from smoothcert.noise import Noise
from smoothcert.radius import RadiusTarget
from smoothcert.registry import setting, written
from smoothcert.seeds import Stage
from smoothcert.smoother import Tuner
from smoothcert.votes import Votes

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

Place = tuple[int, int]  # steps from the start: in scale, in shape
MOVES: tuple[tuple[Place, Place], ...] = (((1, 0), (-1, 0)), ((0, 1), (0, -1)))


@dataclass(frozen=True)
class HillClimb(Tuner):
    """Climbs from the user's noise, input by input, to a larger certified radius (UniCR 2022, Alg. 3, I-OPT).

    The height of a noise is the radius that the certifying votes would prove if they split as the ``votes`` tuning
    votes did; where that is nothing, less noise is higher. A round moves the scale by the factor ``step``, up or else
    down, and then the parameter of a law that has one (``generalized_normal:beta=2``, say) by ``shape_step`` at the
    same standard deviation; the climb ends with a round that moves nothing. keep_label: only noise under which the
    smoothed classifier answers what the network answers without noise (D.7), for networks trained without noise.
    echo: no noise is taken under which others are answered the same label more often than this, and than before.

    Published: 1000 votes (4000 in D.7), the shapes of Table 2. Steps and limits of the scale are ours, since none were
    published. As printed, Alg. 3 tries the step down only where the step up is out of range; here, wherever it fails.
    """

    name = "hill_climb"
    reads_input = True

    votes: int = setting(1000, "votes that compare one noise with another", least=1)
    step: float = setting(1.2, "the factor of one step in scale", above=1)
    least: float = setting(1 / 16, "the least factor of the given noise", above=0, most=1)
    most: float = setting(4.0, "the largest factor of the given noise", least=1)
    shape_step: float = setting(0.25, "one step in the law's parameter", above=0)
    least_shape: float = setting(0.25, "the least parameter of the law")
    most_shape: float = setting(5.0, "the largest parameter of the law")
    keep_label: bool = setting(False, "only noise under which the answer is that without noise")
    echo: float = setting(BOUND, HELP, least=0)

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        """The noise where each input's climb ended. All inputs climb at once, a vote of each per round."""
        if not len(x):
            return start
        event = tuple(x.shape[1:])
        asked = [_Asked(index, x[at], start.row(at, event, len(x))) for at, index in enumerate(indices)]
        labels = own_answers(smoother, asked) if self.keep_label else [None] * len(asked)
        climbs = [self.climb(each.noise, smoother.plan) for each in asked]
        asked = [replace(each, noise=next(climb)) for each, climb in zip(asked, climbs, strict=True)]
        climbing = list(range(len(asked)))
        while climbing:
            now = [asked[at] for at in climbing]
            tables = tuning_votes(smoother, now, self.votes)
            echoes = tuning_echoes(smoother, now, tables) if self.echo < 1 else [0.0] * len(now)
            for at, table, echo in zip(tuple(climbing), tables, echoes, strict=True):
                each = asked[at]
                target = each.target(smoother.norm)
                try:
                    reached = height(table, smoother.plan, target, labels[at])
                    asked[at] = replace(each, noise=climbs[at].send((reached, echo)))
                except StopIteration as end:
                    asked[at] = replace(each, noise=end.value)
                    climbing.remove(at)
        return Separate([each.noise for each in asked], len(event))

    def climb(self, start: Noise, plan: Plan) -> Generator[Noise, tuple[float, float], Noise]:
        """Yields the noise to try next, is sent its height and its echo, and returns the highest one that may be taken."""
        here, best = (0, 0), start
        top, echo = yield start
        allowed = max(self.echo, echo)
        tried = {here}
        moved = True
        while moved:
            moved = False
            for directions in MOVES:
                for move in directions:
                    there = (here[0] + move[0], here[1] + move[1])
                    noise = None if there in tried else self.at(start, there, plan)
                    tried.add(there)
                    if noise is None:
                        continue
                    reached, echo = yield noise
                    if reached > top and (echo <= allowed or there[0] < 0):
                        here, best, top, moved = there, noise, reached, True
                        break
        return best

    def at(self, start: Noise, place: Place, plan: Plan) -> Noise | None:
        """The noise so many steps from the start; None outside the limits, or where nothing could be certified."""
        factor = self.step ** place[0]
        law = self._law(start.law, place[1])
        if law is None or not self.least <= factor <= self.most:
            return None
        if estimator_named(plan.estimator).bounds_rivals and not law.radii:
            return None  # a bounded runner-up needs a theorem
        if law is not start.law and start.law.std and law.std:
            factor *= start.law.std / law.std
        return start.shaped(start.scale * factor, law=law)

    def _law(self, law: Law, steps: int) -> Law | None:
        """The law with its parameter moved by so many steps, if it has one and may take the value."""
        shape = shape_of(law)
        if not steps or shape is None:
            return None if steps else law
        value = shape[1] + steps * self.shape_step
        if not self.least_shape <= value <= self.most_shape:
            return None
        try:
            return law_named(f"{law.name}:{shape[0]}={written(value)}")
        except SettingError:  # outside what this law allows
            return None


class Separate(Noise):
    """The noises of a batch, one per input, which may differ in everything; ``row`` gives them, ``law`` is the first's."""

    rows: tuple[Noise, ...]

    def __init__(self, rows: Sequence[Noise], event: int) -> None:
        def stacked(values: list[Tensor]) -> Tensor:
            full = [value.reshape((1,) * (event - value.ndim) + tuple(value.shape)) for value in values]
            shape = np.broadcast_shapes(*(value.shape for value in full))
            return torch.stack([value.expand(shape) for value in full])

        scale, loc = stacked([row.scale for row in rows]), stacked([row.loc for row in rows])
        super().__init__(rows[0].law, scale, loc, rows[0].grid, rows[0].box)
        object.__setattr__(self, "rows", tuple(rows))

    def row(self, position: int, shape: tuple[int, ...], batch: int) -> Noise:
        if batch != len(self.rows):
            raise SettingError(f"there are {len(self.rows)} noises for a batch of {batch}; give one per input")
        return self.rows[position].row(0, shape, 1)


@dataclass(frozen=True, eq=False)
class _Asked:
    """One input, the index that keys its draws, and the noise it is voted on under."""

    index: int
    x: Tensor
    noise: Noise

    def target(self, norm: float) -> RadiusTarget:
        """The radius under this noise."""
        scale = self.noise.scale.detach().cpu().numpy()
        return RadiusTarget.of(self.noise.law, norm, self.x.numel(), scale, self.noise.box)


def shape_of(law: Law) -> tuple[str, float] | None:
    """The one parameter of a law by name and value; None if it has none, several, or is not of the registry.

    >>> shape_of(law_named("generalized_normal:beta=1.5")), shape_of(law_named("gaussian"))
    (('beta', 1.5), None)
    """
    name, _, parameters = str(law).partition(":")
    if name not in LAWS or parameters.count("=") != 1 or type(law_named(str(law))) is not type(law):
        return None
    parameter, _, value = parameters.partition("=")
    return parameter, float(value)


def tuning_votes(smoother: Smoother, asked: Sequence[_Asked], number: int) -> list[Votes]:
    """So many votes on each input, of stage TUNE: every noise meets the same draws, and none of them ever certifies."""
    device, block, looks = smoother.device, smoother.plan.block, np.array([number])
    counts = (Count(each.index, Stage.TUNE, Noisy(each.x.to(device), each.noise), looks, block) for each in asked)
    return [count.votes() for count in smoother.driver.run(counts)]


def tuning_echoes(smoother: Smoother, asked: Sequence[_Asked], tables: Sequence[Votes]) -> list[float]:
    """How often references are answered the label that leads these votes, under the same noise and draws."""

    def echo(each: _Asked, label: int) -> Mixed:
        x, references = each.x.to(smoother.device), smoother.references
        others = beside(references, x, each.noise, each.index, label, tuning=True)
        return mixed(each.noise, others, each.index, NUMBER * VOTES, smoother.plan.block, Stage.TUNE)

    labels = [int(table.leaders()[0]) for table in tables]
    counts = smoother.driver.run(map(echo, asked, labels))
    return [count.share(label) for count, label in zip(counts, labels, strict=True) if isinstance(count, Mixed)]


def own_answers(smoother: Smoother, asked: Sequence[_Asked]) -> list[int]:
    """What the network answers without noise, in blocks of the same shape as under noise, since rounding depends on it."""

    def silent(each: _Asked) -> Count:
        scene = Plain(each.x.to(smoother.device))
        return Count(each.index, Stage.TUNE, scene, np.array([1]), smoother.plan.block)

    counts = smoother.driver.run(map(silent, asked))
    return [int(count.votes().leaders()[0]) for count in counts]


def height(votes: Votes, plan: Plan, target: RadiusTarget, label: int | None) -> float:
    """The radius that all of the plan's votes would prove if they split like these; minus the scale if there is none.

    One more vote is counted against every class: that n votes agree does not show a rival below 1/n, and without it the
    climb would run after the largest radius that certainty could give. A label that is given must be the one that leads.
    """
    leader = int(votes.leaders()[0])
    counts = votes.counts[:, -1:] * plan.trials // (int(votes.trials[0, -1]) + 1)
    split = Votes(counts, plan.trials - counts.sum(axis=-1))  # what division leaves over counts against the label
    named = estimator_named(plan.estimator)
    same = Fixed(named.rivals, named.share) if isinstance(named, WithRivals) else Fixed("rest")
    whole = replace(plan, estimator=str(same), radii=())
    bound = same.judge(whole, target).bound(split, leader)
    decided = bound.lower > bound.rival and label in (None, leader)
    radius = target.radius(bound.lower, bound.upper) if decided else 0.0
    return radius if radius > 0 else -target.scale
