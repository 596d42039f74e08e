"""A classifier that looks for an atom of the noise at zero: a sampler with one would certify what is not so."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import smoothcert as sc
from smoothcert.laws.generalized_normal import GeneralizedNormal

DIM, NEAR = 784, 1e-4


def near_zero(batch: Tensor) -> Tensor:
    """Class 1 where a coordinate is within 1e-4 of zero."""
    yes = (batch.flatten(1).abs() < NEAR).any(dim=1)
    return torch.stack([~yes, yes], dim=1).float()


def certified(law: GeneralizedNormal) -> tuple[sc.Certificate, list[int | None]]:
    """The l1 certificate at the origin, and the answer at l1 distance 0.784 from it."""
    smoother = sc.Smoother(near_zero, sc.Noise(law, 1.0), norm=1, estimator="fixed", estimate=10_000, seed=0)
    [certificate] = smoother.certify(torch.zeros(1, DIM))
    return certificate, smoother.predict(torch.full((1, DIM), 1e-3))


def test_the_probability_is_that_of_the_density() -> None:
    """P(some |z_i| < 1e-4) is 0.077: class 0 wins, and its bound lies below its true probability (alpha 0.001)."""
    law = GeneralizedNormal(beta=20.0)
    truth = float(2.0 * law.tail(NEAR)) ** DIM
    assert truth == pytest.approx(1 - 0.077, abs=1e-3)
    certificate, answer = certified(law)
    assert certificate.label == 0
    assert truth - 0.02 < certificate.bound.lower <= truth
    assert answer == [0]


@dataclass(frozen=True)
class Underflowing(GeneralizedNormal):
    """gamma(1/20) in float32 is 0 for one number in 175."""

    def sample(self, shape, draws):
        z = draws.gamma(shape, 1.0 / self.beta)
        z[z < 1e-44] = 0.0
        z **= 1.0 / self.beta
        z *= draws.signs(shape)
        return z


def test_the_danger_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """With that sampler in float32 the other class is certified beyond 0.9, and it does not win at 0.784."""
    monkeypatch.setattr(sc.Noise, "sampling_dtype", torch.float32)
    certificate, answer = certified(Underflowing(beta=20.0))
    assert certificate.label == 1
    assert certificate.radius > 0.9
    assert answer == [0]
