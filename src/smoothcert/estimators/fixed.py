"""All the votes, then a bound: Clopper–Pearson, or its randomized form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from smoothcert.errors import SettingError
from smoothcert.estimators.base import Judge, Target, WithRivals
from smoothcert.estimators.bounds import Bound
from smoothcert.maths.betting import randomized_lower_bound
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.two_class import two_class_bounds
from smoothcert.plan import Plan
from smoothcert.votes import Votes


@dataclass(frozen=True)
class Fixed(WithRivals):
    """All the votes, then Clopper–Pearson (Cohen et al. 2019)."""

    name = "fixed"
    anytime = False

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return AllVotes(plan, target, share=self.share_for(target))


@dataclass(frozen=True)
class Randomized(WithRivals):
    """All the votes, then Clopper–Pearson without its slack, by one random number (Stevens 1950)."""

    name = "randomized"
    anytime = False
    randomized = True

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return Stevens(plan, target, uniform, self.share_for(target))


class AllVotes(Judge):
    """Clopper–Pearson at the end: the class from below and, if asked, its strongest rival from above."""

    def stops(self, votes: Votes, label: int) -> bool:
        return False

    def bound(self, votes: Votes, label: int) -> Bound:
        trials, alpha = self.all_votes(votes), self.plan.alpha
        if not self.two_classes:
            return Bound(float(lower_bound(votes.counts[0, -1, label], trials, alpha)), alpha, trials)
        lower, upper = two_class_bounds(votes.counts[:, -1], [label], votes.invalid[:, -1], alpha, self.share)
        return Bound(float(lower[0]), alpha, trials, float(upper[0]))

    def all_votes(self, votes: Votes) -> int:
        """The number of votes, which must be all that were planned."""
        trials = int(votes.trials[0, -1])
        if trials != self.plan.trials:
            raise SettingError(
                f"the estimator {self.plan.estimator} needs all of its {self.plan.trials} votes; got {trials}, of a run that "
                "stopped when it had seen enough: its bound would be wrong; use sequential, group_sequential, union or betting"
            )
        return trials


class Stevens(AllVotes):
    """Exact for the class, by one random number; its rival by Clopper–Pearson."""

    def bound(self, votes: Votes, label: int) -> Bound:
        plain = super().bound(votes, label)
        # At the very edge the exact bound is 1; nothing certifies an infinite radius, so Clopper–Pearson's is kept there.
        wins = votes.counts[0, -1, label]
        lower = float(randomized_lower_bound(wins, plain.trials, self.own_alpha, self.uniform))
        if not lower < 1.0:
            return plain
        return replace(plain, lower=lower, upper=None if plain.upper is None else min(plain.upper, 1.0 - lower))
