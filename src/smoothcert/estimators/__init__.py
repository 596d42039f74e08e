"""Step 3: when to stop voting and what the votes prove, one file per kind. A new one is a file and a line of ESTIMATORS.

Every bound here holds at whichever look the voting stopped, except those of ``fixed`` and ``randomized``, which hold
after all the votes and are given then only.
"""

from __future__ import annotations

from smoothcert.estimators.anytime import Betting, UnionSequence
from smoothcert.estimators.base import Estimator, Judge, Target, check_votes
from smoothcert.estimators.bounds import Bound
from smoothcert.estimators.fixed import Fixed, Randomized
from smoothcert.estimators.group_sequential import GroupSequential
from smoothcert.estimators.sequential import Sequential
from smoothcert.plan import Plan
from smoothcert.registry import Registry

__all__ = [
    "ESTIMATORS",
    "REGISTRY",
    "Bound",
    "Estimator",
    "Judge",
    "Plan",
    "Target",
    "check_votes",
    "estimator_named",
    "estimator_of",
]

ESTIMATORS: dict[str, type[Estimator]] = {
    "sequential": Sequential,
    "fixed": Fixed,
    "group_sequential": GroupSequential,
    "union": UnionSequence,
    "betting": Betting,
    "randomized": Randomized,
}
REGISTRY: Registry[Estimator] = Registry("estimator", "smoothcert.estimators", ESTIMATORS, Estimator)  # type: ignore[type-abstract]
estimator_named = REGISTRY.make


def estimator_of(plan: Plan) -> Estimator:
    """The estimator of a plan, which must be one that it can serve."""
    estimator = estimator_named(plan.estimator)
    estimator.check(plan)
    return estimator
