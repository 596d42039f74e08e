"""Step 6: the certificate, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.estimators import Plan, check_votes, estimator_of
from smoothcert.estimators.base import Target
from smoothcert.estimators.bounds import Bound, Counted
from smoothcert.laws import Law, law_named
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.counting import counted_reach
from smoothcert.maths.geometry import round_down
from smoothcert.radius import RadiusTarget
from smoothcert.regions import Region
from smoothcert.threats import ReplacedRegion, Threat
from smoothcert.views import REGISTRY as VIEWS
from smoothcert.views import View, view_named
from smoothcert.views.target import ViewTarget
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
    """Inside region the smoothed classifier answers label; an abstention has label None, region None, radius 0.0.

    ``radius`` is in the units of the input, and compares between certificates. ``region.radius`` counts in multiples of
    ``region.scale``, and says nothing without it; the two are equal where the scale is 1.

    >>> region = Region(np.zeros(2), np.array([0.5, 2.0]), 1.2, norm=2)
    >>> certificate = Certificate(3, Bound(0.9, 0.001, 1000), region, Soundness.FROZEN)
    >>> certificate.radius, certificate.region.radius
    (0.6, 1.2)
    """

    label: int | None
    bound: Bound
    region: Region | LinearRegion | ReplacedRegion | None
    soundness: Soundness
    rule: str = ""

    def __repr__(self) -> str:
        sure = "exact" if self.exact else f"p >= {round_down(self.bound.lower, 4)}"
        worth = f"{self.soundness.value}, {sure}"
        if self.label is None or self.region is None:
            return f"Certificate(abstains, {worth})"
        if isinstance(self.region, ReplacedRegion):
            return f"Certificate(label={self.label}, threat={self.region.threat}, {worth})"
        return f"Certificate(label={self.label}, radius={round_down(self.radius)}, norm={self.region.norm:g}, {worth})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, and of an image its picture and the map of its region."""
        # Pictures are drawn far above this file, so what draws them is imported only when one is looked at.
        html: str = import_module("smoothcert.report.notebook").certificate_html(self)
        return html

    @property
    def radius(self) -> float:
        """The plain l_p certificate: the radius of the largest ball inside the region; against a threat, its size."""
        return 0.0 if self.region is None else self.region.inner_radius

    @property
    def proxy_radius(self) -> float | None:
        """The radius of the ball of the region's volume; None for a region without end.

        A region against a threat has no volume, and its size stands here.
        """
        return self.region.proxy_radius if isinstance(self.region, Region | LinearRegion) else self.radius

    @property
    def exact(self) -> bool:
        """Were all views asked, so that nothing is left to chance?"""
        return isinstance(self.bound, Counted)


@dataclass(frozen=True, eq=False)
class Ballot:
    """All that the model said about one input: separate votes to select a class and to estimate its probability."""

    selection: Votes
    estimation: Votes


def conclude(
    ballot: Ballot,
    *,
    plan: Plan,
    law: Law | View,
    center: FloatArray,
    scale: FloatArray,
    norm: float | Threat,
    soundness: Soundness,
    uniform: float = 1.0,
    box: Box | None = None,
) -> Certificate:
    """The certificate that the votes support; an abstention when they cannot tell the class from its rivals.

    Complete votes are counted, and always have a class. box: what inputs are clipped to before the noise, if they are; votes
    on an input outside are not of this input.
    """
    if isinstance(norm, Threat) and not isinstance(law, View):
        raise SettingError(
            f"the threat {norm} needs views, such as bands or ablation; these are votes under noise ({law})"
        )
    if isinstance(law, View) and law.complete:
        return _counted(ballot.estimation, law, center, norm, soundness)
    check_votes(plan, ballot.estimation)
    label = int(ballot.selection.leaders()[0])
    target = target_of(law, norm, np.shape(center), scale, box)
    bound = estimator_of(plan).judge(plan, target, uniform).bound(ballot.estimation, label)
    if not bound.lower > bound.rival:
        return Certificate(None, bound, None, soundness)
    if isinstance(target, ViewTarget):
        region = target.view.region(center, norm, target.reach(bound.lower, bound.rival))
        return Certificate(label, bound, region, soundness, "counting, sampled views")
    assert isinstance(target, RadiusTarget)
    assert not isinstance(norm, Threat)
    proved = target.proved(bound)
    return Certificate(label, bound, Region(center, scale, proved.value, norm), soundness, proved.rule)


def _counted(votes: Votes, view: View, center: FloatArray, threat: float | Threat, soundness: Soundness) -> Certificate:
    """The certificate of complete votes: as long as no more views change than the winner can spare, it wins."""
    views, cast = view.count(np.shape(center)), int(votes.trials[0, -1])
    assert cast == views, f"{cast} votes of {views} views: not complete"
    counts = votes.counts[0, -1]
    winner, reach = counted_reach(counts)
    bound = Counted.of(counts.tolist(), views, int(winner))
    rule = f"counting, all {views} views"
    return Certificate(int(winner), bound, view.region(center, threat, int(reach)), soundness, rule)


def target_of(
    law: Law | View, norm: float | Threat, shape: tuple[int, ...], scale: FloatArray, box: Box | None = None
) -> Target:
    """What an estimator aims at: a radius under a law, or the size of a threat with views."""
    if isinstance(law, View):
        return ViewTarget(law, norm, shape)
    assert not isinstance(norm, Threat)
    return RadiusTarget.of(law, norm, math.prod(shape), scale, box)


def smoothing_named(text: str) -> Law | View:
    """The law of noise, or the views, that a record was made with."""
    return view_named(text) if VIEWS.knows(text) else law_named(text)
