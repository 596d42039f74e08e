"""Networks of any precision, of another shape, and of no numbers at all: certified, or refused in words."""

import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.errors import ModelError


def certified(model: nn.Module) -> list[sc.Certificate]:
    smoother = sc.Smoother(model.eval(), sc.Noise.isotropic("gaussian", 0.1), estimate=200, engine=sc.Engine(block=50))
    return smoother.certify(torch.ones(2, 1, 4, 4))


def network() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        model[1].weight.copy_(torch.eye(3, 16) * torch.tensor([[3.0], [1.0], [1.0]]))
        model[1].bias.zero_()
    return model


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_any_precision(dtype: torch.dtype) -> None:
    plain, other = certified(network()), certified(network().to(dtype))
    assert [c.label for c in other] == [c.label for c in plain] == [0, 0]
    assert [c.radius for c in other] == pytest.approx([c.radius for c in plain], abs=0.05)


def test_another_shape_is_named() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(
        ModelError, match=r"batch of shape \(50, 1, 4, 4\).*\[4, 3, 3, 3\].*inputs of shape \(1, 4, 4\)"
    ):
        certified(model)


def test_nothing_but_nan_is_said() -> None:
    model = network()
    model[1].bias.data.fill_(torch.nan)  # type: ignore[union-attr, operator]
    with pytest.warns(UserWarning, match="answered NaN to every noisy copy"):
        found = certified(model)
    assert [c.label for c in found] == [None, None]
