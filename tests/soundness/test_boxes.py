"""Uniform noise on inputs in a box: certificates against classifiers that flip exactly at the boxed radius.

200 inputs, 20 000 votes each, alpha = 0.001. More than 2 violations among 200 have probability
P(Binomial(200, 0.001) > 2) < 1.2e-3 if the rule is right (seeds are fixed, so the tests do not flicker).
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

import smoothcert as sc
from smoothcert.engine import Engine
from smoothcert.errors import InputError, SettingError
from smoothcert.laws import law_named
from smoothcert.maths.boxed import Box, boxed_radius
from smoothcert.noise import Noise
from smoothcert.radius import RadiusTarget, certified_radius, probability_for
from smoothcert.testing.problems import HalfSpace

INPUTS, VOTES, ALLOWED, DIM, WIDTH = 200, 20_000, 2, 12, 3.0


@dataclass(frozen=True, eq=False)
class Overlap:
    """Class 1 at zero with probability p under uniform noise of half-width ``WIDTH``, and ½ at ``corner``, if not before.

    It takes all of the cube around zero that the cube around the corner does not share, and as much of what they share as
    p asks for: by the theorem of Neyman and Pearson nobody loses more on the way.
    """

    p: float
    corner: Tensor

    def __call__(self, batch: Tensor) -> Tensor:
        z = batch.flatten(1).double()
        shared = ((z - self.corner).abs() <= WIDTH).all(dim=1)
        share = float(torch.prod(1 - self.corner / (2 * WIDTH)))
        # The last coordinate of the corner is zero: a slice of it cuts any share off what both cubes hold.
        part = (self.p - (1 - share)) / share
        own = (z.abs() <= WIDTH).all(dim=1)
        yes = own & (~shared | (z[:, -1] <= WIDTH * (2 * part - 1)))
        return torch.stack([~yes, yes], dim=1).float()


def worst(p: float) -> tuple[float, Tensor]:
    """The boxed radius at the corner zero of the box 0..1, in units of WIDTH, and the point at which it ends."""
    radius = float(boxed_radius(p, 1 - p, np.full(DIM, 1 / WIDTH)))
    left, corner = radius * WIDTH, torch.zeros(DIM, dtype=torch.float64)
    for at in range(DIM):
        corner[at] = min(1.0, left)
        left -= float(corner[at])
    return radius, corner


def smoothed(classifier: object, **settings: object) -> sc.Smoother:
    engine = Engine(block=2_000)
    noise = Noise("uniform", WIDTH, box=(0, 1))
    return sc.Smoother(classifier, noise, 1, estimator="fixed", estimate=VOTES, engine=engine, **settings)  # type: ignore[arg-type]


def test_no_certificate_exceeds_the_flip_of_the_worst_classifier() -> None:
    ratios, plain = [], []
    for index, p in enumerate(np.linspace(0.72, 0.96, INPUTS)):
        truth, corner = worst(p)
        (certificate,) = smoothed(Overlap(p, corner), seed=3, check=False).certify(torch.zeros(1, DIM), index)
        assert certificate.rule.startswith("uniform l1 in a box")
        assert certificate.region is not None
        ratios.append(certificate.region.radius / truth)
        plain.append((2 * certificate.bound.lower - 1) / truth)
    ratio = np.array(ratios)
    assert (ratio > 1).sum() <= ALLOWED
    assert np.median(ratio) >= 0.95
    assert (1.05 * ratio > 1).sum() > 20 * ALLOWED, "this test could not see a radius inflated by 5 %"
    assert np.mean(plain) < 0.95 * np.mean(ratio), "the box gives nothing here"


def test_the_worst_classifier_has_the_probabilities_it_claims() -> None:
    """Half of the votes at the corner, p at zero; within 5 standard deviations, so a false alarm is below 1e-6."""
    p = 0.9
    _, corner = worst(p)
    draws = torch.empty(200_000, DIM, dtype=torch.float64).uniform_(-WIDTH, WIDTH, generator=torch.manual_seed(1))
    for point, wanted in ((torch.zeros(DIM), p), (corner, 0.5)):
        found = float(Overlap(p, corner)(draws + point)[:, 1].mean())
        assert abs(found - wanted) < 5 * 0.5 / 200_000**0.5


class TestTheSpine:
    noise = Noise("uniform", WIDTH, grid=1 / 255, box=(0, 1))

    def test_inputs_are_clipped_before_the_noise(self) -> None:
        """A point outside gets the copies of the nearest point of the box, on and off the grid."""
        outside, nearest = torch.tensor([-0.6, 0.4, 2.0]), torch.tensor([0.0, 0.4, 1.0])
        for noise in (Noise("uniform", WIDTH, grid=1 / 255, box=(0, 1)), Noise("uniform", WIDTH, box=(0, 1))):
            drawn = torch.arange(6.0).reshape(2, 3)
            there, here = (noise.placer(x)(drawn, torch.empty_like(drawn)) for x in (outside, nearest))
            assert torch.equal(there, here)
            seeded = [noise.noisy(x[None], torch.Generator().manual_seed(0)) for x in (outside, nearest)]
            assert torch.equal(*seeded)
        free = Noise("uniform", WIDTH)
        assert not torch.equal(*(free.noisy(x[None], torch.Generator().manual_seed(0)) for x in (outside, nearest)))

    def test_predictions_outside_are_those_of_the_nearest_point(self) -> None:
        smoother = smoothed(HalfSpace(torch.eye(DIM)[0], offset=-0.5), seed=1)
        far = torch.zeros(1, DIM)
        far[0, 0] = -40.0
        near = far.clamp(0, 1)
        assert smoother.predict(far, votes=2_000) == smoother.predict(near, votes=2_000) == [0]
        assert smoother.predict(-far, votes=2_000) == smoother.predict((-far).clamp(0, 1), votes=2_000) == [1]

    def test_inputs_outside_are_not_certified(self) -> None:
        smoother = smoothed(HalfSpace(torch.eye(DIM)[0]), seed=1)
        for bad in (-0.01, 1.01):
            with pytest.raises(InputError, match=r"outside the box 0\.\.1"):
                smoother.certify(torch.full((1, DIM), bad))

    def test_tuned_noise_stays_in_the_box(self) -> None:
        assert self.noise.shaped(np.ones(3)).domain == self.noise.domain == "grid 1/255, clipped to 0..1"
        assert self.noise.row(0, (3,), 2) is self.noise
        rows = Noise("uniform", np.ones((2, 3)), grid=1 / 255, box=(0, 1))
        assert rows.row(0, (3,), 2).box == Box(0, 1)

    @pytest.mark.parametrize("box", [(1.0, 0.0), (0.0, float("nan")), (0.0, float("inf"))])
    def test_bad_boxes(self, box: tuple[float, float]) -> None:
        with pytest.raises(SettingError, match="must run from one finite number"):
            Noise("uniform", 1.0, box=box)

    def test_a_box_ends_on_the_grid(self) -> None:
        with pytest.raises(SettingError, match="must end on the grid of 1/255"):
            Noise("uniform", 1.0, grid=1 / 255, box=(0, 0.3))


class TestTargets:
    def test_stopping_aims_at_the_boxed_radius(self) -> None:
        target = RadiusTarget.of(law_named("uniform"), 1.0, 784, np.array(3.0), Box(0, 1))
        assert target.radius(0.9, 0.1) == pytest.approx(2.816, abs=6e-7)
        needed = target.probability(2.816)
        assert needed < probability_for(law_named("uniform"), 1.0, 784, 2.816 / 3)
        assert target.radius(needed) >= 2.816 > target.radius(needed - 1e-9)

    def test_a_narrow_law_gains_nothing_and_names_the_plain_theorem(self) -> None:
        target = RadiusTarget.of(law_named("uniform"), 1.0, 784, np.array(0.5), Box(0, 1))
        assert target.proved(sc.Bound(0.9, 0.001, 1000, 0.1)).rule.startswith("uniform l1 (Lee")

    def test_other_laws_keep_their_radius(self) -> None:
        for law in ("gaussian", "laplace"):
            free, boxed = (RadiusTarget.of(law_named(law), 1.0, 784, np.array(3.0), box) for box in (None, Box(0, 1)))
            assert free.radius(0.9) == boxed.radius(0.9)

    def test_each_coordinate_has_its_own_cap(self) -> None:
        """Scales 2 and 4: in units of scale the box is half and a quarter wide."""
        scale = np.array([2.0, *[4.0] * 7])
        target = RadiusTarget.of(law_named("uniform"), 1.0, 8, scale, Box(0, 1))
        found = target.proved(sc.Bound(0.9, 0.001, 1000, 0.1)).value
        assert found == float(boxed_radius(0.9, 0.1, Box(0, 1).widths(scale, 8))) == pytest.approx(0.75 + 6 / 35)

    def test_curves_know_the_box(self) -> None:
        found = certified_radius("uniform", 1, 0.9, 784, scale=3.0, box=Box(0, 1))
        assert found.lower == found.upper == pytest.approx(2.816, abs=6e-7)
        assert certified_radius("uniform", 1, 0.9, 784, scale=3.0).lower == pytest.approx(2.4)


def inside_the_cube(batch: Tensor) -> Tensor:
    """Class 1 in the cube of the noise around zero: sure there, and flipped wherever the cubes share less than half."""
    yes = (batch.flatten(1).abs() <= WIDTH).all(dim=1)
    return torch.stack([~yes, yes], dim=1).float()


def test_the_falsifier_breaks_the_cube_just_outside_and_never_inside() -> None:
    """The control: coordinates filled one by one flip it at 1.1 times the radius; inside nothing does (alpha 0.001 each)."""
    smoother = smoothed(inside_the_cube, seed=5, check=False)
    (certificate,) = smoother.certify(torch.zeros(1, DIM))
    assert certificate.radius > 3.8
    for times, violated in ((1.0, False), (1.1, True)):
        (finding,) = sc.attack([certificate], smoother, torch.zeros(1, DIM), attacks=["axes"], times=times)
        assert finding is not None
        assert finding.violated is violated
