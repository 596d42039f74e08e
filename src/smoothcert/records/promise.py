"""What a promise is, which certificates can become one, and what they are worth then."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.certificates import Certificate, Soundness, weakest
from smoothcert.errors import InputError, RunError
from smoothcert.estimators.bounds import bound_of
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.overlap import check_convex
from smoothcert.regions import Region

RULE = "memory"  # the rule of an answer that was taken over from a stored region


@dataclass(frozen=True, eq=False)
class Promise:
    """Every later query in region gets label. sequence counts from 1; index is the input's in run, None if it had none."""

    sequence: int
    run: str
    index: int | None
    label: int
    region: Region
    soundness: Soundness
    details: dict[str, Any]  # the rest of the certificate


def promise_of(certificate: Certificate, sequence: int, run: str, index: int | None) -> Promise:
    """A settled certificate as the promise with this number."""
    assert certificate.label is not None
    assert isinstance(certificate.region, Region)
    details: dict[str, Any] = {"bound": asdict(certificate.bound), "rule": certificate.rule}
    return Promise(sequence, run, index, certificate.label, certificate.region, certificate.soundness, details)


def center_of(certificate: Certificate, center: ArrayLike | None) -> FloatArray:
    """The input that the certificate is about, as a vector."""
    if certificate.region is None and center is None:
        raise InputError(
            "an abstention carries no center, and it may lie in a region whose label was promised; give it: "
            "memory.settle(certificate, center=x)"
        )
    own = None if certificate.region is None else np.asarray(certificate.region.center, dtype=float).ravel()
    given = None if center is None else np.asarray(center, dtype=float).ravel()
    if own is not None and given is not None and not np.array_equal(own, given):
        raise InputError("center is not the center of the certificate's region; leave it out, or give the same input")
    point = given if own is None else own
    assert point is not None
    return point


def check(certificate: Certificate) -> Region | None:
    """The certificate's region, if it has one; refuses one that says nothing, or that cannot be kept apart from others."""
    region = certificate.region
    if (certificate.label is None) != (region is None):
        raise InputError(
            f"the certificate has label {certificate.label} and region {region}; give both, or neither (an abstention)"
        )
    if region is None:
        return None
    if isinstance(region, LinearRegion):
        raise InputError(
            "a memory behind a front keeps regions of its numbers, and this one is of inputs; give it to the smoother: "
            "sc.Smoother(…, front=front, memory=memory)"
        )
    if not isinstance(region, Region):
        raise InputError(
            f"a memory keeps regions in a norm, and this one is against a threat ({region.threat}); exact certificates need "
            "no memory: every query is answered by all views"
        )
    check_convex(region.norm)
    if not (math.isfinite(region.radius) and region.radius >= 0):
        raise InputError(f"the region has radius {region.radius}; it must be a finite number >= 0")
    if not (np.all(np.isfinite(region.scale)) and np.all(np.asarray(region.scale) > 0)):
        found = f"from {np.min(region.scale)} to {np.max(region.scale)}"
        raise InputError(f"the region has scales {found}; they must be finite and above 0")
    return region


def worth_once_settled(soundness: Soundness) -> Soundness:
    """What the model's own label is worth once it is promised: the memory lifts ``frozen``, and nothing else.

    >>> [worth_once_settled(label).value for label in Soundness]
    ['global', 'memory', 'memory', 'estimate', 'imported']
    """
    return Soundness.MEMORY if soundness is Soundness.FROZEN else soundness


def taken_over(certificate: Certificate, source: Promise, kept: Region) -> Certificate:
    """The answer that an earlier promise gives, in place of the model's."""
    worth = weakest([worth_once_settled(certificate.soundness), source.soundness, Soundness.MEMORY])
    return replace(certificate, label=source.label, region=kept, soundness=worth, rule=RULE)


def check_center(promise: Promise, point: FloatArray) -> None:
    """Refuse another input under the index of a promise."""
    if not np.array_equal(np.ravel(promise.region.center), point):
        raise RunError(f"index {promise.index} was settled with another input; give every input of a run its own index")


def given_before(promise: Promise) -> Certificate:
    """The certificate that became this promise, exactly."""
    details = promise.details
    return Certificate(
        label=promise.label,
        bound=bound_of(**details["bound"]),
        region=promise.region,
        soundness=promise.soundness,
        rule=details["rule"],
    )
