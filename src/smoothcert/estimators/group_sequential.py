"""The exact group-sequential test of given radii."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.estimators.base import Judge, Target, WithRivals, radii_decided, rivals_at_looks
from smoothcert.estimators.boundary_cache import BoundaryCache
from smoothcert.estimators.bounds import Bound
from smoothcert.files import cache_folder
from smoothcert.maths.boundaries import Boundary, decide
from smoothcert.maths.sequential import late_spending, running_upper
from smoothcert.plan import Plan
from smoothcert.votes import Votes


@dataclass(frozen=True)
class GroupSequential(WithRivals):
    """The exact group-sequential test of "is the radius at least r", for each r of the plan and for zero."""

    name = "group_sequential"

    def check(self, plan: Plan) -> None:
        super().check(plan)
        if not plan.radii:
            raise SettingError("the estimator group_sequential decides given radii; give radii, for example 0.5")

    def rule(self, plan: Plan) -> str:
        return radii_decided(plan)

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return Nested(plan, target, share=self.share_for(target))


class Nested(Judge):
    """Nested tests, that of p > 1/2 first."""

    @cached_property
    def tests(self) -> tuple[Boundary, ...]:
        """The tests; radii that no probability proves are never claimed."""
        wanted = [self.target.probability(radius) for radius in self.plan.radii]
        return boundaries().grid([0.5, *(p for p in wanted if p < 1.0)], self.plan.looks, self.own_alpha)

    def stops(self, votes: Votes, label: int) -> bool:
        wins, cast = votes.counts[:, :, label], int(votes.trials[0, -1])
        asked = [test for test in self.tests[1:] if _within_reach(test, int(wins[0, -1]), cast)]
        return not asked or bool(decide(wins, asked).decided[0])

    def bound(self, votes: Votes, label: int) -> Bound:
        """The probability of the largest radius claimed: not Clopper–Pearson, which would be wrong after such a stop."""
        claimed = int(decide(votes.counts[:, :, label], self.tests).claimed[0])
        # Claiming p > 1/2 proves the label at radius zero: the smallest number above one half says so.
        lower = 0.0 if claimed < 0 else max(self.tests[claimed].p0, float(np.nextafter(0.5, 1.0)))
        bound = Bound(lower, self.plan.alpha, int(votes.trials[0, -1]))
        return bound if not self.two_classes else replace(bound, upper=min(self._rival(votes, label), 1.0 - lower))

    def _rival(self, votes: Votes, label: int) -> float:
        """What no rival exceeds, at all looks so far together except with probability ``rival_alpha``."""
        spending = late_spending(self.plan.looks, self.rival_alpha)
        return float(running_upper(rivals_at_looks(votes, label)[None], self.plan.looks, spending)[0, -1])


@cache
def boundaries() -> BoundaryCache:
    """The boundaries that were computed before, in memory and on disk."""
    return BoundaryCache(cache_folder() / "boundaries")


def _within_reach(test: Boundary, wins: int, cast: int) -> bool:
    """Could unanimous votes from here on still make the claim at a later look?"""
    later = test.looks > cast
    return bool(np.any(wins + test.looks[later] - cast >= test.upper[later]))
