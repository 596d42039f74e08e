"""Every built-in member passes its suite, and broken ones fail at the test that is meant for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.attacks import ATTACKS, Attack, attack_named
from smoothcert.attacks.victim import Victim
from smoothcert.estimators import ESTIMATORS, Bound, Estimator, Judge, Plan, Target, estimator_named
from smoothcert.maths import FloatArray
from smoothcert.maths.intervals import lower_bound
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.seeds import Stage, draws_for
from smoothcert.smoother import Smoother
from smoothcert.testing.attacks import AttackSuite
from smoothcert.testing.estimators import EstimatorSuite
from smoothcert.testing.recipes import RecipeSuite
from smoothcert.testing.tuners import TunerSuite
from smoothcert.training import RECIPES, Batch, Recipe, recipe_named
from smoothcert.tuners import TUNERS, Tuner, tuner_named
from smoothcert.votes import Votes

QUICK = {
    "fixed": "fixed",
    "data_dependent": "data_dependent:votes=100",
    "data_dependent_published": "data_dependent_published:steps=3,draws=4",
    "ancer": "ancer:steps=4,draws=8,votes=100",
    "ancer_published": "ancer_published:steps=3,draws=8,isotropic_steps=3",
    "hill_climb": "hill_climb:votes=100,most=2,least=0.5",
    "pattern": "pattern:source=linf",
}
FROM_FILES = {"reuse", "dataset", "per_input"}  # their numbers lie in files; tests/tuners has them


class TestTuners(TunerSuite):
    members = tuple(tuner_named(spec) for spec in QUICK.values())


class TestEstimators(EstimatorSuite):
    members = tuple(
        estimator_named(spec)
        for spec in (*ESTIMATORS, "fixed:rivals=runner_up", "sequential:rivals=runner_up")
        if spec != "betting"
    )


class TestBetting(EstimatorSuite):
    """A bound of betting takes a thousand times as long as the others; tests/estimators plays it more often."""

    members, runs = (estimator_named("betting"),), 10


class TestRecipes(RecipeSuite):
    members = tuple(recipe_named(name) for name in RECIPES)


class TestAttacks(AttackSuite):
    members = tuple(attack_named(name) for name in ATTACKS if name != "foolbox")


def test_every_member_is_tested() -> None:
    assert set(QUICK) | FROM_FILES == set(TUNERS)


@dataclass(frozen=True)
class Scaled(Tuner):
    """Chooses honestly; the broken ones below change one thing."""

    factor: float = setting(2.0, above=0)
    reads_input = True

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        scale = start.scale * self.factor * (1 + self.of(smoother, x, indices))
        return Noise(start.law, scale.expand(len(x), *x.shape[1:]), start.loc, start.grid)

    def of(self, smoother: Smoother, x: Tensor, indices: Sequence[int]) -> Tensor:
        return x.double().mean(dim=(1, 2, 3), keepdim=True)


class FromVotes(Scaled):
    """Uses the draws that certify."""

    def of(self, smoother: Smoother, x: Tensor, indices: Sequence[int]) -> Tensor:
        drawn = [draws_for(0, i, Stage.ESTIMATE, 0, dtype=torch.float64).uniform((1, 1, 1)) for i in indices]
        return torch.stack(drawn)


class FromBatch(Scaled):
    """Looks at the others."""

    def of(self, smoother: Smoother, x: Tensor, indices: Sequence[int]) -> Tensor:
        return x.double().mean().reshape(1, 1, 1, 1)


class FromChance(Scaled):
    """Throws dice."""

    def of(self, smoother: Smoother, x: Tensor, indices: Sequence[int]) -> Tensor:
        return torch.rand(len(x), 1, 1, 1).double()


class Leaky(Scaled):
    """Says that it does not read the input."""

    reads_input = False


class InPlace(Scaled):
    """Writes into its input."""

    def of(self, smoother: Smoother, x: Tensor, indices: Sequence[int]) -> Tensor:
        return x.zero_().double().mean(dim=(1, 2, 3), keepdim=True)


class Meddling(Scaled):
    """Changes the network."""

    def of(self, smoother: Smoother, x: Tensor, indices: Sequence[int]) -> Tensor:
        with torch.no_grad():
            next(smoother.model.parameters()).mul_(1.1)
        return super().of(smoother, x, indices)


class OffGrid(Scaled):
    """Forgets the grid."""

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return Noise(start.law, start.scale.expand(len(x), *x.shape[1:]))


class SharedName(Scaled):
    """Its parameter is no part of what it says it is."""

    def content(self) -> object:
        return "the same for all"


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (FromVotes(), "test_tuning_never_uses_a_certifying_draw"),
        (FromBatch(), "test_the_batch_does_not_matter"),
        (FromChance(), "test_the_batch_does_not_matter"),
        (Leaky(), "test_the_label_is_honest"),
        (InPlace(), "test_the_noise_is_usable"),
        (OffGrid(), "test_the_noise_is_usable"),
        (Meddling(), "test_the_classifier_is_left_alone"),
        (SharedName(), "test_settings_are_part_of_its_identity"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Tuner) else "",
)
def test_broken_tuners_are_caught(broken: Tuner, test: str) -> None:
    TunerSuite().check(Scaled())
    with pytest.raises(AssertionError):
        getattr(TunerSuite(), test)(broken)


@dataclass(frozen=True)
class Plain(Recipe):
    """Cross-entropy; the broken ones below change one thing."""

    strength: float = setting(1.0, least=0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.strength * nn.functional.cross_entropy(model(batch.noising.copies(batch.x, 1)[0]), batch.y)


class Dice(Plain):
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return nn.functional.cross_entropy(model(batch.x + torch.randn_like(batch.x)), batch.y)


class Wide(Plain):
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return nn.functional.cross_entropy(model(batch.x), batch.y, reduction="none")


class Backwards(Plain):
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return -super().loss(model, batch).clamp(max=20)


class Clearing(Plain):
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        batch.x.mul_(0.5)
        return super().loss(model, batch)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Dice(), "test_noise_comes_from_the_batch"),
        (Wide(), "test_the_loss_is_one_number_with_gradients"),
        (Backwards(), "test_training_learns"),
        (Clearing(), "test_the_batch_is_left_alone"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Recipe) else "",
)
def test_broken_recipes_are_caught(broken: Recipe, test: str) -> None:
    RecipeSuite().check(Plain())
    with pytest.raises(AssertionError):
        getattr(RecipeSuite(), test)(broken)


@dataclass(frozen=True)
class Corner(Attack):
    """Steps towards the plane; the broken ones below change one thing."""

    step: float = setting(1.0)

    def find(self, victim: Victim, budget: int) -> FloatArray:
        victim.begin(self.title)
        return victim.stretched(-self.step * np.ones((1, victim.dim)))[0]


class Outside(Corner):
    def find(self, victim: Victim, budget: int) -> FloatArray:
        return 2.0 * super().find(victim, budget)


class Restless(Corner):
    def find(self, victim: Victim, budget: int) -> FloatArray:
        return victim.stretched(np.random.default_rng().standard_normal((1, victim.dim)))[0]


class Costly(Corner):
    def find(self, victim: Victim, budget: int) -> FloatArray:
        found = super().find(victim, budget)
        victim.margins(np.zeros((40, victim.dim)), 400)
        return found


class Homeward(Corner):
    def find(self, victim: Victim, budget: int) -> FloatArray:
        return -super().find(victim, budget)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Outside(), "test_what_it_finds_lies_in_the_region"),
        (Restless(), "test_it_finds_the_same_again"),
        (Costly(), "test_it_keeps_to_its_budget"),
        (Homeward(), "test_it_moves_towards_the_plane"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Attack) else "",
)
def test_broken_attacks_are_caught(broken: Attack, test: str) -> None:
    AttackSuite().check(Corner())
    with pytest.raises(AssertionError):
        getattr(AttackSuite(), test)(broken)


class Peek(Judge):
    """Clopper–Pearson with the whole alpha at every look."""

    def bound(self, votes: Votes, label: int) -> Bound:
        trials = votes.trials[0]
        lower = float(np.max(lower_bound(votes.counts[0, :, label], trials, self.plan.alpha)))
        return Bound(lower, self.plan.alpha, int(trials[-1]))

    def stops(self, votes: Votes, label: int) -> bool:
        return False


class Rash(Peek):
    """The last look alone, but stopping at the first that pleases."""

    def bound(self, votes: Votes, label: int) -> Bound:
        trials = int(votes.trials[0, -1])
        return Bound(float(lower_bound(votes.counts[0, -1, label], trials, self.plan.alpha)), self.plan.alpha, trials)

    def stops(self, votes: Votes, label: int) -> bool:
        return self.bound(votes, label).lower > 0.6


class Sure(Rash):
    """Certain when all votes agree."""

    def bound(self, votes: Votes, label: int) -> Bound:
        bound = super().bound(votes, label)
        return replace(bound, lower=1.0) if votes.counts[0, -1, label] == bound.trials else bound

    def stops(self, votes: Votes, label: int) -> bool:
        return False


class Forgiving(Rash):
    """Drops what is no number."""

    def bound(self, votes: Votes, label: int) -> Bound:
        trials = int(votes.counts[0, -1].sum())
        return Bound(float(lower_bound(votes.counts[0, -1, label], trials, self.plan.alpha)), self.plan.alpha, trials)

    def stops(self, votes: Votes, label: int) -> bool:
        return False


@dataclass(frozen=True)
class Judged(Estimator):
    """By one of the judges above."""

    kind: str = setting("Peek")
    anytime = False

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return {"Peek": Peek, "Rash": Rash, "Sure": Sure, "Forgiving": Forgiving}[self.kind](plan, target)


@dataclass(frozen=True)
class Patient(Estimator):
    """Says that a bound of one look holds at every look, and that all votes were cast."""

    def judge(self, plan: Plan, target: Target, uniform: float = 1.0) -> Judge:
        return Rash(plan, target)

    def rule(self, plan: Plan) -> str:
        return "all votes"


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        ("Peek", "test_the_bound_is_wrong_at_most_alpha_of_the_time"),
        ("Patient", "test_the_bound_is_wrong_at_most_alpha_of_the_time"),
        ("Patient", "test_it_says_why_it_stopped"),
        ("Rash", "test_it_says_why_it_stopped"),
        ("Sure", "test_bounds_are_probabilities_that_grow_with_the_votes"),
        ("Forgiving", "test_votes_that_are_no_number_help_nobody"),
    ],
)
def test_broken_estimators_are_caught(kind: str, test: str) -> None:
    with pytest.raises(AssertionError):
        getattr(EstimatorSuite(), test)(Patient() if kind == "Patient" else Judged(kind))
