"""Certificates against the truth: half-spaces, whose smoothed version is known exactly; every law at its extremes.

200 inputs, 20 000 votes each, alpha = 0.001. More than 2 violations among 200 have probability
P(Binomial(200, 0.001) > 2) < 1.2e-3 if every rule is right (seeds are fixed, so the tests do not flicker).
"""

import math

import pytest
import torch

from smoothcert.engine import Engine
from smoothcert.laws import LAWS, Law
from smoothcert.noise import Noise
from smoothcert.seeds import Stage, draws_for
from smoothcert.smoother import Smoother
from smoothcert.testing.laws import at_the_ends
from smoothcert.testing.problems import HalfSpace

INPUTS, VOTES, ALLOWED, DIM = 200, 20_000, 2, 12


def ratios(classifier: HalfSpace, noise: Noise, x: torch.Tensor, norm: float, runtime: str = "torch") -> torch.Tensor:
    """Certified over true radius, in units of scale; an abstention counts as zero."""
    engine = Engine(block=2_000, runtime=runtime)
    smoother = Smoother(classifier, noise, norm=norm, estimator="fixed", estimate=VOTES, engine=engine, seed=3)
    regions = [certificate.region for certificate in smoother.certify(x)]
    certified = torch.tensor([0.0 if region is None else region.radius for region in regions], dtype=torch.float64)
    return certified / classifier.true_radius(x, noise, norm)


def assert_sound_and_tight(ratio: torch.Tensor) -> None:
    """No violation beyond the allowance, close to the truth, and able to see a radius inflated by 5 %."""
    violations = int((ratio > 1).sum())
    assert violations <= ALLOWED, f"{violations} of {len(ratio)} certificates exceed the true radius"
    assert float(ratio.median()) >= 0.95
    assert int((1.05 * ratio > 1).sum()) > 20 * ALLOWED, "this test could not see a radius inflated by 5 %"


def at_distance(noise: Noise, classifier: HalfSpace, norm: float, distances: torch.Tensor, seed: int) -> torch.Tensor:
    """Inputs whose true radius is the wanted distance: random points, moved along the weight."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(distances), DIM, generator=generator, dtype=torch.float64)
    weight = classifier.weight.double()
    scale = torch.broadcast_to(noise.scale, x.shape)
    dual = math.inf if norm == 1 else norm / (norm - 1)
    wanted = distances * torch.linalg.vector_norm(scale * weight, ord=dual, dim=1)
    margin = (x + noise.loc) @ weight + classifier.offset
    return (x + ((wanted - margin) / (weight @ weight))[:, None] * weight).float()


@pytest.mark.parametrize(
    "runtime", ["torch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("onnxruntime", "openvino"))]
)
def test_gaussian_ellipsoids_on_a_linear_classifier(runtime: str) -> None:
    if runtime != "torch":
        pytest.importorskip(runtime)
    generator = torch.Generator().manual_seed(1)
    scale = torch.rand(INPUTS, DIM, generator=generator, dtype=torch.float64) * 1.9 + 0.1
    noise = Noise("gaussian", scale, loc=torch.randn(DIM, generator=generator, dtype=torch.float64))
    classifier = HalfSpace(torch.randn(DIM, generator=generator), offset=0.3)
    x = at_distance(noise, classifier, 2, torch.linspace(0.6, 2.6, INPUTS, dtype=torch.float64), seed=2)
    assert_sound_and_tight(ratios(classifier, noise, x, 2, runtime))


@pytest.mark.parametrize(("law", "nearest", "farthest"), [("laplace", 0.4, 3.0), ("uniform", 0.3, 0.95)])
def test_l1_cross_polytopes_on_an_axis_aligned_classifier(law: str, nearest: float, farthest: float) -> None:
    generator = torch.Generator().manual_seed(4)
    scale = torch.rand(DIM, generator=generator, dtype=torch.float64) * 1.9 + 0.1
    weight = torch.zeros(DIM)
    weight[5] = 1.0
    noise, classifier = Noise(law, scale), HalfSpace(weight, offset=-0.2)
    x = at_distance(noise, classifier, 1, torch.linspace(nearest, farthest, INPUTS, dtype=torch.float64), seed=5)
    assert_sound_and_tight(ratios(classifier, noise, x, norm=1))


def test_converted_norms_never_exceed_the_truth() -> None:
    """Gaussian l∞ by conversion: sound, and tight for the diagonal plane, where Hölder is an equality."""
    noise, classifier = Noise("gaussian", 0.7), HalfSpace(torch.ones(DIM))
    x = at_distance(noise, classifier, 1e9, torch.linspace(0.2, 0.7, INPUTS, dtype=torch.float64), seed=6)
    assert_sound_and_tight(ratios(classifier, noise, x, norm=math.inf))


@pytest.mark.slow
@pytest.mark.parametrize("law", [law for kind in LAWS.values() for law in at_the_ends(kind)], ids=str)
@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("weights", ["axis", "diagonal"])
def test_no_law_exceeds_the_truth_at_its_extremes(law: Law, norm: float, weights: str) -> None:
    """40 inputs on both sides of the plane, at places where the label wins from 55 to 99.9 % of the votes.

    More than 2 violations among 40 have probability below 1e-5, below 1.1e-3 over all of these tests.
    """
    weight = torch.eye(DIM, dtype=torch.float64)[5] if weights == "axis" else torch.ones(DIM, dtype=torch.float64)
    classifier, noise = HalfSpace(weight), Noise(law, 1.0 / float(law.quantile(0.9)))
    drawn = noise.draw(100_000, (DIM,), draws_for(99, 0, Stage.TUNE, 0, dtype=noise.sampling_dtype)).double() @ weight
    margins = drawn.quantile(torch.cat([torch.linspace(0.001, 0.45, 20), torch.linspace(0.55, 0.999, 20)]).double())
    x = torch.randn(40, DIM, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    x += ((margins - x @ weight) / (weight @ weight))[:, None] * weight
    ratio = ratios(classifier, noise, x.float(), norm)
    assert int((ratio > 1).sum()) <= 2
    assert int((ratio > 0).sum()) > 20, "hardly anything was certified"
