"""An option of every recipe: each training input has its own amount of noise, kept from epoch to epoch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.training.modes import answering
from smoothcert.training.noising import Noising, logits_of
from smoothcert.training.soft_radius import gap

CLAMP = 0.02  # as in the published scripts
STEP = 0.02
LIMITS = (0.5, 2.0)


def improved(model: nn.Module, x: Tensor, noising: Noising, factors: Tensor) -> Tensor:
    """The factors on the scale of each input, (batch,), after a step up the soft radius (Alfarra et al. 2022, Alg. 2).

    One iteration with one draw per epoch, as published. The step is on log σ, which keeps σ positive (published: 1e-4 on
    σ itself), and the factors stay within LIMITS, since a confident input would take ever more noise.
    """
    noise = noising.draw(x, 1).detach()
    middle = noising.loc.detach()
    logs = factors.log().requires_grad_()
    with answering(model):
        stretched = middle + (noise - middle) * logs.exp().view(-1, *[1] * (x.dim() - 1))
        votes = logits_of(model, x + stretched).softmax(-1)[0]
        radius = logs.exp() * gap(noising.law, votes, CLAMP)
        (slope,) = torch.autograd.grad(radius.sum(), logs)
    return (logs.detach() + STEP * slope).exp().clamp(*LIMITS)
