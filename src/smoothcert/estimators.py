"""When to stop voting and what the votes prove: fixed n, sequential, and the published alternatives.

An estimator is fixed before the first vote: its looks, its alpha, its radii. It is then asked after every look whether
more votes could still change what the user wants to know, and at the end for the bound. Stopping never touches the
error: every bound here holds at whichever look the voting stopped, except those of ``fixed`` and ``randomized``, which
hold after all the votes and are given then only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, Literal

import numpy as np

from smoothcert.bounds import Bound, check_alpha
from smoothcert.errors import SettingError, look_up
from smoothcert.files import cache_folder
from smoothcert.laws import Law
from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.betting import betting_lower_bound, randomized_lower_bound, union_lower_bound
from smoothcert.maths.boundaries import Boundary, BoundaryCache, decide
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.maths.sequential import late_spending, looks, projected_lower, running_lower, running_upper, undecided
from smoothcert.maths.two_class import two_class_bounds
from smoothcert.radius import check_trials, probability_for, proved_radius
from smoothcert.registry import setting, written
from smoothcert.votes import Votes

Rivals = Literal["rest", "runner_up"]
ALL_VOTES = "all votes"


@dataclass(frozen=True)
class Plan:
    """All that is fixed before the first vote."""

    estimator: str = setting("sequential", "how votes become a bound: some stop early, some give larger bounds")
    trials: int = setting(100_000, "at most so many votes per input: more votes give larger radii")
    alpha: float = setting(0.001, "the probability that a certificate is wrong: a larger one gives larger radii")
    radii: tuple[float, ...] = setting(
        (), "the votes stop when these radii are decided, and show other radii smaller than they could be"
    )
    tolerance: float = setting(
        0.02, "without radii, the votes stop when the radius could grow by no more than this share"
    )
    rivals: Rivals = setting(
        "rest", "the class is bounded alone, or its runner-up too (half of alpha each): that gives other radii"
    )
    block: int = setting(200, "votes per call of the network: it sets when the votes may stop and which noise is drawn")

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        kind = look_up("estimator", self.estimator, ESTIMATORS)
        if self.trials < 1:
            raise SettingError(f"estimate={self.trials} must be at least 1")
        check_trials(self.trials, self.alpha)
        if any(not radius > 0 for radius in self.radii):
            raise SettingError(f"radii={list(self.radii)} must all be above 0")
        if not 0 < self.tolerance < 1:
            raise SettingError(f"tolerance={self.tolerance} must lie strictly between 0 and 1; the usual value is 0.02")
        look_up("kind of rivals", self.rivals, dict.fromkeys(("rest", "runner_up")))
        if self.rivals == "runner_up" and not kind.bounds_rivals:
            able = ", ".join(name for name, each in ESTIMATORS.items() if each.bounds_rivals)
            raise SettingError(f"the estimator {self.estimator} cannot bound the runner-up; these can: {able}")
        if kind is Betting and self.alpha > 1 / 3:
            raise SettingError(
                f"the estimator betting needs alpha of at most 1/3; got {self.alpha}; the usual value is 0.001"
            )
        if kind is GroupSequential and not self.radii:
            raise SettingError("the estimator group_sequential decides given radii; give radii, for example 0.5")

    @cached_property
    def looks(self) -> IntArray:
        """After how many votes to look; whole blocks, and the last at ``trials``."""
        return looks(self.trials, first=min(100, self.trials), multiple=self.block)

    @property
    def rule(self) -> str:
        """When the votes stop."""
        if not ESTIMATORS[self.estimator].anytime:
            return ALL_VOTES
        if self.radii:
            return f"radii {', '.join(map(written, self.radii))} decided"
        return f"tolerance {written(self.tolerance)}"

    def stopped(self, trials: int) -> str:
        """Why the votes ended after so many. Unless they are all, the radius is less than more votes could prove."""
        return ALL_VOTES if trials == self.trials else self.rule


@dataclass(frozen=True)
class Target:
    """What a bound is turned into: the radius of this law in this norm, at this scale."""

    law: Law
    norm: float
    dim: int
    scale: float  # the least one; radii of users are plain balls

    def radius(self, lower: float, upper: float | None = None) -> float:
        """The plain radius that a bound proves."""
        return self.scale * proved_radius(self.law, self.norm, self.dim, Bound(lower, 0.5, 1, upper)).value

    def probability(self, radius: float) -> float:
        """The least probability of the class that proves this plain radius; one if none does."""
        return probability_for(self.law, self.norm, self.dim, radius / self.scale)


class Estimator(ABC):
    """Judges the votes on one input, all of whose looks so far are in ``votes``."""

    name: ClassVar[str]
    anytime: ClassVar[bool] = True  # the bound holds at whichever look the voting stopped
    bounds_rivals: ClassVar[bool] = False

    def __init__(self, plan: Plan, target: Target, *, uniform: float = 1.0) -> None:
        self.plan, self.target, self.uniform = plan, target, uniform

    @abstractmethod
    def bound(self, votes: Votes, label: int) -> Bound:
        """What the votes prove of the class, except with probability alpha."""

    @abstractmethod
    def settled(self, votes: Votes, label: int) -> bool:
        """Could more votes no longer change what the user wants to know? Asked before the last look only."""


class Fixed(Estimator):
    """All the votes, then Clopper–Pearson (Cohen et al. 2019)."""

    name, anytime, bounds_rivals = "fixed", False, True

    def settled(self, votes: Votes, label: int) -> bool:
        return False

    def bound(self, votes: Votes, label: int) -> Bound:
        trials, alpha = _all_votes(self, votes), self.plan.alpha
        if self.plan.rivals == "runner_up":
            lower, upper = two_class_bounds(votes.counts[:, -1], [label], votes.invalid[:, -1], alpha)
            return Bound(float(lower[0]), alpha, trials, float(upper[0]))
        return Bound(float(lower_bound(votes.counts[0, -1, label], trials, alpha)), alpha, trials)


class Randomized(Fixed):
    """All the votes, then Clopper–Pearson without its slack, by one random number (Stevens 1950)."""

    name, bounds_rivals = "randomized", False

    def bound(self, votes: Votes, label: int) -> Bound:
        trials, alpha = _all_votes(self, votes), self.plan.alpha
        # At the very edge the exact bound is 1; nothing certifies an infinite radius, so Clopper–Pearson's is kept there.
        lower = float(randomized_lower_bound(votes.counts[0, -1, label], trials, alpha, self.uniform))
        plain = float(lower_bound(votes.counts[0, -1, label], trials, alpha))
        return Bound(lower if lower < 1.0 else plain, alpha, trials)


class _Stopping(Estimator):
    """Stops once the running bounds leave no radius open, or nothing worth the tolerance to gain."""

    def __init__(self, plan: Plan, target: Target, *, uniform: float = 1.0) -> None:
        super().__init__(plan, target, uniform=uniform)
        self._best: list[float] = []  # the best lower bound by each look, computed once

    @abstractmethod
    def lower_at(self, wins: int, look: int) -> float:
        """The lower bound from the votes by one look; all looks' bounds hold together, except with probability alpha."""

    def bound(self, votes: Votes, label: int) -> Bound:
        wins = votes.counts[0, :, label]
        for look in range(len(self._best), len(wins)):
            self._best.append(max([self.lower_at(int(wins[look]), look), *self._best[-1:]]))
        return Bound(self._best[len(wins) - 1], self.plan.alpha, int(votes.trials[0, -1]))

    def settled(self, votes: Votes, label: int) -> bool:
        bound = self.bound(votes, label)
        low = self.target.radius(bound.lower, bound.upper)
        wins, times = votes.counts[:, :, label], self.plan.looks
        spending = late_spending(times, self.plan.alpha)
        # Only used to stop, so these cost no alpha.
        most = float(running_upper(wins, times, spending)[0, -1])
        if bound.upper is not None:
            least = float(running_lower(_rivals(votes, label)[None], times, spending)[0, -1])
            high = self.target.radius(most, min(least, 1.0 - most))
        elif self.plan.radii:
            # No radius is open that even unanimous votes from here on could not prove.
            best = self.lower_at(int(wins[0, -1]) + int(times[-1] - votes.trials[0, -1]), len(times) - 1)
            high = min(self.target.radius(most), self.target.radius(max(best, bound.lower)))
        else:
            high = self.target.radius(min(most, float(projected_lower(wins, times, spending)[0, -1])))
        if self.plan.radii:
            return not bool(undecided(low, high, grid=self.plan.radii))
        return not bool(undecided(low, high, tolerance=self.plan.tolerance))


class Sequential(_Stopping):
    """Clopper–Pearson at each look with that look's share of alpha, the best so far."""

    name, bounds_rivals = "sequential", True

    @cached_property
    def spending(self) -> FloatArray:
        """The share of alpha of each look."""
        return late_spending(self.plan.looks, self.plan.alpha)

    def lower_at(self, wins: int, look: int) -> float:
        return float(lower_bound(wins, self.plan.looks[look], self.spending[look]))

    def bound(self, votes: Votes, label: int) -> Bound:
        if self.plan.rivals == "rest":
            return super().bound(votes, label)
        seen = votes.counts.shape[1]
        spending = self.spending[:seen] / 2
        trials = votes.trials[0]
        lower = float(lower_bound(votes.counts[0, :, label], trials, spending).max())
        upper = float(upper_bound(_rivals(votes, label), trials, spending).min())
        return Bound(lower, self.plan.alpha, int(trials[-1]), min(upper, 1.0 - lower))


class GroupSequential(Estimator):
    """The exact group-sequential test of "is the radius at least r", for each r of the plan and for zero."""

    name = "group_sequential"

    @cached_property
    def tests(self) -> tuple[Boundary, ...]:
        """The nested tests, that of p > 1/2 first; radii that no probability proves are never claimed."""
        wanted = [self.target.probability(radius) for radius in self.plan.radii]
        return boundaries().grid([0.5, *(p for p in wanted if p < 1.0)], self.plan.looks, self.plan.alpha)

    def settled(self, votes: Votes, label: int) -> bool:
        wins, cast = votes.counts[:, :, label], int(votes.trials[0, -1])
        asked = [test for test in self.tests[1:] if _within_reach(test, int(wins[0, -1]), cast)]
        return not asked or bool(decide(wins, asked).settled[0])

    def bound(self, votes: Votes, label: int) -> Bound:
        """The probability of the largest radius claimed: not Clopper–Pearson, which would be wrong after such a stop."""
        claimed = int(decide(votes.counts[:, :, label], self.tests).claimed[0])
        # Claiming p > 1/2 proves the label at radius zero: the smallest number above one half says so.
        lower = 0.0 if claimed < 0 else max(self.tests[claimed].p0, float(np.nextafter(0.5, 1.0)))
        return Bound(lower, self.plan.alpha, int(votes.trials[0, -1]))


class UnionSequence(_Stopping):
    """A confidence sequence by a union bound over geometric times (Voráček 2024)."""

    name = "union"

    def lower_at(self, wins: int, look: int) -> float:
        return float(union_lower_bound(wins, self.plan.looks[look], self.plan.alpha))


class Betting(_Stopping):
    """A confidence sequence by betting (Waudby-Smith and Ramdas 2024)."""

    name = "betting"

    def lower_at(self, wins: int, look: int) -> float:
        return float(betting_lower_bound(wins, self.plan.looks[look], self.plan.alpha))


ESTIMATORS: Mapping[str, type[Estimator]] = {
    kind.name: kind for kind in (Sequential, Fixed, GroupSequential, UnionSequence, Betting, Randomized)
}


@cache
def boundaries() -> BoundaryCache:
    """The boundaries that were computed before, in memory and on disk."""
    return BoundaryCache(cache_folder() / "boundaries")


def estimator_for(plan: Plan, target: Target, *, uniform: float = 1.0) -> Estimator:
    """The estimator of a plan; ``sequential`` with one radius to decide is the exact group-sequential test."""
    one_radius = plan.estimator == "sequential" and len(plan.radii) == 1 and plan.rivals == "rest"
    kind = GroupSequential if one_radius else ESTIMATORS[plan.estimator]
    return kind(plan, target, uniform=uniform)


def check_votes(plan: Plan, votes: Votes) -> None:
    """Refuse votes that were not counted at the looks of the plan: their bound would mean nothing."""
    cast, planned = votes.trials[0], plan.looks[: votes.counts.shape[1]]
    if not np.array_equal(cast, planned):
        raise SettingError(
            f"the votes were counted after {cast.tolist()[:5]}… and the plan looks after {planned.tolist()[:5]}…; "
            "looks are fixed before the first vote: keep the number of votes and the block size of the run"
        )


def _within_reach(test: Boundary, wins: int, cast: int) -> bool:
    """Could unanimous votes from here on still make the claim at a later look?"""
    later = test.looks > cast
    return bool(np.any(wins + test.looks[later] - cast >= test.upper[later]))


def _rivals(votes: Votes, label: int) -> IntArray:
    """The strongest rival's votes at each look, invalid ones among them."""
    return np.asarray(np.delete(votes.counts[0], label, axis=1).max(axis=1) + votes.invalid[0])


def _all_votes(estimator: Estimator, votes: Votes) -> int:
    """The number of votes, which must be all that were planned."""
    trials = int(votes.trials[0, -1])
    if trials != estimator.plan.trials:
        raise SettingError(
            f"the estimator {estimator.name} needs all of its {estimator.plan.trials} votes; got {trials}, of a run that stopped "
            "when it had seen enough: its bound would be wrong; use sequential, group_sequential, union or betting"
        )
    return trials
