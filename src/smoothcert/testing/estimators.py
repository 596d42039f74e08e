"""What every estimator must pass: how often its bound is wrong, what it may say after stopping, and its text."""

from __future__ import annotations

import math

import numpy as np

from smoothcert.estimators import REGISTRY, Estimator, Plan
from smoothcert.estimators.bounds import Bound
from smoothcert.laws import law_named
from smoothcert.maths import IntArray
from smoothcert.plan import ALL_VOTES
from smoothcert.radius import RadiusTarget
from smoothcert.testing.suite import Suite, reads_back
from smoothcert.votes import Votes

FALSE_ALARM = 1e-5  # of each statistical test of a correct estimator, by Chernoff's bound


class EstimatorSuite(Suite):
    """On streams of votes of a class against two rivals, under Gaussian noise in l2."""

    runs, trials, alpha = 300, 600, 0.05
    target = RadiusTarget(law_named("gaussian"), 2.0, 10, 1.0)

    def plan(self, member: Estimator, radii: tuple[float, ...] = (0.2, 0.5)) -> Plan:
        """Six hundred votes in blocks of fifty."""
        return Plan(str(member), self.trials, self.alpha, radii, block=50)

    def cast(self, member: Estimator, plan: Plan, stream: IntArray) -> int:
        """How many votes were cast when they have stopped as the estimator wants."""
        judge = member.judge(plan, self.target, 0.5)
        for look, cast in enumerate(plan.looks, start=1):
            if cast == plan.looks[-1] or judge.stops(self.table(stream, plan.looks[:look]), 0):
                return int(cast)
        raise AssertionError("a plan has a last look")

    def bounds(self, member: Estimator, plan: Plan, stream: IntArray, uniform: float) -> list[Bound]:
        """What is said of class 0 at every look at which something may be said: the user may stop where it pleases."""
        judge = member.judge(plan, self.target, uniform)
        first = 1 if member.anytime else len(plan.looks)
        looks = range(first, len(plan.looks) + 1)
        return [judge.bound(self.table(stream, plan.looks[:look]), 0) for look in looks]

    def table(self, stream: IntArray, looks: IntArray) -> Votes:
        """The counts at these looks; a vote of 3 is no number."""
        counts = np.stack([np.bincount(stream[:look], minlength=4) for look in looks])
        return Votes(counts[None, :, :3], counts[None, :, 3])

    def streams(self, chances: tuple[float, ...]) -> IntArray:
        """Independent streams of votes, (runs, trials)."""
        return np.random.default_rng(8).choice(len(chances), size=(self.runs, self.trials), p=chances)

    def test_the_bound_is_wrong_at_most_alpha_of_the_time(self, member: Estimator) -> None:
        """At whichever look the votes stop; rivals' bounds count too. A false alarm has probability below 1e-5 each."""
        allowed = self.runs * self.alpha
        most = allowed + math.sqrt(-3 * allowed * math.log(FALSE_ALARM))
        uniforms = np.random.default_rng(9).random(self.runs)
        for chances in ((0.6, 0.4, 0.0), (0.7, 0.2, 0.1), (0.55, 0.3, 0.1, 0.05)):
            rival = chances[1] + sum(chances[3:])  # what is no number counts for the strongest
            wrong = 0
            for stream, uniform in zip(self.streams(chances), uniforms, strict=True):
                found = self.bounds(member, self.plan(member), stream, float(uniform))
                wrong += any(b.lower > chances[0] or (b.upper is not None and b.upper < rival) for b in found)
            assert wrong <= most, f"{member}: {wrong} of {self.runs} bounds are wrong, and alpha allows {allowed:g}"

    def test_bounds_are_probabilities_that_grow_with_the_votes(self, member: Estimator) -> None:
        """More votes for the class give no smaller bound; all of them the largest, and never certainty."""
        plan, lower = self.plan(member), []
        for wins in (0, 200, 400, 599, 600):
            stream = np.r_[np.zeros(wins, dtype=np.int64), np.ones(self.trials - wins, dtype=np.int64)]
            votes = self.table(np.random.default_rng(1).permutation(stream), plan.looks)
            bound = member.judge(plan, self.target, 0.5).bound(votes, 0)
            assert 0 <= bound.lower < 1, f"{member} gives the bound {bound.lower}"
            assert (bound.alpha, bound.trials) == (plan.alpha, plan.trials)
            lower.append(bound.lower)
        assert lower == sorted(lower), f"{member}: bounds fall as the class wins more votes: {lower}"

    def test_votes_that_are_no_number_help_nobody(self, member: Estimator) -> None:
        """They count against the class."""
        plan = self.plan(member)
        stream = np.random.default_rng(2).choice(4, size=self.trials, p=(0.8, 0.1, 0.0, 0.1))
        against, judge = np.where(stream == 3, 1, stream), member.judge(plan, self.target, 0.5)
        with_invalid = judge.bound(self.table(stream, plan.looks), 0)
        without = member.judge(plan, self.target, 0.5).bound(self.table(against, plan.looks), 0)
        assert with_invalid.lower <= without.lower
        assert with_invalid.rival >= without.rival

    def test_it_says_why_it_stopped(self, member: Estimator) -> None:
        """All votes, or a rule in words; one that is not anytime never stops early."""
        plan = self.plan(member)
        cast = [self.cast(member, plan, stream) for stream in self.streams((0.95, 0.05, 0.0))[:20]]
        if not member.anytime:
            assert set(cast) == {plan.trials}, f"{member} says it needs all votes, and stopped after {min(cast)}"
        assert member.stopped(plan, plan.trials) == ALL_VOTES
        said = member.stopped(plan, plan.trials - 50)
        assert (said == ALL_VOTES) != member.anytime, f"{member} says {said!r} of votes that stopped early"

    def test_its_text_reads_back(self, member: Estimator) -> None:
        """As it would be written on the command line."""
        reads_back(member, REGISTRY)
