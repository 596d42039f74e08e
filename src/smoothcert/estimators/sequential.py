"""The default: Clopper–Pearson at each look with that look's share of alpha, stopping when nothing is left to learn."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from smoothcert.estimators.base import Judge, Target, WithRivals, radii_decided, rivals_at_looks
from smoothcert.estimators.bounds import Bound
from smoothcert.estimators.group_sequential import Nested
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.sequential import late_spending, projected_lower, running_lower, running_upper, undecided
from smoothcert.plan import Plan
from smoothcert.registry import setting, written
from smoothcert.votes import Votes


@dataclass(frozen=True)
class Stopping(WithRivals):
    """Stops once the running bounds leave no radius open, or nothing worth the tolerance to gain."""

    tolerance: float = setting(
        0.02, "without radii, stop when the radius could grow by no more than this share", above=0, below=1
    )

    def rule(self, plan: Plan) -> str:
        return radii_decided(plan) if plan.radii else f"tolerance {written(self.tolerance)}"


@dataclass(frozen=True)
class Sequential(Stopping):
    """Clopper–Pearson at each look, the best so far; with one radius and one class, the exact group-sequential test."""

    name = "sequential"

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        share = self.share_for(target)
        if len(plan.radii) == 1 and share == 1.0:
            return Nested(plan, target)
        return Running(plan, target, self.tolerance, share)


class Watching(Judge):
    """Keeps the best bounds of all looks, and stops as Stopping says."""

    def __init__(self, plan: Plan, target: Target, tolerance: float, share: float) -> None:
        super().__init__(plan, target, share=share)
        self.tolerance = tolerance
        self._best: list[Bound] = []  # by each look, computed once

    @abstractmethod
    def lower_at(self, wins: int, look: int, alpha: float) -> float:
        """The lower bound from the votes by one look; all looks' bounds hold together, except with probability alpha."""

    def upper_at(self, wins: int, look: int, alpha: float) -> float:
        """The same from above: what is not won is lost."""
        return 1.0 - self.lower_at(int(self.plan.looks[look]) - wins, look, alpha)

    def bound(self, votes: Votes, label: int) -> Bound:
        wins, rivals = votes.counts[0, :, label], rivals_at_looks(votes, label)
        for look in range(len(self._best), len(wins)):
            now = self._at(int(wins[look]), int(rivals[look]), look)
            self._best.append(_better(now, self._best[-1]) if self._best else now)
        return self._best[len(wins) - 1]

    def _at(self, wins: int, rivals: int, look: int) -> Bound:
        """What one look alone shows."""
        lower, trials = self.lower_at(wins, look, self.own_alpha), int(self.plan.looks[look])
        upper = self.upper_at(rivals, look, self.rival_alpha) if self.two_classes else None
        return Bound(lower, self.plan.alpha, trials, None if upper is None else min(upper, 1.0 - lower))

    def stops(self, votes: Votes, label: int) -> bool:
        bound = self.bound(votes, label)
        low, high = self.target.radius(bound.lower, bound.upper), self.highest(votes, label, bound)
        if self.plan.radii:
            return not bool(undecided(low, high, grid=self.plan.radii))
        return not bool(undecided(low, high, tolerance=self.tolerance))

    def highest(self, votes: Votes, label: int, bound: Bound) -> float:
        """The largest radius that is still thinkable. Only used to stop, so it costs no alpha."""
        wins, rivals, times = votes.counts[:, :, label], rivals_at_looks(votes, label)[None], self.plan.looks
        spending = late_spending(times, self.plan.alpha)
        most, least = float(running_upper(wins, times, spending)[0, -1]), None
        if self.two_classes:
            least = min(float(running_lower(rivals, times, spending)[0, -1]), 1.0 - most)
        if self.plan.radii:
            # No radius is open that even unanimous votes from here on could not prove.
            left = int(times[-1] - votes.trials[0, -1])
            best = _better(self._at(int(wins[0, -1]) + left, int(rivals[0, -1]), len(times) - 1), bound)
            return min(self.target.radius(most, least), self.target.radius(best.lower, best.upper))
        reached = min(most, float(projected_lower(wins, times, late_spending(times, self.own_alpha))[0, -1]))
        if least is None:
            return self.target.radius(reached)
        others, spending = times[: rivals.shape[1]] - rivals, late_spending(times, self.rival_alpha)
        kept = 1.0 - float(projected_lower(others, times, spending)[0, -1])
        return self.target.radius(max(reached, bound.lower), min(max(least, kept), bound.rival, 1.0 - reached))


def _better(now: Bound, before: Bound) -> Bound:
    """The best of what two looks show, as of the later one."""
    lower = max(now.lower, before.lower)
    if now.upper is None or before.upper is None:
        return replace(now, lower=lower)
    return replace(now, lower=lower, upper=min(now.upper, before.upper, 1.0 - lower))


class Running(Watching):
    """Clopper–Pearson at each look with that look's share of alpha."""

    def lower_at(self, wins: int, look: int, alpha: float) -> float:
        return float(lower_bound(wins, self.plan.looks[look], late_spending(self.plan.looks, alpha)[look]))
