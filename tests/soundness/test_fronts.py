"""Certificates behind a front against half-spaces whose distance is known in every norm, and a classifier of rounding.

200 inputs, 20 000 votes each, alpha = 0.001. More than 2 violations among 200 have probability
P(Binomial(200, 0.001) > 2) < 1.2e-3 if all is right (seeds are fixed, so the tests do not flicker).
"""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.fronts import Covariance, Ground
from smoothcert.linear import LinearMap, LinearRegion
from smoothcert.maths.boxed import Box
from smoothcert.models.decoding import Decoding
from smoothcert.testing.problems import HalfSpace

INPUTS, VOTES, ALLOWED, DIM = 200, 20_000, 2, 10
CHANCE = np.random.default_rng(5)
MATRIX = CHANCE.normal(size=(4, DIM)) * np.array([[0.3], [0.6], [0.2], [0.4]])  # neither orthogonal nor of length one
SCALE = np.array([0.05, 0.1, 0.08, 0.06])
FRONT = sc.Front(MATRIX, CHANCE.uniform(0.3, 0.7, DIM), box=Box(0, 1))
DUALS = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


class Plane(nn.Module):
    """A half-space as a module, for a network that decodes."""

    def __init__(self, weight: Tensor, offset: float) -> None:
        super().__init__()
        self.weight, self.offset = nn.Parameter(weight), offset

    def forward(self, x: Tensor) -> Tensor:
        return HalfSpace(self.weight, self.offset)(x)


def worst(p: float) -> np.ndarray:
    """The unit vector of l_p that U/scale stretches most: a coordinate, the first singular vector, or signs."""
    stretched = MATRIX / SCALE[:, None]
    if p == 2:
        return np.asarray(np.linalg.svd(stretched)[2][0])
    corners = np.eye(DIM) if p == 1 else np.array(list(itertools.product([-1.0, 1.0], repeat=DIM)))
    return np.asarray(corners[np.linalg.norm(corners @ stretched.T, axis=1).argmax()])


def certified(model: nn.Module, scale: np.ndarray | float, front: sc.Front, x: np.ndarray) -> list[sc.Certificate]:
    """What VOTES votes prove of each input."""
    noise, engine = sc.Noise("gaussian", scale), Engine(block=2_000)
    smoother = sc.Smoother(model, noise, front=front, estimator="fixed", estimate=VOTES, seed=7, engine=engine)
    return smoother.certify(torch.from_numpy(x))


@pytest.mark.parametrize(
    "p", [pytest.param(1.0, marks=pytest.mark.slow), 2.0, pytest.param(math.inf, marks=pytest.mark.slow)]
)
def test_no_ball_exceeds_the_distance_to_the_plane(p: float) -> None:
    towards = worst(p)
    weight = (MATRIX @ towards) / SCALE**2  # the plane that this direction meets first, as the noise measures it
    plane = HalfSpace(torch.from_numpy(weight), offset=-float(weight @ (MATRIX @ (0.5 - FRONT.offset))))
    gauges = np.linspace(0.3, 1.6, INPUTS)  # of the inputs, before the plane
    unit = np.linalg.norm(MATRIX @ towards / SCALE)
    x = (0.5 + gauges[:, None] / unit * towards).astype(np.float32)
    found = certified(plane, SCALE, FRONT, x)
    margins = np.abs((x.astype(float) - FRONT.offset) @ MATRIX.T @ weight + plane.offset)
    truth = margins / np.linalg.norm(MATRIX.T @ weight, ord=DUALS[p])
    ratio = np.array([c.region.inner_radius_in(p) for c in found if c.region is not None]) / truth
    assert all(c.soundness == "global" for c in found)
    assert (ratio > 1).sum() <= ALLOWED
    assert np.median(ratio) >= (0.95 if p <= 2 else 0.9)
    assert ((1.05 if p <= 2 else 1.15) * ratio > 1).sum() > 20 * ALLOWED, "this test could not see an inflated radius"
    # Points beyond every ball, and still certified: the region itself.
    region = found[INPUTS // 2].region
    blind = np.linalg.svd(MATRIX)[2][-1]
    assert region.contains(region.center + 0.4 * blind / np.abs(blind).max())


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_noise_of_a_covariance_stops_at_the_plane(whole: bool, tmp_path: Path) -> None:
    """The plane of inputs is met first along Σw, at a gauge of |margin|/√(wᵀΣw); the network gets inputs with such noise."""
    deviations, factors = CHANCE.uniform(0.05, 0.1, DIM), CHANCE.normal(0, 0.05, size=(DIM, 2))
    sigma = np.diag(deviations**2) + factors @ factors.T
    file = tmp_path / ("sigma.npy" if whole else "sigma.npz")
    np.save(file, sigma) if whole else np.savez(file, deviations=deviations, factors=factors)
    weight, gauges = CHANCE.normal(size=DIM).astype(np.float32), np.linspace(0.3, 1.6, INPUTS)
    deviation = math.sqrt(weight @ sigma @ weight)
    x = (0.5 + gauges[:, None] / deviation * (sigma @ weight)).astype(np.float32)
    front = Covariance(str(file)).make(Ground(ArrayDataset("flat", x), lambda: ArrayDataset("flat", x), Box(0, 1)))
    plane = Plane(torch.from_numpy(weight), offset=-0.5 * float(weight.sum()))
    found = certified(Decoding(front, plane).eval(), 1.0, front, x)
    truth = np.abs(x.astype(float) @ weight.astype(float) + plane.offset) / deviation
    ratio = np.array([c.region.radius for c in found if c.region is not None]) / truth
    assert all(c.soundness == "global" for c in found)
    assert (ratio > 1).sum() <= ALLOWED
    assert np.median(ratio) >= 0.95
    assert (1.05 * ratio > 1).sum() > 20 * ALLOWED, "this test could not see an inflated radius"
    region = next(c.region for c in found if c.region is not None)
    reached = np.sqrt(np.sum(np.linalg.solve(sigma, (x[1] - x[0]).astype(float)) * (x[1] - x[0])))
    assert region.gauge(region.center + (x[1] - x[0])) == pytest.approx(reached, rel=1e-6)
    assert region.proxy_radius == pytest.approx(region.radius * np.linalg.det(sigma) ** (0.5 / DIM))


def test_rounding_sets_inputs_apart_that_the_matrix_does_not() -> None:
    """It reads whether rint(z/step) is even, and two inputs a millionth apart lie on two sides of a half."""
    front = sc.Front(np.eye(1, 3), box=Box(0, 1), levels=64)

    def parity(batch: torch.Tensor) -> torch.Tensor:
        even = (batch[:, 0] * 64).round() % 2 == 0
        return torch.stack([even, ~even], dim=1).float()

    noise = sc.Noise("gaussian", 0.25 / 64)
    smoother = sc.Smoother(parity, noise, front=front, estimator="fixed", estimate=2_000)
    x = torch.tensor([[20.5 / 64 - 1e-6, 0.3, 0.3], [20.5 / 64 + 1e-6, 0.3, 0.3]])
    here, there = smoother.certify(x)
    assert here.label != there.label
    assert here.region is not None
    assert not here.region.contains(x[1].double().numpy())


@pytest.mark.parametrize("broken", ["", "orthonormal rows", "radius"])
def test_the_falsifier_finds_a_wrong_region(broken: str) -> None:
    """Rows taken for orthonormal, and a radius half as large again; sound ones are called broken with probability 0.001 each."""
    rows = CHANCE.normal(size=(3, DIM))
    front = sc.Front(3 * rows / np.linalg.norm(rows, axis=1, keepdims=True), 0.5, box=Box(-10, 10))
    plane = HalfSpace(torch.tensor([1.0, -0.5, 2.0]), offset=1.0)
    settings = {"estimator": "fixed", "estimate": 4_000, "engine": Engine(block=1_000)}
    smoother = sc.Smoother(plane, sc.Noise("gaussian", 0.5), front=front, **settings)
    x = torch.full((3, DIM), 0.5)
    found = smoother.certify(x)
    assert all(c.region is not None for c in found)
    if broken == "radius":
        found = [replace(c, region=c.region.resized(1.5 * c.region.radius)) for c in found]
    elif broken:
        wrong = LinearMap(front.matrix / np.linalg.norm(front.matrix, axis=1, keepdims=True) / 0.5)
        found = [replace(c, region=LinearRegion(c.region.center, wrong, c.region.radius, 2)) for c in found]
    verdicts = [each.violated for each in sc.attack(found, smoother, x, budget=600, votes=4_000)]
    assert verdicts == [bool(broken)] * 3
