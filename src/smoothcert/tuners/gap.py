"""The certified radius at unit scale as a differentiable function of probabilities, for any law with a theorem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smoothcert.errors import SettingError
from smoothcert.laws import Law, RadiusRule
from smoothcert.maths.geometry import shrinkage


@dataclass(frozen=True)
class Gap:
    """What a law's theorem gives in a norm, once the probabilities of the class and of its rival are known.

    >>> from smoothcert.laws import law_named
    >>> p = torch.tensor(0.9, requires_grad=True)
    >>> Gap.of(law_named("gaussian"), 2, 784)(p, 1 - p).backward()
    >>> round(float(p.grad), 4)  # 1/φ(Φ⁻¹(p))
    5.6981
    """

    rule: RadiusRule
    factor: float  # from the norm that the theorem speaks of to the norm asked for
    dim: int

    @classmethod
    def of(cls, law: Law, norm: float, dim: int) -> Gap:
        """The best theorem about the law in this norm, by its radius at p = 0.9."""
        gaps = [cls(rule, shrinkage(proved, norm, dim), dim) for proved, rule in law.radii.items()]
        if not gaps:
            raise SettingError(
                f"the law {law} has no theorem whose radius is a differentiable function of the probability, so its scale cannot "
                "be tuned by gradients; use gaussian, laplace, uniform or another log-concave law, or --method hill_climb, "
                "which needs votes only"
            )
        return max(gaps, key=lambda gap: gap.factor * float(gap.rule.radius(0.9, 0.1, dim)))

    def __call__(self, lower: Tensor, upper: Tensor) -> Tensor:
        """The radius at unit scale, with a gradient."""
        return self.factor * _Radius.apply(lower, upper, self.rule, self.dim)  # type: ignore[no-any-return, no-untyped-call]

    def of_margins(self, margins: Tensor, most: float, *, lost: bool = False) -> Tensor:
        """The radius at Φ(mean/deviation) of margins over their first axis, at most that at probability ``most``.

        It is what votes would give if margins were Gaussian; votes that agree would leave no gradient, margins do. Below a
        half it is the radius at 0.51, and has a gradient only if lost inputs are to find their way back.
        """
        margins = margins.double()
        p = torch.special.ndtr(margins.mean(0) / margins.std(0).clamp(min=1e-12)).clamp(max=most)
        least = p.clamp(min=0.51)
        p = p + (least - p).detach() if lost else least
        return self(p, 1.0 - p)


class _Radius(torch.autograd.Function):
    """A rule's radius forward, its slope backward."""

    @staticmethod
    def forward(ctx: Any, lower: Tensor, upper: Tensor, rule: RadiusRule, dim: int) -> Tensor:
        here, there = (p.detach().cpu().double().numpy() for p in (lower, upper))
        slopes = rule.slope(here, there, dim)
        ctx.save_for_backward(*(torch.as_tensor(slope).to(lower) for slope in slopes))
        return torch.as_tensor(rule.radius(here, there, dim)).to(lower)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None, None]:
        by_lower, by_upper = ctx.saved_tensors
        return grads[0] * by_lower, grads[0] * by_upper, None, None
