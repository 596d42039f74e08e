"""Hill climbing: larger certificates that are still true, from draws that never certify, whoever shares the batch."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
import smoothcert.polling
from smoothcert.data import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.errors import RunError, SettingError
from smoothcert.noise import Noise
from smoothcert.records.record import Record
from smoothcert.seeds import Stage
from smoothcert.smoother import Batch, Smoother
from smoothcert.store import open_run
from smoothcert.testing.problems import HalfSpace
from smoothcert.tuners import HillClimb, Tuner
from smoothcert.tuners.hill_climb import Separate

DIM = 12
AXIS = torch.eye(DIM)[5]
GAUSSIAN = Noise("gaussian", 0.7)


def planes(number: int, nearest: float, farthest: float) -> Tensor:
    """Inputs at these distances from the plane of HalfSpace(AXIS), in any norm."""
    x = torch.randn(number, DIM, generator=torch.Generator().manual_seed(2))
    x[:, 5] = torch.linspace(nearest, farthest, number)
    return x


def records(run: Path) -> list[Record]:
    with open_run(run) as store:
        return list(store.records())


@pytest.mark.parametrize(
    ("law", "norm"), [("gaussian", 2.0), pytest.param("generalized_normal:beta=1.5", 1.0, marks=pytest.mark.slow)]
)
def test_tuned_certificates_never_exceed_the_true_region(law: str, norm: float) -> None:
    """100 inputs, 20 000 votes, alpha 0.001: more than 2 violations have probability below 2e-4. Tight enough to see
    a radius inflated by 5 %, and larger in sum than under the noise before."""
    x, start = planes(100, 0.5, 3.0), Noise.isotropic(law, 0.35)
    settings = {"norm": norm, "estimator": "fixed", "estimate": 20_000, "engine": Engine(2_000), "seed": 3}
    classifier = HalfSpace(AXIS)
    tuned = Smoother(classifier, start, tuner=HillClimb(votes=1_000), **settings).certify(x)  # type: ignore[arg-type]
    ratio = torch.tensor([certificate.radius for certificate in tuned]) / x[:, 5]
    assert int((ratio > 1).sum()) <= 2
    assert float(ratio.median()) >= 0.94
    assert int((1.05 * ratio > 1).sum()) > 30, "this test could not see a radius inflated by 5 %"
    fixed = Smoother(classifier, start, **settings).certify(x)  # type: ignore[arg-type]
    assert sum(c.radius for c in tuned) > 1.1 * sum(c.radius for c in fixed)
    assert {certificate.soundness.value for certificate in tuned} == {"frozen"}
    assert HillClimb.reads_input


@pytest.mark.slow
def test_the_votes_that_chose_the_noise_do_not_certify_it() -> None:
    """A climb over scale and shape on as many votes as certify, alpha 0.3, 400 inputs: at most 120 violations are
    expected, more than 160 have probability below 1e-5. Certified by the draws that chose the noise there are 315."""
    x = planes(400, 1.0, 1.2)
    settings = {"estimator": "fixed", "estimate": 200, "alpha": 0.3, "select": 20}
    tuner, start = HillClimb(votes=200, step=1.1), Noise.isotropic("generalized_normal:beta=2", 0.7)
    smoother = Smoother(HalfSpace(AXIS), start, norm=1, tuner=tuner, **settings)  # type: ignore[arg-type]
    violations = sum(c.radius > float(row[5]) for c, row in zip(smoother.certify(x), x, strict=True))
    assert violations <= 160


class TestDraws:
    @pytest.fixture
    def keys(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, Stage, int]]:
        """Every key that voting draws from."""
        seen: list[tuple[int, int, Stage, int]] = []
        plain = smoothcert.polling.draws_for

        def logged(seed: int, index: int, stage: Stage, block: int, **rest: object) -> object:
            seen.append((seed, index, stage, block))
            return plain(seed, index, stage, block, **rest)  # type: ignore[arg-type]

        monkeypatch.setattr(smoothcert.polling, "draws_for", logged)
        return seen

    @pytest.mark.parametrize("keep_label", [False, True])
    def test_tuning_draws_are_keyed_by_stage_tune(self, keys: list[object], keep_label: bool) -> None:
        tuner = HillClimb(votes=150, keep_label=keep_label)
        smoother = Smoother(HalfSpace(AXIS), GAUSSIAN, estimate=1_000, engine=Engine(block=100), seed=7, tuner=tuner)
        tuner.choose(smoother, planes(2, 1, 2), GAUSSIAN, [4, 9])
        assert set(keys) == {(7, index, Stage.TUNE, block) for index in (4, 9) for block in (0, 1)}

    def test_the_certifying_votes_are_those_of_fixed_noise(self) -> None:
        """Certifying with the noise that was chosen, given as fixed noise, casts the same votes."""
        x = planes(3, 1, 2)
        start = Noise("gaussian", 0.2)
        tuned = Smoother(HalfSpace(AXIS), start, estimate=1_000, estimator="fixed", tuner=HillClimb(votes=200))
        chosen = HillClimb(votes=200).choose(tuned, x, start, range(3))
        fixed = Smoother(HalfSpace(AXIS), chosen, estimate=1_000, estimator="fixed")
        for one, other in zip(*(s.polls([Batch(x, range(3))]) for s in (tuned, fixed)), strict=True):
            assert np.array_equal(one.ballot.estimation.counts, other.ballot.estimation.counts)
        assert float(chosen.scale.min()) > 0.2


@pytest.fixture
def certified(linear_model: nn.Module, pixels: ArrayDataset, tmp_path: Path) -> Callable[..., list[Record]]:
    """Certifies the pixels under generalised normal noise into a folder, and reads the records."""

    def certify(name: str, tuner: HillClimb, **settings: object) -> list[Record]:
        noise = Noise.isotropic("generalized_normal:beta=2", 0.25, grid=1 / 255)
        smoother = Smoother(linear_model, noise, norm=1, estimate=1_000, estimator="fixed", tuner=tuner)
        return records(sc.certify_all(smoother, pixels, tmp_path / name, **settings))  # type: ignore[arg-type]

    return certify


def test_batches_orders_and_restarts_change_nothing(certified: Callable[..., list[Record]]) -> None:
    whole = certified("whole", HillClimb(votes=300))
    assert certified("one by one", HillClimb(votes=300), rows=1) == whole
    certified("in parts", HillClimb(votes=300), indices=[3, 1])
    assert certified("in parts", HillClimb(votes=300), indices=[4, 0, 2, 1, 3], rows=2) == whole
    assert len({record.law for record in whole}) > 1, "no input chose another shape, so this test shows little"
    assert all(isinstance(record.scale, float) and record.soundness == "frozen" for record in whole)


def test_other_settings_are_another_run(certified: Callable[..., list[Record]]) -> None:
    certified("run", HillClimb(votes=300), indices=[0])
    with pytest.raises(RunError, match="tuner: hill_climb"):
        certified("run", HillClimb(votes=300, keep_label=True))


def island(batch: Tensor) -> Tensor:
    """Class 1 within a tenth of zero, class 0 elsewhere: noise takes the class of what surrounds the input."""
    inside = batch.flatten(1).abs().amax(dim=1) < 0.1
    return torch.stack([~inside, inside], dim=1).float()


def test_keep_label_holds_on_to_the_answer_without_noise() -> None:
    x, noise = torch.zeros(1, 2), Noise("gaussian", 1.0)
    plain, kept = (
        Smoother(island, noise, estimate=2_000, tuner=make()).certify(x)[0]
        for make in (HillClimb, partial(HillClimb, keep_label=True))
    )
    assert (plain.label, kept.label) == (0, 1)
    assert kept.region is not None
    assert 0 < kept.radius < 0.1
    assert float(kept.region.scale) < 0.1


def test_an_abstention_climbs_to_less_noise() -> None:
    """At scale one the island wins 2 % of the votes or so; there is nothing to compare, so the climb goes down."""
    x, noise = torch.full((1, 2), 0.09), Noise("gaussian", 0.1)
    smoother = Smoother(island, noise, estimate=2_000, tuner=HillClimb())
    assert smoother.certify(x)[0].radius > 0


def test_scales_and_centres_per_coordinate_are_kept_in_proportion() -> None:
    scale, loc = torch.linspace(0.2, 1.0, DIM), torch.linspace(-0.1, 0.1, DIM)
    start = Noise("gaussian", scale, loc)
    smoother = Smoother(HalfSpace(AXIS), start, estimate=1_000, tuner=HillClimb(votes=200))
    chosen = smoother.tuner.choose(smoother, planes(2, 1, 3), start, range(2))
    for at in range(2):
        row = chosen.row(at, (DIM,), 2)
        factor = float(row.scale[0] / start.scale[0])
        torch.testing.assert_close(row.scale, start.scale * factor)
        assert torch.equal(row.loc, start.loc)
        assert factor == pytest.approx(1.2 ** round(math.log(factor, 1.2)))
    with pytest.raises(SettingError, match="2 noises for a batch of 3"):
        chosen.row(0, (DIM,), 3)


@pytest.mark.parametrize("start", [GAUSSIAN, Noise("generalized_normal:beta=2", 0.7)], ids=["scale", "scale and shape"])
def test_shared_draws_give_each_input_what_it_gets_alone(start: Noise) -> None:
    """Inputs that share a batch climb to different noises; each is voted on under its own, from the shared numbers."""
    settings = {"norm": 1, "estimate": 1_000, "engine": Engine(shared_noise=True), "tuner": HillClimb(votes=100)}
    x = planes(4, 0.3, 3)
    together = Smoother(HalfSpace(AXIS), start, **settings).certify(x)  # type: ignore[arg-type]
    assert len({certificate.radius for certificate in together}) > 1
    for at in range(4):
        alone = Smoother(HalfSpace(AXIS), start, **settings).certify(x[at : at + 1], first_index=at)[0]  # type: ignore[arg-type]
        assert (alone.radius, alone.bound) == (together[at].radius, together[at].bound)


def test_draws_of_different_laws_are_never_mixed() -> None:
    """Two laws on one tensor of scales and one of shifts: only the law tells their shared draws apart."""
    scale, loc = torch.tensor([0.7, 0.0], dtype=torch.float64)
    noises = [Noise("gaussian", scale, loc), Noise("cauchy", scale, loc)]

    class Alternating(Tuner):
        name, reads_input = "alternating", True

        def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
            return Separate([noises[index % 2] for index in indices], x.ndim - 1)

    settings = {"norm": 1, "estimate": 1_000, "estimator": "fixed", "engine": Engine(shared_noise=True)}
    x = planes(1, 1, 1).expand(4, DIM)
    mixed = Smoother(HalfSpace(AXIS), GAUSSIAN, tuner=Alternating(), **settings).certify(x)  # type: ignore[arg-type]
    for at in range(4):
        own = Smoother(HalfSpace(AXIS), noises[at % 2], **settings).certify(x[:1])[0]  # type: ignore[arg-type]
        assert mixed[at].bound == own.bound
    assert mixed[0].bound != mixed[1].bound


def test_a_bounded_runner_up_stays_with_laws_that_have_a_theorem() -> None:
    noise = Noise("generalized_normal:beta=1", 0.7)
    smoother = Smoother(
        HalfSpace(AXIS), noise, norm=1, estimate=1_000, estimator="fixed:rivals=runner_up", tuner=HillClimb(votes=100)
    )
    assert all(certificate.radius > 0 for certificate in smoother.certify(planes(3, 1, 3)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"votes": 0}, "votes=0"),
        ({"step": 1.0}, "step=1 "),
        ({"least": 1.5}, "least=1.5"),
        ({"shape_step": 0.0}, "shape_step=0 "),
        ({"most": 0.5}, "most=0.5"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        HillClimb(**settings)  # type: ignore[arg-type]
