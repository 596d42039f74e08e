"""The falsifier finds what is breakable, and breaks nothing that is sound.

A sound certificate is called violated with probability at most alpha = 0.001 each, whatever the attacks do; seeds are
fixed, so the tests do not flicker.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.attacks.check import attack
from smoothcert.records.findings import allowance
from smoothcert.testing.leaks import LocLeak, NaiveGrid, ScaleLeak, outside
from smoothcert.testing.problems import HalfSpace, QuotientProbe, RoundingProbe

GRID = 1 / 255


@pytest.mark.parametrize(("model", "tuner"), [(HalfSpace(torch.ones(1)), LocLeak()), (outside, ScaleLeak())])
def test_noise_that_leaks_the_label_is_found_next_to_the_input(model, tuner) -> None:
    """Theory §3: certified to 3.8 (or 0.6·3) at x = 0.05 as frozen, and the deployed answer flips at 0.06."""
    smoother = sc.Smoother(model, sc.Noise("gaussian", 1.0), tuner=tuner, estimator="fixed", estimate=20_000)
    x = torch.tensor([[0.05]])
    [certificate] = smoother.certify(x)
    assert (certificate.label, certificate.soundness) == (1, sc.Soundness.FROZEN)
    assert certificate.radius > 1.0
    [finding] = attack([certificate], smoother, x)
    assert finding.violated
    assert 0.05 <= abs(float(finding.offset.item())) < 0.065
    assert certificate.region.contains(x[0].double().numpy() + finding.offset)


def inflated(certificates: list[sc.Certificate], factor: float) -> list[sc.Certificate]:
    return [replace(c, region=c.region.resized(c.region.radius * factor)) for c in certificates]


@pytest.mark.parametrize(
    ("law", "norm", "plain"), [("gaussian", 2, False), ("laplace", 1, False), ("gaussian", math.inf, True)]
)
def test_radii_inflated_by_a_tenth_are_found(law: str, norm: float, plain: bool) -> None:
    """On half-spaces, where certificates are tight: at least 90 % of them violated when inflated, none as they are."""
    number, dim = 10, 12
    generator = torch.Generator().manual_seed(2)
    scale = 0.7 if plain else torch.rand(dim, generator=generator, dtype=torch.float64) * 1.9 + 0.1
    # The plane where the rule is tight: any for Gaussian l2, along one axis in l1, along the diagonal in l∞.
    weight = {2: torch.randn(dim, generator=generator), 1: torch.eye(dim)[5]}.get(norm, torch.ones(dim))
    noise, model = sc.Noise(law, scale), HalfSpace(weight)
    x = torch.randn(number, dim, generator=generator)
    reach = torch.linalg.vector_norm(noise.scale * weight, ord={1: math.inf, 2: 2}.get(norm, 1))
    wanted = torch.linspace(1.4, 2.2, number) * (1.0 if norm != math.inf else dim**-0.5) * reach
    x = (x + ((wanted - x @ weight) / (weight @ weight))[:, None] * weight).float()
    smoother = sc.Smoother(model, noise, norm, estimator="fixed", estimate=50_000, engine=sc.Engine(block=1_000))
    certificates = smoother.certify(x)
    assert all(certificate.label == 1 for certificate in certificates)
    hard = {"attacks": ["projected_gradient"], "votes": 50_000, "budget": 1_500}
    broken = attack(inflated(certificates, 1.1), smoother, x, **hard)
    assert sum(finding.violated for finding in broken) >= 0.9 * number
    sound = attack(certificates, smoother, x, **hard)
    assert sum(finding.violated for finding in sound) <= allowance(sound)
    assert all(finding.worst.gauge <= c.region.radius for finding, c in zip(sound, certificates, strict=True))


@pytest.fixture(scope="module")
def home() -> torch.Tensor:
    """An 8-bit image, (1, 3, 32, 32)."""
    steps = torch.randint(0, 255, (1, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    return (steps / 255).float()


@pytest.mark.parametrize(
    ("probe", "noise"),
    [
        (RoundingProbe, sc.Noise.isotropic("gaussian", 0.5)),
        (QuotientProbe, NaiveGrid("gaussian", 0.5, grid=GRID)),
    ],
)
def test_noise_added_in_float32_is_found(home: torch.Tensor, probe: type, noise: sc.Noise) -> None:
    smoother = sc.Smoother(probe(home[0]), noise, estimator="fixed", estimate=1_000)
    certificates = smoother.certify(home)
    assert certificates[0].label == 1
    assert certificates[0].radius > 0.5
    [finding] = attack(certificates, smoother, home, budget=500, votes=1_000)
    assert finding.violated
    assert finding.soundness is sc.Soundness.GLOBAL


@pytest.mark.parametrize("probe", [RoundingProbe, QuotientProbe])
def test_noise_on_the_grid_is_not_broken_by_rounding(home: torch.Tensor, probe: type) -> None:
    noise = sc.Noise.isotropic("gaussian", 0.5, grid=GRID)
    smoother = sc.Smoother(probe(home[0]), noise, estimator="fixed", estimate=1_000)
    certificates = smoother.certify(home)
    [finding] = attack(certificates, smoother, home, budget=500, votes=1_000)
    assert not finding.violated
    steps = np.asarray(finding.offset) * 255
    assert np.allclose(steps, np.rint(steps), atol=1e-6)


def test_a_memory_that_was_not_rebuilt_is_found() -> None:
    """Settled regions are answered by look-up and cannot be broken; through an empty memory the leak shows again."""
    smoother = sc.Smoother(
        HalfSpace(torch.ones(1)), sc.Noise("gaussian", 1.0), tuner=LocLeak(), estimator="fixed", estimate=2_000
    )
    x = torch.tensor([[0.05], [-4.0], [6.0]])
    memory = sc.Memory()
    settled = [memory.settle(c, index=i) for i, c in enumerate(smoother.certify(x))]
    assert {certificate.soundness for certificate in settled} == {sc.Soundness.MEMORY}
    kept = attack(settled, smoother, x, memory=memory, budget=500)
    assert not any(finding.violated for finding in kept)
    assert all(attempt.votes == 0 for finding in kept for attempt in finding.attempts)  # no model call
    skipped = attack(settled, smoother, x, memory=sc.Memory(), budget=500)
    assert skipped[0].violated
    assert 0.05 <= abs(float(skipped[0].offset.item())) < 0.065


def test_a_memory_that_contradicts_itself_is_found() -> None:
    """Two promises of different labels that overlap, as if conflicts had not been settled: certain, without votes."""
    smoother = sc.Smoother(HalfSpace(torch.ones(1)), sc.Noise("gaussian", 1.0), estimator="fixed", estimate=2_000)
    x = torch.tensor([[1.0]])
    [certificate] = smoother.certify(x)
    memory = sc.Memory()
    memory.settle(replace(certificate, label=0, soundness=sc.Soundness.FROZEN))
    claimed = replace(certificate, soundness=sc.Soundness.MEMORY)
    [finding] = attack([claimed], smoother, x, memory=memory, budget=500)
    assert finding.violated
    assert finding.worst.votes == 0
