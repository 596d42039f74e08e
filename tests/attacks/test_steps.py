"""Cascades under attack, through all their stages: nothing breaks inside what was certified, and what claims too much does."""

from dataclasses import replace

import pytest
import torch

import smoothcert as sc
from smoothcert.attacks.check import Effort
from smoothcert.attacks.over_run import attack_run
from smoothcert.data.guests import as_dataset
from smoothcert.store import InMemoryStore

QUICK = {"budget": 200, "votes": 4_000}


def shy(x):
    """Classes 0 and 1 on the two sides of a curve, and pass near it."""
    at = x[:, 0] + 0.3 * torch.sin(2 * x[:, 1])
    return torch.stack([at - 0.6, -at - 0.6, 0 * at], dim=1)


def bold(x):
    """Class 0 where the first stage passes on, and far into what it takes for class 1."""
    at = x[:, 0] + 0.2 * x[:, 2] + 1.5
    return torch.stack([at, -at], dim=1)


def cascade(**options):
    engine = sc.Engine(block=2_000)
    stages = [
        sc.Smoother(model, sc.Noise.isotropic("gaussian", sigma), estimate=4_000, engine=engine)
        for model, sigma in ((shy, 0.5), (bold, 0.25))
    ]
    return sc.Cascade(stages, (0.05, 0.0), **options)


def points(number):
    return torch.randn(number, 3, generator=torch.Generator().manual_seed(6))


@pytest.mark.slow
def test_no_certificate_of_a_hundred_breaks():
    x, whole = points(130), cascade()
    certificates = whole.certify(x)
    findings = [finding for finding in sc.attack(certificates, whole, x, **QUICK) if finding is not None]
    assert len(findings) >= 100
    assert not any(finding.violated for finding in findings)


def test_what_claims_too_much_breaks_and_what_holds_does_not():
    """All within chance: a sound certificate is called broken with probability 0.001."""
    x, whole, some = points(8), cascade(), {"attacks": ["projected_gradient", "axes"], **QUICK}
    certificates = whole.certify(x)
    held = sc.attack(certificates, whole, x, **some)
    far = sc.attack(certificates, whole, x, times=1.8, **some)
    assert not any(finding.violated for finding in held if finding)
    assert sum(finding.violated for finding in far if finding) >= 3
    tried = {attempt.attack.rpartition(" at ")[2] for finding in held if finding for attempt in finding.attempts}
    assert tried == {"stage 1", "stage 2"}


def test_the_wrong_label_breaks_where_it_stands():
    x, whole = torch.tensor([[2.0, 0.0, 0.0]]), cascade()
    [certificate] = whole.certify(x)
    [finding] = sc.attack([replace(certificate, label=1 - certificate.label)], whole, x, **QUICK)
    assert finding.violated


def test_a_run_is_attacked():
    data, store, effort = as_dataset(points(3)), InMemoryStore(), Effort(("random",), 200, 2_000)
    sc.certify_all(cascade(), data, store)
    findings = attack_run(cascade(), data, store, effort, limit=2)
    assert [finding.violated for finding in findings] == [False] * len(findings)
    assert len(findings) == 2


def test_the_margin_is_that_of_the_stage_that_answers():
    """400 votes leave open whether the first stage answers 0, so the second is asked too, which is sure of 1."""
    engine, x = sc.Engine(block=400), torch.tensor([[0.1, 0.0, 0.0]])

    def near(x):
        return torch.stack([x[:, 0], -x[:, 0]], dim=1)

    def sure(x):
        return torch.stack([-1 - x[:, 0].abs(), 1 + x[:, 0].abs()], dim=1)

    stages = [
        sc.Smoother(model, sc.Noise.isotropic("gaussian", sigma), estimate=400, engine=engine)
        for model, sigma in ((near, 0.5), (sure, 0.25))
    ]
    whole = sc.Cascade(stages, (0.05, 0.0))
    [certificate] = whole.certify(x)
    center = sc.Region(x[0].numpy(), 1.0, 1e-6, 2.0)
    claimed = replace(certificate, label=0, region=center)
    [finding] = sc.attack([claimed], whole, x, attacks=["random"], budget=200, votes=400)
    for attempt in finding.attempts:
        assert attempt.votes == 800
        assert attempt.margin == pytest.approx(
            0.16, abs=0.15
        )  # 2Φ(0.2) − 1, within three standard deviations of 400 votes
        assert not attempt.violated
