"""What an estimator is: fixed before the first vote, asked after every look whether to stop, and at the end for the bound."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.estimators.bounds import Bound
from smoothcert.maths import IntArray
from smoothcert.maths.intervals import lower_bound
from smoothcert.plan import ALL_VOTES, Plan
from smoothcert.registry import Plugin, setting, written
from smoothcert.votes import Votes


class Target(Protocol):
    """What a bound is turned into: a radius, and back."""

    @property
    def two_classes(self) -> bool:
        """Does bounding the strongest rival too pay?"""

    def radius(self, lower: float, upper: float | None = None) -> float:
        """The plain radius that a bound proves."""

    def probability(self, radius: float) -> float:
        """The least probability of the class that proves this plain radius; one if none does."""


class Judge(ABC):
    """Judges the votes on one input, all of whose looks so far are in ``votes``."""

    def __init__(self, plan: Plan, target: Target, uniform: float = 1.0, share: float = 1.0) -> None:
        self.plan, self.target, self.uniform = plan, target, uniform
        # Of alpha: what the class's bound may spend, and its strongest rival's; one where the rival is not bounded.
        self.share, self.own_alpha = share, share * plan.alpha
        self.rival_alpha = plan.alpha - self.own_alpha

    @property
    def two_classes(self) -> bool:
        """Is the strongest rival bounded too?"""
        return self.share < 1.0

    @abstractmethod
    def bound(self, votes: Votes, label: int) -> Bound:
        """What the votes prove of the class, except with probability alpha."""

    @abstractmethod
    def stops(self, votes: Votes, label: int) -> bool:
        """Could more votes no longer change what the user wants to know? Asked before the last look only."""


@dataclass(frozen=True)
class Estimator(Plugin, ABC):
    """From votes to a bound, and when to stop. Stopping never touches the error.

    ``anytime``: the bound holds at whichever look the voting stopped; otherwise it holds after all the votes, and is given
    then only. ``randomized``: it needs one random number per input. Both are claims, which a suite can refute.
    """

    anytime: ClassVar[bool] = True
    randomized: ClassVar[bool] = False

    @abstractmethod
    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        """The judge of one input; uniform is its random number, 1 where none is used."""

    @property
    def bounds_rivals(self) -> bool:
        """Is the runner-up bounded whatever the law, so that it needs a theorem for two classes?"""
        return False

    def check(self, plan: Plan) -> None:
        """Refuse a plan that could not certify anything even if all votes agreed, or that this estimator cannot serve."""
        if float(lower_bound(plan.trials, plan.trials, plan.alpha)) <= 0.5:
            least = math.floor(-math.log2(plan.alpha)) + 1  # the first n with alpha^(1/n) > 1/2
            raise SettingError(
                f"estimate={plan.trials} votes can certify nothing at alpha={plan.alpha}: even if all agree the bound stays "
                f"at or below 1/2; use at least {least} (the literature uses 100000)"
            )

    def rule(self, plan: Plan) -> str:
        """When the votes stop, in words that go into every record."""
        return f"{self.title} had seen enough" if self.anytime else ALL_VOTES

    def stopped(self, plan: Plan, trials: int) -> str:
        """Why the votes ended after so many. Unless they are all, the radius is less than more votes could prove."""
        return ALL_VOTES if trials == plan.trials else self.rule(plan)


@dataclass(frozen=True)
class WithRivals(Estimator):
    """Bounds the strongest rival of the class too, where that pays: each bound spends its share of alpha."""

    rivals: str = setting(
        "auto",
        "rest: bound the class alone; runner_up: its strongest rival too; auto: where the law has an exact theorem for two",
        choices=("auto", "rest", "runner_up"),
    )
    share: float = setting(0.9, "of alpha for the class where its rival is bounded too", above=0, below=1)

    @property
    def bounds_rivals(self) -> bool:
        return self.rivals == "runner_up"

    def share_for(self, target: Target) -> float:
        """What the class's bound may spend of alpha; all of it where its rival is not bounded."""
        both = self.bounds_rivals or (self.rivals == "auto" and target.two_classes)
        return self.share if both else 1.0


def radii_decided(plan: Plan) -> str:
    """The rule of estimators that stop for the radii of the plan."""
    return f"radii {', '.join(map(written, plan.radii))} decided"


def check_votes(plan: Plan, votes: Votes) -> None:
    """Refuse votes that were not counted at the looks of the plan: their bound would mean nothing."""
    cast, planned = votes.trials[0], plan.looks[: votes.counts.shape[1]]
    if not np.array_equal(cast, planned):
        raise SettingError(
            f"the votes were counted after {cast.tolist()[:5]}… and the plan looks after {planned.tolist()[:5]}…; "
            "looks are fixed before the first vote: keep the number of votes and the block size of the run"
        )


def rivals_at_looks(votes: Votes, label: int) -> IntArray:
    """The strongest rival's votes at each look, invalid ones among them."""
    return np.asarray(np.delete(votes.counts[0], label, axis=1).max(axis=1) + votes.invalid[0])
