"""Intervals under attack: none breaks inside what was certified, and one that claims too much does."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.attacks.check import Effort
from smoothcert.attacks.over_run import attack_run
from smoothcert.data.guests import as_dataset
from smoothcert.errors import InputError
from smoothcert.store import InMemoryStore

DIM = 6
X = torch.randn(40, DIM, generator=torch.Generator().manual_seed(3))
QUICK = {"budget": 300, "votes": 4_000}


def network():
    """A number that is far from linear."""
    generator, layers = torch.Generator().manual_seed(4), [nn.Linear(DIM, 32), nn.Linear(32, 1)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator))
            layer.bias.zero_()
    return nn.Sequential(layers[0], nn.Tanh(), layers[1]).eval()


def smoothed(radii=(0.1, 0.25, 0.5), **options):
    return sc.SmoothedRegressor(
        network(), sc.Noise.isotropic("gaussian", 0.5), radii=radii, **{"estimate": 4_000} | options
    )


@pytest.mark.slow
def test_no_interval_of_a_hundred_breaks():
    regressor = smoothed()
    findings = sc.attack(regressor.certify(X), regressor, X, **QUICK)
    assert sum(len(c.intervals) for c in regressor.certify(X)) == 120
    assert not any(finding.violated for finding in findings)
    assert min(finding.worst.margin for finding in findings) < 0.3  # the attacks get somewhere


def test_an_interval_that_claims_too_much_breaks():
    """The same intervals, said to hold twice as far: most break, and at their own radius none does (alpha 0.001 each)."""
    regressor = smoothed(radii=(0.2,))
    certificates = regressor.certify(X[:4])
    inflated = [
        replace(c, intervals=(replace(c.intervals[0], radius=0.4),), region=c.region.resized(0.8)) for c in certificates
    ]
    held, broken = (sc.attack(each, regressor, X[:4], **QUICK) for each in (certificates, inflated))
    assert not any(finding.violated for finding in held)
    assert sum(finding.violated for finding in broken) >= 2
    assert {attempt.attack.split(" within")[1] for finding in held for attempt in finding.attempts} == {
        " 0.2 above",
        " 0.2 below",
    }
    assert all(finding.alpha == 0.001 for finding in held)


def test_a_run_is_attacked_once_and_tells_what_came_of_it():
    data, store, effort = as_dataset(X[:3]), InMemoryStore(), Effort(("random",), 200, 500)
    sc.certify_all(smoothed(), data, store)
    first = attack_run(smoothed(), data, store, effort, limit=2)
    assert [(finding.index, finding.label, finding.violated) for finding in first] == [
        (0, None, False),
        (1, None, False),
    ]
    again = attack_run(smoothed(), data, store, effort, limit=2)
    assert [finding.to_json("") for finding in again] == [finding.to_json("") for finding in first]
    assert len(list(store.findings())) == 2


def test_what_has_no_end_is_not_attacked():
    regressor = smoothed(radii=(1.5,), estimate=20, bounds=(-1, 1))
    with pytest.raises(InputError, match="infinite or ends where answers are clipped"):
        sc.attack(regressor.certify(X[:1]), regressor, X[:1])
    classes = sc.Smoother(lambda x: x, sc.Noise.isotropic("gaussian", 0.5), estimate=1_000).certify(
        9 * torch.eye(6)[:1]
    )
    with pytest.raises(InputError, match="has no intervals"):
        sc.attack(classes, smoothed(), 9 * torch.eye(6)[:1])
