"""The certified radius as a smooth function of class probabilities, to be climbed in training; never a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.laws import Law


class _Quantile(torch.autograd.Function):
    """F⁻¹(p) of one coordinate of a law, with its slope 1/φ(F⁻¹(p))."""

    @staticmethod
    def forward(context: Any, p: Tensor, law: Law) -> Tensor:
        z = np.asarray(law.quantile(p.detach().cpu().double().numpy()))
        context.save_for_backward(torch.as_tensor(np.exp(-law.log_prob(z))).to(p))
        return torch.as_tensor(z).to(p)

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        (slope,) = context.saved_tensors
        return slopes[0] * slope, None


def gap(law: Law, probabilities: Tensor, clamp: float) -> Tensor:
    """F⁻¹(p_A) − F⁻¹(p_B) for the two most probable classes, (batch,), from (batch, classes).

    Half of it, times the scale, is the Gaussian's l2 radius and the l1 radius of any log-concave law. Probabilities are
    kept ``clamp`` away from 0 and 1, where the slope is zero.

    >>> from smoothcert.laws import law_named
    >>> gap(law_named("gaussian"), torch.tensor([[0.9, 0.1]], dtype=torch.float64), clamp=0.001)
    tensor([2.5631], dtype=torch.float64)
    """
    top = probabilities.topk(2, dim=-1).values.clamp(clamp, 1 - clamp)
    z: Tensor = _Quantile.apply(top, law)  # type: ignore[no-untyped-call]
    return z[:, 0] - z[:, 1]
