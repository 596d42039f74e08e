"""What every attack must pass: what it finds lies in the region, is found again, costs what it may, and breaks what breaks."""

from __future__ import annotations

import math

import numpy as np
import torch

from smoothcert.attacks import REGISTRY, Attack
from smoothcert.attacks.victim import Victim
from smoothcert.certificates import Certificate, Soundness
from smoothcert.engine import Engine
from smoothcert.estimators.bounds import Bound
from smoothcert.noise import Noise
from smoothcert.regions import Region
from smoothcert.smoother import Smoother
from smoothcert.testing.problems import HalfSpace
from smoothcert.testing.suite import Suite, reads_back

DIM = 12
PLACES = [(norm, grid) for norm in (1.0, 2.0, math.inf) for grid in (None, 1 / 255)]


class AttackSuite(Suite):
    """On a half-space, whose smoothed version is known."""

    budget = 1_000

    def victim(self, norm: float = 2.0, grid: float | None = None, radius: float = 1.0) -> Victim:
        """A certificate of this radius, in units of scale, at a distance of two from the plane in each norm."""
        scale = torch.linspace(0.1, 0.3, DIM, dtype=torch.float64)
        problem = HalfSpace(torch.linspace(0.2, 1.8, DIM) / DIM)
        noise = Noise("gaussian", scale, grid=grid)
        x = torch.zeros(1, DIM)
        reach = float(HalfSpace(problem.weight, offset=1.0).true_radius(x, noise, norm))
        problem = HalfSpace(problem.weight, offset=2.0 / reach)  # true radius two
        smoother = Smoother(problem, noise, norm=norm, estimate=1_000, engine=Engine(workers=1))
        region = Region(noise.center_of(x[0]), noise.scale.numpy(), radius, norm)
        certificate = Certificate(1, Bound(0.9, 0.001, 1_000), region, Soundness.GLOBAL)
        return Victim(certificate, smoother, x[0], 0, None, 1.0)

    def test_what_it_finds_lies_in_the_region(self, member: Attack) -> None:
        """In every norm, on and off the pixel grid."""
        for norm, grid in PLACES:
            victim = self.victim(norm, grid)
            offset = np.asarray(member.find(victim, self.budget))
            assert offset.shape == (DIM,), f"{member} gives an offset of shape {offset.shape}; it must be ({DIM},)"
            assert victim.gauge(offset) <= victim.region.radius, f"{member} leaves the region in l{norm:g}"

    def test_it_finds_the_same_again(self, member: Attack) -> None:
        """Its draws are the victim's, keyed by input and name."""
        first, second = (member.find(self.victim(), self.budget) for _ in range(2))
        assert np.array_equal(first, second), f"{member} finds something else at the second call"

    def test_it_keeps_to_its_budget(self, member: Attack) -> None:
        """Up to what the last round needs."""
        victim = self.victim()
        member.find(victim, self.budget)
        assert victim.evaluations <= 3 * self.budget, f"{member} used {victim.evaluations} of {self.budget} evaluations"

    def test_it_moves_towards_the_plane(self, member: Attack) -> None:
        """A region that reaches far beyond the plane is broken, or at least weakened."""
        victim = self.victim(radius=6.0)
        offset = member.find(victim, 2 * self.budget)
        here, there = victim.margins(np.stack([np.zeros(DIM), offset]), 400)
        assert there < here, (
            f"{member} does not weaken the label: its margin is {there:g} there and {here:g} at the input"
        )

    def test_its_text_reads_back(self, member: Attack) -> None:
        """As it would be written on the command line."""
        reads_back(member, REGISTRY)
