"""The searches: gradients against finite differences, every attack legal on every region, and able to find something."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.attacks import DEFAULT, attack_named
from smoothcert.attacks.check import attack
from smoothcert.attacks.procedural import perlin
from smoothcert.attacks.projected_gradient import ProjectedGradient
from smoothcert.attacks.verdict import judge
from smoothcert.attacks.victim import Victim
from smoothcert.attacks.wasserstein import moved
from smoothcert.testing.leaks import SmoothShift
from smoothcert.testing.problems import HalfSpace
from smoothcert.training.ucan import UcanSettings
from smoothcert.tuners.generators import Design, Generator

SHAPE = (1, 6, 6)


def design(kind: str, shape: tuple[int, ...] = SHAPE, **options: Any) -> Design:
    """A generator's design, as training makes it."""
    return UcanSettings(generator=kind, **options).design(shape)


def network(shape: tuple[int, ...] = SHAPE) -> nn.Module:
    """A smooth network with three classes."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 16), nn.Tanh(), nn.Linear(16, 3)).eval()


def victim_of(
    norm: float = 2.0,
    *,
    model=None,
    noise: sc.Noise | None = None,
    tuner: sc.Tuner | None = None,
    radius: float = 1.0,
    shape: tuple[int, ...] = SHAPE,
) -> Victim:
    noise = noise or sc.Noise("gaussian", 0.5)
    smoother = sc.Smoother(model or network(shape), noise, norm, tuner=tuner)
    x = torch.full(shape, 51 / 255)
    region = sc.Region(noise.center_of(x), noise.scale.numpy(), radius, norm)
    label = int(smoother.model(x[None]).argmax())
    certificate = sc.Certificate(label, sc.Bound(0.9, 0.001, 1000), region, sc.Soundness.GLOBAL)
    return Victim(certificate, smoother, x, 0, None, 1.0)


@pytest.mark.parametrize("tuner", [None, SmoothShift()])
def test_gradients_agree_with_finite_differences(tuner: sc.Tuner | None) -> None:
    """Of the mean over the same draws; with a tuner that has gradients they flow through its choice, too."""
    victim = victim_of(tuner=tuner)
    offset = np.random.default_rng(0).normal(size=(1, victim.dim)) * 0.1

    def loss(offset: np.ndarray) -> tuple[float, np.ndarray]:
        victim.begin("the same draws")
        value, slope = victim.gradients(offset, 64)
        return float(value[0]), slope[0]

    slope = loss(offset)[1]
    for direction in np.random.default_rng(1).normal(size=(5, victim.dim)):
        step = 3e-3 * direction
        difference = (loss(offset + step)[0] - loss(offset - step)[0]) / 2
        assert difference == pytest.approx(float(slope @ step), rel=0.02, abs=2e-5)


@pytest.mark.parametrize("grid", [None, 1 / 255])
@pytest.mark.parametrize("shift", [False, True])
def test_gradients_flow_through_a_learned_generator(grid: float | None, shift: bool) -> None:
    """Against finite differences of the same draws, which are rounded on the grid: there the slope is of the sum before."""
    torch.manual_seed(1)
    generator = Generator(design("per_input", shift=shift, width=4))
    for parameter in generator.parameters():
        parameter.data.mul_(3.0)  # so that the noise depends on the input
    smooth, rounded = (
        victim_of(tuner=sc.PerInput(generator), noise=sc.Noise("gaussian", 0.5, grid=each)) for each in (None, grid)
    )
    plain = victim_of(noise=sc.Noise("gaussian", 0.5))
    offset = np.random.default_rng(0).integers(-20, 20, size=(1, smooth.dim)) / 255

    def loss(victim: Victim, offset: np.ndarray) -> tuple[float, np.ndarray]:
        victim.begin("the same draws")
        value, slope = victim.gradients(offset, 256)
        return float(value[0]), slope[0]

    slope = loss(rounded, offset)[1]
    assert np.linalg.norm(slope - loss(plain, offset)[1]) > 0.02 * np.linalg.norm(slope)
    both = rounded.gradients(np.concatenate([offset, 0 * offset]), 16)[1]
    assert both.shape == (2, rounded.dim)
    for direction in np.random.default_rng(1).normal(size=(5, smooth.dim)):
        step = 3e-3 * direction
        difference = (loss(smooth, offset + step)[0] - loss(smooth, offset - step)[0]) / 2
        assert difference == pytest.approx(float(slope @ step), rel=0.03, abs=3e-5)


@pytest.mark.parametrize("name", DEFAULT)
@pytest.mark.parametrize(("law", "norm", "radius"), [("laplace", 1.0, 1.0), ("gaussian", 2.0, 0.05)])
def test_no_attack_stays_at_the_input_on_the_pixel_grid(name: str, law: str, norm: float, radius: float) -> None:
    """784 pixels share less than half a step each; the plane is weakest on the boundary, so each must come near it."""
    shape = (1, 28, 28)
    model = HalfSpace(torch.randn(784, generator=torch.Generator().manual_seed(0)), offset=3.0)
    victim = victim_of(norm, model=model, noise=sc.Noise(law, 0.1, grid=1 / 255), radius=radius / 0.1, shape=shape)
    assert victim.gauge(attack_named(name).find(victim, 2_000)) > 0.85 * victim.region.radius


@pytest.mark.parametrize("name", DEFAULT)
def test_regions_far_larger_than_a_picture_are_attacked(name: str) -> None:
    """Tuned noise can certify thousands of grey values; walks beyond the region go farther still."""
    victim = victim_of(noise=sc.Noise("gaussian", 500.0, grid=1 / 255), radius=4.0)
    offset = attack_named(name).find(victim, 1_000)
    assert victim.gauge(offset) <= 4.0
    judge(victim, name, offset, votes=200, alpha=0.001)


def test_logits_that_saturate_do_not_stop_the_gradient() -> None:
    """A half-space whose scores are 10 000 times as large has the same answers, and a softmax without slope in float32."""
    plane = HalfSpace(torch.randn(200, generator=torch.Generator().manual_seed(1)))
    x = 1.5 * plane.weight[None] / plane.weight.norm()
    for factor in (1.0, 1e4):
        smoother = sc.Smoother(lambda z, f=factor: f * plane(z), sc.Noise("gaussian", 1.0), estimate=20_000)
        [finding] = attack(smoother.certify(x), smoother, x, attacks=["projected_gradient"], times=1.15)
        assert finding.violated


def test_a_classifier_that_leaves_torch_is_attacked_without_gradients() -> None:
    def model(batch: torch.Tensor) -> torch.Tensor:
        score = batch.numpy().sum(axis=1)
        return torch.from_numpy(np.stack([-score, score], axis=1))

    smoother = sc.Smoother(model, sc.Noise("gaussian", 0.5), estimator="fixed", estimate=1_000)
    x = torch.ones(1, 3)
    certificates = smoother.certify(x)
    [finding] = attack(certificates, smoother, x, budget=300, votes=1_000, times=3.0)
    assert finding.violated
    assert not {"projected_gradient", "wasserstein"} & {attempt.attack for attempt in finding.attempts}
    with pytest.raises(sc.SmoothcertError, match="passes no gradient"):
        attack(certificates, smoother, x, attacks=["projected_gradient"])


def test_a_row_of_noise_per_input_is_no_predictor() -> None:
    noise = sc.Noise("gaussian", torch.full((3, 2), 0.5, dtype=torch.float64))
    smoother = sc.Smoother(HalfSpace(torch.ones(2)), noise, estimator="fixed", estimate=1_000)
    with pytest.raises(sc.SmoothcertError, match="a row for each input"):
        attack(smoother.certify(torch.ones(3, 2)), smoother, torch.ones(3, 2))


def test_projected_gradient_raises_the_loss_above_random_points() -> None:
    victim = victim_of()
    found = ProjectedGradient().find(victim, 4_000)
    random = victim.stretched(np.random.default_rng(0).normal(size=(50, victim.dim)))
    victim.begin("compare")
    at_found, _ = victim.gradients(found[None], 256)
    at_random, _ = victim.gradients(random, 256)
    assert at_found[0] > at_random.max() + 0.05


@pytest.mark.parametrize("name", DEFAULT)
@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, math.inf])
@pytest.mark.parametrize("kind", ["plain", "own scales", "grid", "flat"])
def test_whatever_an_attack_finds_is_legal(name: str, norm: float, kind: str) -> None:
    """In the region exactly, as the classifier gets it, and on the grid where there is one; and the budget is kept."""
    shape = (7,) if kind == "flat" else SHAPE
    scale = np.random.default_rng(3).uniform(0.2, 1.0, shape) if kind == "own scales" else 0.5
    noise = sc.Noise("gaussian", scale, grid=1 / 255 if kind == "grid" else None)
    victim = victim_of(norm, noise=noise, shape=shape)
    offset = attack_named(name).find(victim, 1_000)
    assert offset.shape == (victim.dim,)
    assert victim.evaluations < 3_500
    point = victim.points(offset[None])[0].double().numpy()
    if kind == "grid":
        steps = point * 255
        assert np.allclose(steps, np.rint(steps), atol=1e-4)
        point = np.rint(steps) / 255
    assert victim.region.contains(point)
    assert victim.gauge(offset) == victim.region.gauge(point)


@pytest.mark.parametrize("name", DEFAULT)
def test_every_attack_breaks_a_radius_three_times_too_large(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    model = HalfSpace(torch.randn(9, generator=generator))
    smoother = sc.Smoother(model, sc.Noise("gaussian", 0.5), estimator="fixed", estimate=2_000)
    x = 0.5 * model.weight[None] / model.weight.norm()
    [finding] = attack(smoother.certify(x), smoother, x, attacks=[name], budget=2_000, votes=2_000, times=4.0)
    assert finding.violated
    assert finding.attempts[-1].attack == "nearer"
    assert finding.worst.gauge / finding.radius < 1.0


def test_the_same_search_finds_the_same() -> None:
    for name in DEFAULT:
        first, second = (attack_named(name).find(victim_of(), 700) for _ in range(2))
        assert np.array_equal(first, second)


def test_a_flow_neither_makes_nor_loses_mass() -> None:
    random = np.random.default_rng(0)
    gain = moved(random.normal(size=(3, 4, 6)), random.normal(size=(3, 5, 5)))
    assert gain.shape == (3, 5, 6)
    assert np.allclose(gain.sum(axis=(1, 2)), 0)


def test_perlin_noise_is_zero_on_its_lattice_and_smooth() -> None:
    noise = perlin(9, 9, 4.0, np.random.default_rng(0))
    assert np.allclose(noise[::4, ::4], 0, atol=1e-12)
    assert np.abs(noise).max() > 0.1
    assert np.abs(np.diff(noise, axis=0)).max() < 0.5


def test_foolbox_attacks_in_units_of_scale() -> None:
    pytest.importorskip("foolbox", exc_type=ImportError)
    for norm, name in ((2.0, "foolbox:attack=L2PGD"), (math.inf, "foolbox:attack=LinfPGD")):
        noise = sc.Noise("gaussian", np.random.default_rng(3).uniform(0.2, 1.0, SHAPE))
        victim = victim_of(norm, noise=noise)
        offset = attack_named(name).find(victim, 3_000)
        assert victim.gauge(offset) <= victim.region.radius
        victim.begin("compare")
        at_found, _ = victim.gradients(offset[None], 256)
        at_input, _ = victim.gradients(np.zeros((1, victim.dim)), 256)
        assert at_found[0] > at_input[0] + 0.1
    with pytest.raises(sc.SmoothcertError, match="no attack 'L3PGD'"):
        attack_named("foolbox:attack=L3PGD")


def test_foolbox_draws_by_the_key_of_the_input_and_hides_no_error_of_the_model() -> None:
    pytest.importorskip("foolbox", exc_type=ImportError)
    found = []
    for seed in (0, 1):
        victim = victim_of()
        torch.manual_seed(seed)
        found.append(attack_named("foolbox:attack=L2PGD").find(victim, 1_000))
        assert torch.initial_seed() == seed
    assert np.array_equal(*found)

    def model(batch: torch.Tensor) -> torch.Tensor:
        if batch.requires_grad:
            raise ValueError("this model is broken")
        return torch.stack([-batch.sum(dim=(1, 2, 3)), batch.sum(dim=(1, 2, 3))], dim=1)

    with pytest.raises(sc.SmoothcertError, match="this model is broken"):
        attack_named("foolbox:attack=L2PGD").find(victim_of(model=model), 1_000)


def test_a_tuner_that_votes_pays_from_the_budget() -> None:
    """Hill climbing costs hundreds of evaluations a point: within a small budget it is asked once, at the input."""

    class Counting(sc.HillClimb):
        asked = 0

        def choose(self, smoother, x, start, indices):
            Counting.asked += len(x)
            return super().choose(smoother, x, start, indices)

    victim = victim_of(tuner=Counting(votes=100))
    for name in ("random", "projected_gradient"):
        attack_named(name).find(victim, 1_000)
        assert victim.evaluations < 2_500
    assert Counting.asked == 1
    victim.chosen(victim.x[None])  # as the verdict does
    assert Counting.asked == 2


def test_a_tuner_may_climb_by_gradients_of_its_own() -> None:
    """Also where the attack itself follows none; and the parameters of a generator leave no trace in the noise."""

    class Climbing(sc.Tuner):
        name, reads_input = "climbing", True
        weight = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))

        def choose(self, smoother, x, start, indices):
            scale = torch.ones((), dtype=torch.float64, requires_grad=True)
            (slope,) = torch.autograd.grad((scale * x.detach().double().sum()) ** 2, scale)
            return sc.Noise(start.law, (1.0 + self.weight + 0.0 * slope).expand(len(x), *[1] * (x.ndim - 1)))

    victim = victim_of(tuner=Climbing())
    for name in ("random", "projected_gradient"):
        attack_named(name).find(victim, 500)
    (noise,) = victim.chosen(victim.x[None])
    assert not noise.scale.requires_grad
