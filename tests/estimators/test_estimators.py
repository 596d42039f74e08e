"""Estimators as the smoother uses them: what they claim after stopping, when they stop, and what they refuse."""

import time
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multinomial
from torch import nn

import smoothcert as sc
from smoothcert.asks import Ask
from smoothcert.errors import ModelError, SettingError
from smoothcert.estimators import Judge, Plan, estimator_of, sequential
from smoothcert.laws import law_named
from smoothcert.maths.intervals import lower_bound
from smoothcert.polling import Pollster
from smoothcert.radius import RadiusTarget, probability_for, proved_radius
from smoothcert.seeds import TorchDraws
from smoothcert.votes import Votes

TARGET = RadiusTarget(law_named("gaussian"), 2.0, 10, 0.5)
ALONE = "sequential:rivals=rest"  # with one radius, the exact group-sequential test


def estimator_for(plan: Plan, target: RadiusTarget, uniform: float = 1.0) -> Judge:
    """The judge of a plan."""
    return estimator_of(plan).judge(plan, target, uniform)


def votes_at_looks(plan: Plan, votes: np.ndarray, looks: int) -> Votes:  # type: ignore[type-arg]
    """The table of a stream of votes (1 for the class, 0 for its one rival) at the first looks."""
    wins = np.cumsum(votes)[plan.looks[:looks] - 1]
    return Votes(np.stack([plan.looks[:looks] - wins, wins], axis=1)[None], np.zeros((1, looks), dtype=np.int64))


def played(plan: Plan, votes: np.ndarray, uniform: float = 1.0) -> tuple[sc.Bound, int]:  # type: ignore[type-arg]
    """The bound after the votes have stopped as the estimator wants, and at which look."""
    judge = estimator_for(plan, TARGET, uniform=uniform)
    for seen in range(1, len(plan.looks) + 1):
        table = votes_at_looks(plan, votes, seen)
        if seen == len(plan.looks) or judge.stops(table, 1):
            return judge.bound(table, 1), seen
    raise AssertionError


PLANS = [
    Plan("fixed", 1_000, 0.05, block=50),
    Plan("randomized", 1_000, 0.05, block=50),
    Plan("sequential", 1_000, 0.05, block=50),
    Plan("sequential", 1_000, 0.05, radii=(0.1, 0.3), block=50),
    Plan("sequential", 1_000, 0.05, radii=(0.25,), block=50),
    Plan("group_sequential", 1_000, 0.05, radii=(0.1, 0.25, 0.3), block=50),
    Plan("union", 1_000, 0.05, radii=(0.25,), block=50),
    Plan("betting", 1_000, 0.05, radii=(0.25,), block=50),
    Plan("sequential:rivals=rest", 1_000, 0.05, block=50),
    Plan("sequential:rivals=rest", 1_000, 0.05, radii=(0.25,), block=50),
]


@pytest.mark.slow  # the suite for estimators asks the same of fewer runs
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.estimator}-{len(plan.radii)}")
def test_the_bound_after_stopping_is_wrong_at_most_alpha_of_the_time(plan: Plan) -> None:
    """Runs at the least probability of radius 0.25: at most alpha + 4 standard errors, false alarm below 1e-3 each."""
    p = probability_for(law_named("gaussian"), 2, 10, 0.5)
    generator, runs, wrong = np.random.default_rng(1), 100 if plan.estimator == "betting" else 500, 0
    for _ in range(runs):
        bound, _ = played(plan, generator.random(1_000) < p, uniform=float(generator.random()))
        wrong += bound.lower > p or bound.rival < 1 - p
    assert wrong / runs <= 0.05 + 4 * (0.05 * 0.95 / runs) ** 0.5


def test_stopping_on_a_fixed_bound_would_be_wrong() -> None:
    """The mutation that the tests above guard against: Clopper–Pearson at the full alpha, stopped when it likes the look."""
    plan = Plan("sequential", 1_000, 0.05, radii=(0.25,), block=50)
    p = probability_for(law_named("gaussian"), 2, 10, 0.5)
    generator, runs, wrong = np.random.default_rng(1), 600, 0
    for _ in range(runs):
        wins = np.cumsum(generator.random(1_000) < p)[plan.looks - 1]
        wrong += bool((lower_bound(wins, plan.looks, 0.05) > p).any())
    assert wrong / runs > 0.05 + 4 * (0.05 * 0.95 / runs) ** 0.5


class TestTwoClasses:
    """The class and its strongest rival, nine tenths of alpha and one: the default where the law has the theorem."""

    def at(self, *counts: int, spec: str = "fixed", invalid: int = 0, **target: Any) -> sc.Bound:
        votes = sum(counts) + invalid
        plan = Plan(spec, votes, radii=(0.25,) if spec.startswith("group") else (), block=votes)
        aim = RadiusTarget(**{"law": law_named("gaussian"), "norm": 2.0, "dim": 10, "scale": 1.0, **target})
        return estimator_for(plan, aim).bound(Votes(np.array([[counts]]), np.array([[invalid]])), 0)

    @pytest.mark.parametrize("spec", ["fixed", "sequential"])
    def test_known_radii(self, spec: str) -> None:
        """10 000 votes at one look, alpha 0.001."""
        target = RadiusTarget(law_named("gaussian"), 2.0, 10, 1.0)
        for counts, radius in (((9_500, 300, 200), 1.683724), ((7_000, 1_000, 1_000, 1_000), 0.850641)):
            bound = self.at(*counts, spec=spec)
            assert target.radius(bound.lower, bound.upper) == pytest.approx(radius, abs=6e-7)

    @pytest.mark.parametrize("spec", ["fixed", "sequential", "group_sequential", "union", "betting", "randomized"])
    def test_every_estimator_bounds_the_rival_by_default(self, spec: str) -> None:
        both, alone = self.at(900, 60, 40, spec=spec), self.at(900, 60, 40, spec=f"{spec}:rivals=rest")
        assert alone.upper is None
        assert both.upper is not None
        assert 0.06 < both.upper < 1 - both.lower
        assert both.lower <= alone.lower
        # What is no number may be anybody's.
        assert self.at(900, 60, 0, spec=spec, invalid=40).rival > self.at(900, 60, 40, spec=spec).rival

    def test_an_answer_with_less_than_half_of_the_votes(self) -> None:
        bound = self.at(4_500, 2_000, 1_800, 1_700)
        assert bound.lower < 0.5
        assert bound.lower > bound.rival

    @pytest.mark.parametrize(("law", "norm"), [("cauchy", 2.0), ("laplace", 2.0), ("generalized_normal:beta=3", 2.0)])
    def test_where_tables_for_one_class_prove_more_the_class_is_bounded_alone(self, law: str, norm: float) -> None:
        assert self.at(900, 60, 40, law=law_named(law), norm=norm).upper is None


CORNERS = [(i / 8, j / 8, 1 - i / 8 - j / 8) for i in range(9) for j in range(9 - i)]


@cache
def paths() -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Every pair of tables at 5 and at 9 votes, (paths, 2, 3), and its probability at each corner, (corners, paths)."""
    parts = [np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]) for n in (5, 4)]
    first, then = (np.repeat(parts[0], len(parts[1]), axis=0), np.tile(parts[1], (len(parts[0]), 1)))
    chances = [multinomial.pmf(first, 5, p) * multinomial.pmf(then, 4, p) for p in CORNERS]
    return np.stack([first, first + then], axis=1), np.array(chances)


class TestExactError:
    """Two looks, at 5 and at 9 votes of three classes: the error of every path of votes, summed, for every p of a grid."""

    looks, alpha = np.array([5, 9]), 0.3

    def worst(self, spec: str, twice: bool = False) -> float:
        """The largest error over the grid, if the votes may stop at either look; twice: both bounds spend all of alpha."""
        plan = Plan(spec, 9, self.alpha, radii=(0.1,) if spec.startswith("group") else ())
        plan.__dict__["looks"] = self.looks  # such few votes would be looked at once
        bounds = []
        for path in paths()[0]:
            judge = estimator_for(plan, RadiusTarget(law_named("gaussian"), 2.0, 10, 1.0), 0.5)
            assert judge.two_classes
            if twice:
                judge.own_alpha = judge.rival_alpha = self.alpha
            seen = [1, 2] if estimator_of(plan).anytime else [2]
            found = [judge.bound(Votes(path[None, :n], np.zeros((1, n), dtype=np.int64)), 0) for n in seen]
            bounds.append((max(b.lower for b in found), min(b.rival for b in found)))
        low, high = np.array(bounds).T
        errors = [
            float(chance[(low > p[0] + 1e-12) | (high < max(p[1:]) - 1e-12)].sum())
            for p, chance in zip(CORNERS, paths()[1], strict=True)
        ]
        return max(errors)

    @pytest.mark.parametrize(
        "spec", ["fixed", "sequential", "group_sequential", "union", pytest.param("betting", marks=pytest.mark.slow)]
    )
    def test_the_error_is_at_most_alpha(self, spec: str) -> None:
        assert self.worst(spec) <= self.alpha + 1e-12

    def test_alpha_spent_again_and_again_would_be_caught(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All of alpha at every look, for the class and for its rival."""
        monkeypatch.setattr(sequential, "late_spending", lambda looks, alpha: np.full(len(looks), alpha))
        assert self.worst("sequential", twice=True) > self.alpha


class TestStopping:
    def test_an_easy_radius_needs_one_look(self) -> None:
        bound, seen = played(Plan(trials=100_000, radii=(0.25,)), np.ones(100_000, dtype=int))
        assert seen == 1
        assert TARGET.radius(bound.lower) >= 0.25

    def test_a_group_sequential_claim_is_the_radius_and_no_more(self) -> None:
        bound, _ = played(Plan(ALONE, 10_000, radii=(0.25,)), np.ones(10_000, dtype=int))
        assert TARGET.radius(bound.lower) == pytest.approx(0.25, abs=1e-12)

    def test_a_hopeless_radius_is_given_up_and_the_label_kept_where_it_is_clear(self) -> None:
        """p is about 0.7: radius 0.5 (p0 = 0.84) is out of reach, which few votes show, and the class leads."""
        bound, seen = played(Plan(ALONE, 20_000, radii=(0.5,)), np.tile([1] * 7 + [0] * 3, 2_000))
        assert seen < 10
        assert bound.lower > 0.5
        assert TARGET.radius(bound.lower) < 1e-12

    def test_a_coin_is_an_abstention(self) -> None:
        bound, _ = played(Plan(ALONE, 2_000, radii=(0.5,)), np.tile([1, 0], 1_000))
        assert bound.lower == 0.0

    def test_a_grid_stops_when_no_radius_is_open(self) -> None:
        votes = np.tile([1] * 9 + [0], 10_000)
        bound, seen = played(Plan(trials=100_000, radii=(0.25, 0.5, 0.75)), votes)
        assert seen < 25
        assert 0.5 <= TARGET.radius(bound.lower) < 0.75

    def test_the_tolerance_loses_no_more_than_it_says(self) -> None:
        votes = np.tile([1] * 9 + [0], 10_000)
        stopped, seen = played(Plan("sequential:tolerance=0.05", trials=100_000), votes)
        whole, _ = played(Plan("fixed", 100_000), votes)
        assert seen < 25
        assert TARGET.radius(stopped.lower) >= 0.94 * TARGET.radius(whole.lower)

    def test_a_radius_beyond_all_the_votes_is_given_up_at_once(self) -> None:
        """At N = 10 000 unanimous votes prove 3.2 sigmas; 4 sigmas are out of reach from the first look on."""
        for radii in ((2.0,), (0.25, 2.0)):
            bound, seen = played(Plan(trials=10_000, radii=radii), np.ones(10_000, dtype=int))
            assert seen == 1
            assert TARGET.radius(bound.lower) >= (0.25 if len(radii) == 2 else 0)
        mixed = np.concatenate([np.zeros(60, dtype=int), np.ones(9_940, dtype=int)])
        _, seen = played(Plan(trials=10_000, radii=(1.55,)), mixed)
        assert seen == 1

    def test_an_impossible_radius_is_never_claimed(self) -> None:
        """Uniform l1 certifies less than its scale; a larger radius settles at once."""
        plan = Plan(trials=10_000, radii=(2.0,))
        judge = estimator_for(plan, RadiusTarget(law_named("uniform"), 1.0, 10, 1.0))
        table = votes_at_looks(plan, np.ones(10_000, dtype=int), 1)
        assert judge.stops(table, 1)
        assert judge.bound(table, 1).lower > 0.5


def test_the_probability_of_a_radius_is_rounded_up() -> None:
    for law, norm in [("gaussian", 2.0), ("laplace", 1.0), ("uniform", 1.0), ("gaussian", np.inf)]:
        for radius in (0.01, 0.3, 0.77):
            p = probability_for(law_named(law), norm, 7, radius)
            if p < 1:
                assert proved_radius(law_named(law), norm, 7, sc.Bound(p, 0.1, 1)).value >= radius
                assert proved_radius(law_named(law), norm, 7, sc.Bound(p - 1e-9, 0.1, 1)).value < radius


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"estimator": "sequentiel"}, "did you mean 'sequential'"),
            ({"estimator": "group_sequential"}, "give radii"),
            ({"estimator": "betting:rival=runner_up"}, "'rival=runner_up' is no parameter of it"),
            ({"estimator": "fixed:share=1"}, "share must be a finite number above 0 and below 1"),
            ({"radii": (0.0,)}, "radii must be a finite number above 0"),
            ({"estimator": "sequential:tolerance=1.5"}, "tolerance must be a finite number above 0 and below 1"),
            ({"estimator": "sequential:rivals=all"}, "rivals must be one of auto, rest, runner_up"),
            ({"trials": 0}, "trials must be a finite number of at least 1"),
            ({"alpha": 0.5}, "alpha must be a finite number above 0 and below 0.5"),
        ],
    )
    def test_plans(self, settings: dict[str, object], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            estimator_of(Plan(**settings))  # type: ignore[arg-type]

    def test_fixed_needs_all_its_votes(self) -> None:
        plan = Plan("fixed", 1_000)
        with pytest.raises(SettingError, match="needs all of its 1000 votes; got 200"):
            estimator_for(plan, TARGET).bound(votes_at_looks(plan, np.ones(1_000, dtype=int), 1), 1)

    def test_the_looks_are_whole_blocks(self) -> None:
        looks = Plan(trials=100_000, block=200).looks
        assert (looks % 200 == 0).all()
        assert looks[-1] == 100_000
        assert 15 <= len(looks) <= 25


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval()


class TestEngine:
    """The same table whatever the workers, and votes only for those still undecided."""

    def certify(
        self, model: nn.Module, radii: tuple[float, ...] = (), estimator: str = "sequential", **engine: Any
    ) -> list[tuple[object, ...]]:
        x = torch.randn(13, 6, generator=torch.Generator().manual_seed(0))
        noise = sc.Noise.isotropic("gaussian", 0.5)
        smoother = sc.Smoother(
            model, noise, estimate=4_000, estimator=estimator, radii=radii, engine=sc.Engine(100, **engine)
        )
        return [(c.label, c.radius, c.bound.trials, c.bound.lower) for c in smoother.certify(x)]

    @pytest.mark.parametrize("settings", [{}, {"radii": (0.2,)}, {"radii": (0.1, 0.3)}, {"shared_noise": True}])
    def test_the_number_of_workers_changes_nothing(self, model: nn.Module, settings: dict[str, Any]) -> None:
        one, three = (self.certify(model, workers=workers, **settings) for workers in (1, 3))
        assert one == three

    def test_easy_inputs_cost_few_votes(self, model: nn.Module) -> None:
        fixed, early = self.certify(model, estimator="fixed"), self.certify(model, radii=(0.1,))
        assert sum(row[2] for row in early) < 0.5 * sum(row[2] for row in fixed)  # type: ignore[misc]
        reached = [(a[1] >= 0.1, b[1] >= 0.1) for a, b in zip(fixed, early, strict=True)]  # type: ignore[operator]
        assert sum(a != b for a, b in reached) <= 1

    def test_shared_noise_is_shared_and_said(self, model: nn.Module) -> None:
        x = torch.zeros(3, 6)
        smoother = sc.Smoother(
            model,
            sc.Noise.isotropic("gaussian", 0.5),
            estimator="fixed",
            estimate=1_000,
            engine=sc.Engine(shared_noise=True),
        )
        lowers = {certificate.bound.lower for certificate in smoother.certify(x)}
        assert len(lowers) == 1
        own = sc.Smoother(model, sc.Noise.isotropic("gaussian", 0.5), estimator="fixed", estimate=1_000)
        assert len({certificate.bound.lower for certificate in own.certify(x)}) > 1

    def test_shared_draws_are_made_once_for_many_inputs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """160 inputs in waves of up to 64, 6 blocks each: about 24 draws, and 960 if each input made its own."""
        drawn, source = [], Pollster._source

        def counted(self: Pollster, ask: Ask, number: int) -> TorchDraws:
            drawn.append(number)
            return source(self, ask, number)

        def slow(batch: torch.Tensor) -> torch.Tensor:
            time.sleep(0.0005)  # as long as other inputs need to be taken in
            return torch.stack([batch[:, 0], -batch[:, 0]], dim=1)

        monkeypatch.setattr(Pollster, "_source", counted)
        noise = sc.Noise.isotropic("gaussian", 0.5)
        smoother = sc.Smoother(
            slow, noise, estimator="fixed", estimate=1_000, engine=sc.Engine(shared_noise=True, workers=1)
        )
        smoother.certify(torch.full((160, 6), 0.3))
        assert len(drawn) < 100, f"{len(drawn)} draws"

    def test_a_model_that_breaks_stops_everything(self) -> None:
        calls = []

        def fragile(batch: torch.Tensor) -> torch.Tensor:
            calls.append(len(batch))
            if len(calls) > 5:
                raise RuntimeError("the model broke")
            return torch.stack([batch[:, 0], -batch[:, 0]], dim=1)

        smoother = sc.Smoother(fragile, sc.Noise.isotropic("gaussian", 0.5), estimate=100_000)
        with pytest.raises(ModelError, match="the model broke"):
            smoother.certify(torch.ones(20, 3))
        assert len(calls) < 20

    def test_threads_are_given_back(self, model: nn.Module) -> None:
        before = torch.get_num_threads()
        self.certify(model)
        assert torch.get_num_threads() == before

    def test_other_precisions_are_other_classifiers_and_run(self, model: nn.Module) -> None:
        assert len(self.certify(model, runtime="torch:precision=bfloat16")) == 13
        with pytest.warns(UserWarning, match="on a CPU a network takes about six times as long"):
            sc.Smoother(model, sc.Noise.isotropic("gaussian", 0.5), engine=sc.Engine(runtime="torch:precision=float16"))
        with pytest.raises(SettingError, match="precision=float8 is outside .* float32, bfloat16, float16"):
            self.certify(model, runtime="torch:precision=float8")

    def test_channels_last(self) -> None:
        seen = set()

        class Watch(nn.Module):
            def forward(self, batch: torch.Tensor) -> torch.Tensor:
                seen.add(batch.is_contiguous(memory_format=torch.channels_last))
                return batch.mean((2, 3))

        noise = sc.Noise.isotropic("gaussian", 0.5)
        sc.Smoother(Watch().eval(), noise, estimate=500, engine=sc.Engine(runtime="torch:channels_last=true")).certify(
            torch.zeros(1, 3, 8, 8)
        )
        assert seen == {True}

    def test_shared_draws_are_never_those_of_another_law_or_shape(self, model: nn.Module) -> None:
        smoother = sc.Smoother(
            model,
            sc.Noise.isotropic("gaussian", 0.5),
            estimator="fixed",
            estimate=1_000,
            engine=sc.Engine(shared_noise=True),
        )
        smoother.certify(torch.zeros(1, 6))
        smoother.noise = sc.Noise.isotropic("laplace", 0.5)
        fresh = sc.Smoother(
            model, smoother.noise, estimator="fixed", estimate=1_000, engine=sc.Engine(shared_noise=True)
        )
        [reused], [anew] = smoother.certify(torch.zeros(1, 6)), fresh.certify(torch.zeros(1, 6))
        assert reused.bound.lower == anew.bound.lower

    def test_runner_up_needs_a_theorem(self, model: nn.Module) -> None:
        with pytest.raises(SettingError, match="no proved radius"):
            sc.Smoother(model, sc.Noise("cauchy", 0.5), estimator="fixed:rivals=runner_up")


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, "tolerance 0.02"),
        ({"estimator": "sequential:tolerance=0.1"}, "tolerance 0.1"),
        ({"radii": (0.1, 0.25)}, "radii 0.1, 0.25 decided"),
        ({"estimator": "fixed", "radii": (0.1,)}, "all votes"),
        ({"estimator": "randomized"}, "all votes"),
    ],
)
def test_votes_say_why_they_stopped(settings: dict[str, object], rule: str) -> None:
    plan = Plan(trials=2_000, **settings)  # type: ignore[arg-type]
    estimator = estimator_of(plan)
    assert estimator.rule(plan) == rule
    assert estimator.stopped(plan, 400) == rule
    assert estimator.stopped(plan, 2_000) == "all votes"
