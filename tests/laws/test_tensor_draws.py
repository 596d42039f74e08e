"""The samplers give the same laws on tensors, in both precisions (false-alarm rate 1e-6 a law)."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from smoothcert.laws import law_named
from smoothcert.seeds import Stage, TorchDraws, draws_for
from smoothcert.testing.laws import EXAMPLES, FALSE_ALARM


def _follows(law, sample: torch.Tensor) -> None:
    assert bool(sample.isfinite().all())
    values = sample.double().numpy().ravel()
    assert kstest(values, lambda z: 1.0 - np.asarray(law.tail(z))).pvalue > FALSE_ALARM


@pytest.mark.parametrize("spec", EXAMPLES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keyed_draws(spec: str, dtype: torch.dtype) -> None:
    law = law_named(spec)
    sample = law.sample((500, 3, 4), draws_for(7, 0, Stage.ESTIMATE, 0, dtype=dtype))
    assert sample.dtype == dtype
    assert sample.shape == (500, 3, 4)
    _follows(law, sample)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_torch_draws(spec: str) -> None:
    law = law_named(spec)
    draws = TorchDraws(torch.Generator().manual_seed(3), torch.float32, "cpu")
    _follows(law, law.sample((6000,), draws))
