"""Intervals against the truth: linear functions, whose smoothed version is known exactly and which no function outruns.

200 inputs, 20 000 votes each, alpha = 0.001. More than 2 violations among 200 have probability
P(Binomial(200, 0.001) > 2) < 1.2e-3 if every rule is right (seeds are fixed, so the tests do not flicker).
"""

import numpy as np
import pytest
import torch

from smoothcert.engine import Engine
from smoothcert.noise import Noise
from smoothcert.regressor import SmoothedRegressor

INPUTS, VOTES, ALLOWED = 200, 20_000, 2
WEIGHTS = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
SCALE = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
# norm, scale, weights of the linear function, and how far its value moves within a gauge of 1: the dual norm of scale · weights
CASES = {
    "gaussian": (2.0, torch.tensor(0.5), WEIGHTS, float(0.5 * WEIGHTS.norm())),
    "gaussian, per coordinate": (2.0, SCALE, WEIGHTS, float((SCALE * WEIGHTS).norm())),
    "laplace": (1.0, torch.tensor(0.5), torch.tensor([0.0, 2.0, 0.0]).double(), 1.0),
    "uniform": (1.0, torch.tensor(0.5), torch.tensor([0.0, 2.0, 0.0]).double(), 1.0),
}


def ends(law, claimed, inputs):
    """The certified ends less the true value, in units of how far it moves within the radius of 0.8 gauge units."""
    norm, scale, weights, reach = CASES[law]
    gauge = 0.8
    regressor = SmoothedRegressor(
        lambda x: x.double() @ weights,
        Noise(law.partition(",")[0], scale),
        norm,
        radii=[claimed * gauge * float(scale.min())],
        estimate=VOTES,
        seed=5,
        engine=Engine(block=2_000),
    )
    x = torch.randn(inputs, 3, generator=torch.Generator().manual_seed(1))
    found = [certificate.intervals[0] for certificate in regressor.certify(x)]
    truth = (x.double() @ weights).numpy()
    return np.array([[one.low, one.high] for one in found]) / (gauge * reach) - truth[:, None] / (gauge * reach)


def violations(found):
    """Intervals that leave out a value which a perturbation of that size reaches; the truth is rounded to float32."""
    return int(((found[:, 0] > -1 + 1e-6) | (found[:, 1] < 1 - 1e-6)).sum())


@pytest.mark.parametrize(
    "law", [pytest.param(law, marks=[] if law == "gaussian" else pytest.mark.slow) for law in CASES]
)
def test_intervals_hold_and_are_close(law):
    inputs = INPUTS // 2 if law == "gaussian" else INPUTS  # the fast suite has less time
    found = ends(law, 1.0, inputs)
    assert violations(found) <= ALLOWED
    assert np.median(found[:, 1] - found[:, 0]) <= 2 * 1.06
    assert violations(ends(law, 0.95, inputs)) > 20 * ALLOWED, "this test could not see radii inflated by 5 %"
