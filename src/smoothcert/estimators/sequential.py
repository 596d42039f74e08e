"""The default: Clopper–Pearson at each look with that look's share of alpha, stopping when nothing is left to learn."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

from smoothcert.estimators.base import Estimator, Judge, Target, radii_decided, rivals_at_looks
from smoothcert.estimators.bounds import Bound
from smoothcert.estimators.fixed import WithRivals
from smoothcert.estimators.group_sequential import Nested
from smoothcert.maths import FloatArray
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.maths.sequential import late_spending, projected_lower, running_lower, running_upper, undecided
from smoothcert.plan import Plan
from smoothcert.registry import setting, written
from smoothcert.votes import Votes


@dataclass(frozen=True)
class Stopping(Estimator):
    """Stops once the running bounds leave no radius open, or nothing worth the tolerance to gain."""

    tolerance: float = setting(
        0.02, "without radii, stop when the radius could grow by no more than this share", above=0, below=1
    )

    def rule(self, plan: Plan) -> str:
        return radii_decided(plan) if plan.radii else f"tolerance {written(self.tolerance)}"


@dataclass(frozen=True)
class Sequential(WithRivals, Stopping):
    """Clopper–Pearson at each look, the best so far; with one radius to decide, the exact group-sequential test."""

    name = "sequential"

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        if self.bounds_rivals:
            return RunningTwoClasses(plan, target, self.tolerance)
        return Nested(plan, target) if len(plan.radii) == 1 else Running(plan, target, self.tolerance)


class Watching(Judge):
    """Keeps the best lower bound of all looks, and stops as Stopping says."""

    def __init__(self, plan: Plan, target: Target, tolerance: float) -> None:
        super().__init__(plan, target)
        self.tolerance = tolerance
        self._best: list[float] = []  # the best lower bound by each look, computed once

    @abstractmethod
    def lower_at(self, wins: int, look: int) -> float:
        """The lower bound from the votes by one look; all looks' bounds hold together, except with probability alpha."""

    def bound(self, votes: Votes, label: int) -> Bound:
        wins = votes.counts[0, :, label]
        for look in range(len(self._best), len(wins)):
            self._best.append(max([self.lower_at(int(wins[look]), look), *self._best[-1:]]))
        return Bound(self._best[len(wins) - 1], self.plan.alpha, int(votes.trials[0, -1]))

    def stops(self, votes: Votes, label: int) -> bool:
        bound = self.bound(votes, label)
        low, high = self.target.radius(bound.lower, bound.upper), self.highest(votes, label, bound)
        if self.plan.radii:
            return not bool(undecided(low, high, grid=self.plan.radii))
        return not bool(undecided(low, high, tolerance=self.tolerance))

    def highest(self, votes: Votes, label: int, bound: Bound) -> float:
        """The largest radius that is still thinkable. Only used to stop, so it costs no alpha."""
        wins, times = votes.counts[:, :, label], self.plan.looks
        spending = late_spending(times, self.plan.alpha)
        most = float(running_upper(wins, times, spending)[0, -1])
        if self.plan.radii:
            # No radius is open that even unanimous votes from here on could not prove.
            best = self.lower_at(int(wins[0, -1]) + int(times[-1] - votes.trials[0, -1]), len(times) - 1)
            return min(self.target.radius(most), self.target.radius(max(best, bound.lower)))
        return self.target.radius(min(most, float(projected_lower(wins, times, spending)[0, -1])))


class Running(Watching):
    """Clopper–Pearson at each look with that look's share of alpha."""

    @cached_property
    def spending(self) -> FloatArray:
        """The share of alpha of each look."""
        return late_spending(self.plan.looks, self.plan.alpha)

    def lower_at(self, wins: int, look: int) -> float:
        return float(lower_bound(wins, self.plan.looks[look], self.spending[look]))


class RunningTwoClasses(Running):
    """The same for the class and its strongest rival, half of each look's share for either."""

    def bound(self, votes: Votes, label: int) -> Bound:
        seen, trials = votes.counts.shape[1], votes.trials[0]
        spending = self.spending[:seen] / 2
        lower = float(lower_bound(votes.counts[0, :, label], trials, spending).max())
        upper = float(upper_bound(rivals_at_looks(votes, label), trials, spending).min())
        return Bound(lower, self.plan.alpha, int(trials[-1]), min(upper, 1.0 - lower))

    def highest(self, votes: Votes, label: int, bound: Bound) -> float:
        wins, times = votes.counts[:, :, label], self.plan.looks
        most = float(running_upper(wins, times, self.spending)[0, -1])
        least = float(running_lower(rivals_at_looks(votes, label)[None], times, self.spending)[0, -1])
        return self.target.radius(most, min(least, 1.0 - most))
