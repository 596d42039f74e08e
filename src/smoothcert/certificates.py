"""Step 6: the certificate, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module

import numpy as np

from smoothcert.estimators import Plan, check_votes, estimator_of
from smoothcert.estimators.bounds import Bound
from smoothcert.laws import Law
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import round_down
from smoothcert.radius import RadiusTarget, proved_radius
from smoothcert.regions import Region
from smoothcert.votes import Votes


class Soundness(StrEnum):
    """What may be said of a certificate, strongest first; of several reasons the weakest wins."""

    GLOBAL = "global"  # the deployed classifier is constant on the region, except with probability alpha
    MEMORY = "memory"  # every later query through the same memory gets this label inside the region
    FROZEN = "frozen"  # true of the classifier with its noise frozen at this input; not of the deployed one
    ESTIMATE = "estimate"  # a search, a simulation or an unchecked classifier stands where a proof should
    IMPORTED = "imported"  # what the author of a log says


def weakest(labels: Iterable[Soundness]) -> Soundness:
    """The label of something that rests on all of these.

    >>> weakest([Soundness.GLOBAL, Soundness.FROZEN]).value
    'frozen'
    """
    order = list(Soundness)
    return max(labels, key=order.index)


@dataclass(frozen=True)
class Certificate:
    """Inside region the smoothed classifier answers label; an abstention has label None, region None, radius 0.0."""

    label: int | None
    bound: Bound
    region: Region | None
    soundness: Soundness
    rule: str = ""

    def __repr__(self) -> str:
        worth = f"{self.soundness.value}, p >= {round_down(self.bound.lower, 4)}"
        if self.label is None or self.region is None:
            return f"Certificate(abstains, {worth})"
        return f"Certificate(label={self.label}, radius={round_down(self.radius)}, norm={self.region.norm:g}, {worth})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, and of an image its picture and the map of its region."""
        # Pictures are drawn far above this file, so what draws them is imported only when one is looked at.
        html: str = import_module("smoothcert.report.notebook").certificate_html(self)
        return html

    @property
    def radius(self) -> float:
        """The plain l_p certificate: the radius of the largest ball inside the region."""
        return 0.0 if self.region is None else self.region.inner_radius

    @property
    def proxy_radius(self) -> float:
        """The radius of the ball of the region's volume."""
        return 0.0 if self.region is None else self.region.proxy_radius


@dataclass(frozen=True, eq=False)
class Ballot:
    """All that the model said about one input: separate votes to select a class and to estimate its probability."""

    selection: Votes
    estimation: Votes


def conclude(
    ballot: Ballot,
    *,
    plan: Plan,
    law: Law,
    center: FloatArray,
    scale: FloatArray,
    norm: float,
    soundness: Soundness,
    uniform: float = 1.0,
) -> Certificate:
    """The certificate that the votes support; an abstention when they cannot tell the class from its rivals."""
    check_votes(plan, ballot.estimation)
    label = int(ballot.selection.leaders()[0])
    dim = int(np.size(center))
    target = RadiusTarget(law, norm, dim, float(np.min(scale)))
    bound = estimator_of(plan).judge(plan, target, uniform).bound(ballot.estimation, label)
    if not bound.lower > bound.rival:
        return Certificate(None, bound, None, soundness)
    proved = proved_radius(law, norm, dim, bound)
    return Certificate(label, bound, Region(center, scale, proved.value, norm), soundness, proved.rule)
