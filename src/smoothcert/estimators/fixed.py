"""All the votes, then a bound: Clopper–Pearson, or its randomized form."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.errors import SettingError
from smoothcert.estimators.base import Estimator, Judge, Target
from smoothcert.estimators.bounds import Bound
from smoothcert.maths.betting import randomized_lower_bound
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.two_class import two_class_bounds
from smoothcert.plan import Plan
from smoothcert.registry import setting
from smoothcert.votes import Votes


@dataclass(frozen=True)
class WithRivals(Estimator):
    """May bound the strongest rival of the class too."""

    rivals: str = setting(
        "rest",
        "rest: bound the class alone; runner_up: its strongest rival too, half of alpha each",
        choices=("rest", "runner_up"),
    )

    @property
    def bounds_rivals(self) -> bool:
        return self.rivals == "runner_up"


@dataclass(frozen=True)
class Fixed(WithRivals):
    """All the votes, then Clopper–Pearson (Cohen et al. 2019)."""

    name = "fixed"
    anytime = False

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return (TwoClasses if self.bounds_rivals else AllVotes)(plan, target)


@dataclass(frozen=True)
class Randomized(Estimator):
    """All the votes, then Clopper–Pearson without its slack, by one random number (Stevens 1950)."""

    name = "randomized"
    anytime = False
    randomized = True

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return Stevens(plan, target, uniform)


class AllVotes(Judge):
    """Clopper–Pearson at the end."""

    def stops(self, votes: Votes, label: int) -> bool:
        return False

    def bound(self, votes: Votes, label: int) -> Bound:
        trials, alpha = self.all_votes(votes), self.plan.alpha
        return Bound(float(lower_bound(votes.counts[0, -1, label], trials, alpha)), alpha, trials)

    def all_votes(self, votes: Votes) -> int:
        """The number of votes, which must be all that were planned."""
        trials = int(votes.trials[0, -1])
        if trials != self.plan.trials:
            raise SettingError(
                f"the estimator {self.plan.estimator} needs all of its {self.plan.trials} votes; got {trials}, of a run that "
                "stopped when it had seen enough: its bound would be wrong; use sequential, group_sequential, union or betting"
            )
        return trials


class TwoClasses(AllVotes):
    """The class from below, its strongest rival from above."""

    def bound(self, votes: Votes, label: int) -> Bound:
        trials, alpha = self.all_votes(votes), self.plan.alpha
        lower, upper = two_class_bounds(votes.counts[:, -1], [label], votes.invalid[:, -1], alpha)
        return Bound(float(lower[0]), alpha, trials, float(upper[0]))


class Stevens(AllVotes):
    """Exact, by one random number."""

    def bound(self, votes: Votes, label: int) -> Bound:
        trials, alpha = self.all_votes(votes), self.plan.alpha
        # At the very edge the exact bound is 1; nothing certifies an infinite radius, so Clopper–Pearson's is kept there.
        lower = float(randomized_lower_bound(votes.counts[0, -1, label], trials, alpha, self.uniform))
        return Bound(lower, alpha, trials) if lower < 1.0 else super().bound(votes, label)
