"""The searches: gradients against finite differences, every attack legal on every region, and able to find something."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.attacks import ATTACKS, attack_named
from smoothcert.attacks.check import attack
from smoothcert.attacks.procedural import perlin
from smoothcert.attacks.projected_gradient import ProjectedGradient
from smoothcert.attacks.victim import Victim
from smoothcert.attacks.wasserstein import moved
from smoothcert.testing.leaks import SmoothShift
from smoothcert.testing.problems import HalfSpace

SHAPE = (1, 6, 6)


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
    region = sc.Region(noise.center_of(x), noise.drawn_scale, radius, norm)
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


def test_projected_gradient_raises_the_loss_above_random_points() -> None:
    victim = victim_of()
    found = ProjectedGradient().find(victim, 4_000)
    random = victim.stretched(np.random.default_rng(0).normal(size=(50, victim.dim)))
    victim.begin("compare")
    at_found, _ = victim.gradients(found[None], 256)
    at_random, _ = victim.gradients(random, 256)
    assert at_found[0] > at_random.max() + 0.05


@pytest.mark.parametrize("name", ATTACKS)
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


@pytest.mark.parametrize("name", ATTACKS)
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
    for name in ATTACKS:
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
    for norm, name in ((2.0, "foolbox:L2PGD"), (math.inf, "foolbox:LinfPGD")):
        noise = sc.Noise("gaussian", np.random.default_rng(3).uniform(0.2, 1.0, SHAPE))
        victim = victim_of(norm, noise=noise)
        offset = attack_named(name).find(victim, 3_000)
        assert victim.gauge(offset) <= victim.region.radius
        victim.begin("compare")
        at_found, _ = victim.gradients(offset[None], 256)
        at_input, _ = victim.gradients(np.zeros((1, victim.dim)), 256)
        assert at_found[0] > at_input[0] + 0.1
    with pytest.raises(sc.SmoothcertError, match="no attack 'L3PGD'"):
        attack_named("foolbox:L3PGD")


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
