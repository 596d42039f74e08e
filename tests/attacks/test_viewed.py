"""The falsifier of views: sound certificates hold, and one place, pixel or step more than proved is found."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor

import smoothcert as sc
from smoothcert.attacks.candidates import candidates
from smoothcert.certificates import Soundness
from smoothcert.data import load
from smoothcert.errors import SettingError
from smoothcert.regions import Region
from smoothcert.threats import ReplacedRegion, threat_named
from smoothcert.views import view_named

PICTURES = torch.randint(0, 256, (12, 1, 7, 7), generator=torch.Generator().manual_seed(0)) / 255
KINDS = [
    ("splitting:lam=0.2", {"norm": 1}),
    ("bands:width=2,hidden=0", {"threat": "patch:2"}),
    ("blocks:side=2,hidden=0", {"threat": "patch:2"}),
    ("ablation:keep=2,ask=all,hidden=0", {"norm": 0}),
]


def network(seed: int = 3) -> torch.nn.Module:
    """A classifier whose answers differ between views and inputs."""
    torch.manual_seed(seed)
    first, last = torch.nn.Linear(49, 16, bias=False), torch.nn.Linear(16, 3)
    first.weight.data *= 6
    return torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.Tanh(), last).eval()


def marks(x: Tensor) -> Tensor:
    """Class 1 where any number that is shown is one, else class 0; as good as no gradient."""
    found = (x.flatten(1) == 1).any(1).float()
    return torch.stack([1 - found, found], dim=1) + 0 * x.flatten(1).sum(1, keepdim=True)


@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
@pytest.mark.parametrize(("spec", "against"), KINDS)
def test_sound_certificates_hold_and_larger_claims_break(spec: str, against: dict) -> None:
    """Exact verdicts, so no allowance: none of the certificates is violated, and far larger claims are."""
    smoothed = sc.Smoother(network(), view_named(spec), **against)
    certificates = smoothed.certify(PICTURES)
    assert sum(c.radius > 0 for c in certificates) >= 1
    findings = sc.attack(certificates, smoothed, PICTURES, budget=600)
    assert not any(finding.violated for finding in findings)
    assert all(finding.alpha == 0 and finding.chance == 0 for finding in findings)
    claims = [replace(c, region=_inflated(c.region)) for c in certificates]
    assert any(finding.violated for finding in sc.attack(claims, smoothed, PICTURES, budget=600))


def _inflated(region: Region | ReplacedRegion) -> Region | ReplacedRegion:
    if isinstance(region, Region):
        return region.resized(region.radius + 30.0)
    return ReplacedRegion(region.center, region.threat.resized(7 if region.threat.name == "patch" else 25))


@pytest.mark.parametrize(
    ("view", "shape", "against"),
    [
        ("bands:width=4", (1, 28, 28), {"threat": "patch:5"}),
        ("blocks:side=3", (9, 9), {"threat": "patch:1"}),
        ("ablation:keep=2,ask=all", (9,), {"norm": 0}),
        ("chunks:length=3", (30,), {"threat": "span:1"}),
    ],
)
def test_one_more_is_found(view: str, shape: tuple[int, ...], against: dict) -> None:
    """The classifiers whose certified size is known: it holds there, and is broken by one more."""
    smoothed = sc.Smoother(marks, view_named(view), **against)
    x = torch.zeros(1, *shape)
    certificates = smoothed.certify(x)
    (held,) = sc.attack(certificates, smoothed, x, budget=2000)
    assert not held.violated
    (beyond,) = sc.attack(certificates, smoothed, x, budget=2000, times=1.01)
    assert beyond.violated
    assert beyond.worst.votes == view_named(view).count(shape)


DIGITS = [
    ("bands:width=3,hidden=0", {"threat": "patch:2"}, (1, 28, 28)),
    ("blocks:side=8,hidden=0", {"threat": "patch:2"}, (28, 28)),
    ("ablation:keep=1,ask=all,hidden=0", {"norm": 0}, (1, 28, 28)),
    ("chunks:length=28,hidden=0", {"threat": "span:2"}, (784,)),
]


def templates(x: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    """The class whose mean picture fits best what is shown."""
    means = torch.stack([x[y == label].flatten(1).mean(0) for label in range(10)])
    weights, bias = means - means.mean(0), -0.01 * (means**2).sum(1)
    return lambda seen: 4 * (seen.flatten(1) @ weights.T + bias)


@pytest.mark.slow
@pytest.mark.parametrize(("view", "against", "shape"), DIGITS)
def test_two_hundred_certificates_of_each_kind_hold(view: str, against: dict, shape: tuple[int, ...]) -> None:
    """Embedded digits and a rough classifier. The certificates are exact, and so are the verdicts: there is no allowance."""
    dataset = load("digits", split="train")
    x, y = torch.from_numpy(dataset.inputs(range(900))), torch.tensor(dataset.truths(range(900)))
    _hold(sc.Smoother(templates(x, y), view_named(view), **against), x.reshape(900, *shape))


@pytest.mark.slow
def test_two_hundred_certificates_of_splitting_hold() -> None:
    """Four numbers on the grid, whose sum decides; exact, as above."""

    def large(x: Tensor) -> Tensor:
        lead = x.flatten(1).sum(1) - 2
        return torch.stack([-lead, lead], dim=1)

    x = torch.randint(0, 256, (400, 1, 2, 2), generator=torch.Generator().manual_seed(1)) / 255
    _hold(sc.Smoother(large, view_named("splitting:lam=0.5"), norm=1), x)


def _hold(smoothed: sc.Smoother, inputs: Tensor) -> None:
    """200 certificates of some size: searches take votes from more than half of them, and break none."""
    every = smoothed.certify(inputs)
    chosen = [at for at, certificate in enumerate(every) if certificate.radius > 0][:200]
    certificates = [every[at] for at in chosen]
    findings = sc.attack(certificates, smoothed, inputs[chosen], budget=240)
    assert len(findings) == 200
    assert all(finding.alpha == 0 for finding in findings)
    assert sum(finding.violated for finding in findings) == 0
    pairs = zip(findings, certificates, strict=True)
    assert sum(found.worst.p_label < given.bound.lower for found, given in pairs) > 100


def test_sampled_views_are_judged_by_fresh_votes() -> None:
    smoothed = sc.Smoother(marks, view_named("ablation:keep=5"), norm=0, estimator="fixed", estimate=2000)
    x = torch.zeros(1, 1, 7, 7)
    (certificate,) = smoothed.certify(x)
    (held,) = sc.attack([certificate], smoothed, x, budget=600, votes=2000)
    assert not held.violated
    assert held.alpha == 0.001
    (beyond,) = sc.attack([certificate], smoothed, x, budget=600, votes=2000, times=3.0)
    assert beyond.violated


def test_points_stay_inside_and_use_the_budget() -> None:
    chance, slope = np.random.default_rng(0), np.random.default_rng(1).normal(size=(2, 6, 6))
    center = np.rint(chance.random((2, 6, 6)) * 255) / 255
    for region in (
        *(ReplacedRegion(center, threat_named(each)) for each in ("patch:2", "l0:3", "patch:0", "l0:0")),
        Region(center, np.array(0.5), 1.7, norm=1.0),
        Region(center, np.where(slope > 0, 0.5, 1.0), 0.8, norm=1.0),
    ):
        for name, points in candidates(region, 255, slope, chance).items():
            for point in islice(points, 30):
                assert region.contains(point), name
    largest = max(region.gauge(p) for p in islice(candidates(region, 255, slope, chance)["pixels"], 20))
    assert largest > 0.99 * region.radius


def test_attacks_under_noise_are_for_noise() -> None:
    smoothed = sc.Smoother(marks, view_named("bands:width=1"), threat="patch:1")
    x = torch.zeros(1, 1, 5, 5)
    with pytest.raises(SettingError, match="name none"):
        sc.attack(smoothed.certify(x), smoothed, x, attacks=["square"])
    (certificate,) = smoothed.certify(x)
    with pytest.raises(SettingError, match="memory"):
        sc.attack([replace(certificate, soundness=Soundness.MEMORY)], smoothed, x, memory=sc.Memory())
