"""An interval under attack: each end is a question with two answers, so every search and verdict of the house serves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from smoothcert.certificates import Certificate
from smoothcert.intervals import IntervalCertificate
from smoothcert.regions import Region
from smoothcert.regressor import SmoothedRegressor
from smoothcert.smoother import Smoother


class Beyond(nn.Module):
    """Class 1 where the number is beyond the end of an interval, class 0 where it is not: the median is, where 1 wins."""

    def __init__(self, model: nn.Module, end: float, sign: float) -> None:
        super().__init__()
        self.model, self.end, self.sign = model, end, sign
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        """The end and the number, mirrored where it is the lower end: (batch, 2)."""
        number = self.model(x)[:, 1]
        return self.sign * torch.stack([torch.full_like(number, self.end), number], dim=1)


def sides(
    certificate: IntervalCertificate, regressor: SmoothedRegressor
) -> Iterator[tuple[str, Certificate, Smoother]]:
    """Each finite end of each interval: its name, what is certified of it, and the classifier that is asked."""
    assert isinstance(certificate.region, Region)
    least = float(certificate.region.full_scale.min())
    for one in certificate.intervals:
        for name, end, sign in (("above", one.high, 1.0), ("below", one.low, -1.0)):
            if math.isfinite(end) and end != (regressor.bounds or (None, None))[sign > 0]:
                region = certificate.region.resized(one.radius / least)
                asked = Smoother(
                    Beyond(regressor.model, end, sign),
                    regressor.noise,
                    regressor.norm,
                    seed=regressor.seed,
                    engine=regressor.engine,
                    check=False,
                )
                yield (
                    f"within {one.radius:g} {name}",
                    Certificate(0, certificate.bound, region, certificate.soundness),
                    asked,
                )
