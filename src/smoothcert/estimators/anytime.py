"""The published confidence sequences, which hold at every number of votes."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.errors import SettingError
from smoothcert.estimators.base import Judge, Target
from smoothcert.estimators.sequential import Stopping, Watching
from smoothcert.maths.betting import betting_lower_bound, union_lower_bound
from smoothcert.plan import Plan


@dataclass(frozen=True)
class UnionSequence(Stopping):
    """A confidence sequence by a union bound over geometric times (Voráček 2024)."""

    name = "union"

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return Union(plan, target, self.tolerance, self.share_for(target))


@dataclass(frozen=True)
class Betting(Stopping):
    """A confidence sequence by betting (Waudby-Smith and Ramdas 2024)."""

    name = "betting"

    def check(self, plan: Plan) -> None:
        super().check(plan)
        if plan.alpha > 1 / 3:
            raise SettingError(
                f"the estimator betting needs alpha of at most 1/3; got {plan.alpha}; the usual value is 0.001"
            )

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return Wealth(plan, target, self.tolerance, self.share_for(target))


class Union(Watching):
    """The union bound at each look."""

    def lower_at(self, wins: int, look: int, alpha: float) -> float:
        return float(union_lower_bound(wins, self.plan.looks[look], alpha))


class Wealth(Watching):
    """What no bet has refuted at each look."""

    def lower_at(self, wins: int, look: int, alpha: float) -> float:
        return float(betting_lower_bound(wins, self.plan.looks[look], alpha))
