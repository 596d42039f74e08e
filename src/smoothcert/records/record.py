"""Step 8: a certificate as one flat, versioned, exact row, with its raw counts; and back to region and certificate."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, get_args, get_type_hints

import numpy as np

from smoothcert.certificates import Ballot, Certificate, Soundness
from smoothcert.errors import RunError, StoreError
from smoothcert.estimators.bounds import Bound, bound_of
from smoothcert.intervals import Interval, IntervalCertificate
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.geometry import round_down
from smoothcert.regions import Region
from smoothcert.threats import THREATS, ReplacedRegion, Threat
from smoothcert.votes import Votes

VERSION = 3
Parameter = float | str  # a number, or the address of an array in the store


@dataclass(frozen=True)
class Record:
    """What is kept of one input. Numbers are float64 and exact; label None is an abstention, truth None is unknown."""

    index: int
    truth: int | None
    label: int | None
    radius: float  # of the largest plain ball inside the region
    proxy_radius: float | None  # of the ball of the same volume; None for a region without end
    log_volume: float | None  # None for an abstention or a point
    region_radius: float  # in units of scale
    norm: float  # 0 against a threat
    soundness: Soundness
    rule: str
    law: str  # or views
    scale: Parameter
    loc: Parameter
    domain: str
    alpha: float
    lower: float
    upper: float | None
    trials: int
    selection: tuple[int, ...]
    selection_invalid: int
    estimation: tuple[tuple[int, ...], ...]  # (looks, classes), cumulative
    estimation_invalid: tuple[int, ...]
    stopped: str  # why the votes ended: all were cast, radii were decided, or the radius was known within a tolerance
    uniform: float = 1.0  # the random number of randomized Clopper–Pearson, 1 for every other estimator
    echo: float | None = None  # how often other inputs get the label under this noise; None if it was not measured
    boxed_proxy_radius: float | None = None  # of the volume in the input box; None where no box or no center is known
    threat: str | None = None  # what was certified against, if not a norm: its radius is a size
    front: str | None = None  # the address of the matrix that noise was laid behind, if there was one
    front_slack: float = 0.0  # by how much rounding may set numbers of two inputs apart there
    # Of a number instead of a class: its estimate at the input, what is true of it, and (radius, low, high), None without an end.
    value: float | None = None
    target: float | None = None
    intervals: tuple[tuple[float, float | None, float | None], ...] = ()
    # Of a cascade: the votes of each stage that was asked, by class, with "pass" after the classes and last what is no number.
    stages: tuple[tuple[int, ...], ...] = ()
    version: int = VERSION

    def __repr__(self) -> str:
        if self.intervals:
            told = ", ".join(f"within {one.radius:g}: [{one.low:.4g}, {one.high:.4g}]" for one in self.enclosures)
            return (
                f"Record(index={self.index}, target={self.target}, {told}, norm={self.norm:g}, {self.soundness.value})"
            )
        answer = "abstains" if self.label is None else f"label={self.label}, radius={round_down(self.radius)}"
        known = f"{self.soundness.value}, p >= {round_down(self.lower, 4)}"
        return f"Record(index={self.index}, truth={self.truth}, {answer}, norm={self.norm:g}, {known})"

    @property
    def exact(self) -> bool:
        """Were all views asked? Then there is no alpha, and no votes selected the class."""
        return self.alpha == 0

    @property
    def addresses(self) -> set[str]:
        """Of all arrays in the store that it means."""
        return {value for value in (self.scale, self.loc, self.front) if isinstance(value, str)}

    @property
    def against(self) -> str:
        """The norm of its radius, or the threat of which it is a size: radii of two do not compare."""
        return f"l{self.norm:g}" if self.threat is None else self.threat

    @property
    def extent(self) -> float:
        """What regions are put in order by: the proxy radius, or the radius of a region without end."""
        return self.radius if self.proxy_radius is None else self.proxy_radius

    @property
    def correct(self) -> bool:
        """Was a label given, and is it the truth?"""
        return self.label is not None and self.label == self.truth

    @property
    def enclosures(self) -> tuple[Interval, ...]:
        """The certified intervals of a number, by radius; none of a class."""
        return tuple(
            Interval(radius, -math.inf if low is None else low, math.inf if high is None else high)
            for radius, low, high in self.intervals
        )

    @property
    def leader(self) -> int:
        """The class that the selection votes, or else all views, chose; the label unless the certificate abstains."""
        votes = self.estimation[-1] if self.exact else self.selection
        return max(range(len(votes)), key=lambda label: (votes[label], -label))

    def to_json(self) -> str:
        """One line of text, the same bytes for the same record."""
        row = dataclasses.asdict(self) | {"norm": str(self.norm)}
        if self.threat is None:
            del row["threat"]
        if not self.stages:
            del row["stages"]
        if not self.intervals:
            del row["value"], row["target"], row["intervals"]
        if self.front is None:
            del row["front"], row["front_slack"]
        return json.dumps(row, allow_nan=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The record back, exactly."""
        row = json.loads(text)
        if row["version"] != VERSION:
            newer = row["version"] > VERSION
            raise StoreError(
                f"a record has version {row['version']}, and this smoothcert reads version {VERSION} alone"
                + ("" if newer else ": older ones do not say how much of their volume lies in the input box")
                + (": install a newer one" if newer else "; certify anew into another directory")
            )
        found = cls(
            **row
            | {
                "norm": float(row["norm"]),
                "soundness": Soundness(row["soundness"]),
                "selection": tuple(row["selection"]),
                "estimation": tuple(map(tuple, row["estimation"])),
                "estimation_invalid": tuple(row["estimation_invalid"]),
                "intervals": tuple(map(tuple, row.get("intervals", ()))),
                "stages": tuple(map(tuple, row.get("stages", ()))),
            }
        )
        _check_kinds(found)
        return found


def _check_kinds(record: Record) -> None:
    """Refuse, with a ValueError, a record whose values are of another kind than what was written."""
    for name, kinds in _plain_kinds().items():
        value = getattr(record, name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}")
    ends = [each for row in record.intervals for each in (len(row) == 3, *row) if each is not None]
    if not all(isinstance(each, int | float) and each is not False for each in ends):
        raise ValueError(f"intervals are {record.intervals!r}")
    rows = (record.selection, *record.estimation)
    if not all(isinstance(count, int) for row in (*rows, record.estimation_invalid, *record.stages) for count in row):
        raise ValueError("a count is no whole number")
    if len({*map(len, rows)}) > 1 or len(record.estimation) != len(record.estimation_invalid) or not record.estimation:
        raise ValueError("its counts do not fit together")


@cache
def _plain_kinds() -> dict[str, tuple[type, ...]]:
    """The fields that are a number or a text, and what they may be: a whole number will do for a float."""
    hints = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(Record).items()}
    plain = {name: kinds for name, kinds in hints.items() if {*kinds} <= {int, float, str, type(None)}}
    return {name: (*kinds, int) if float in kinds else kinds for name, kinds in plain.items()}


def record_of(
    certificate: Certificate,
    ballot: Ballot,
    *,
    index: int,
    truth: int | None,
    law: str,
    scale: Parameter,
    loc: Parameter,
    domain: str,
    norm: float | Threat,
    stopped: str,
    uniform: float = 1.0,
    echo: float | None = None,
    box: Box | None = None,
    front: tuple[str, float] | None = None,
) -> Record:
    """The record of one certificate and the votes behind it; box: what inputs lie in, around the region's center.

    front: the address of a front's matrix, and its slack.
    """
    return Record(
        **_said(certificate, box),
        index=index,
        truth=truth,
        norm=0.0 if isinstance(norm, Threat) else norm,
        threat=norm.name if isinstance(norm, Threat) else None,
        law=law,
        scale=scale,
        loc=loc,
        domain=domain,
        alpha=certificate.bound.alpha,
        lower=certificate.bound.lower,
        upper=certificate.bound.upper,
        trials=certificate.bound.trials,
        selection=_row(ballot.selection)[-1],
        selection_invalid=int(ballot.selection.invalid[0, -1]),
        estimation=_row(ballot.estimation),
        estimation_invalid=tuple(int(n) for n in ballot.estimation.invalid[0]),
        stopped=stopped,
        uniform=uniform,
        echo=echo,
        front=None if front is None else front[0],
        front_slack=0.0 if front is None else front[1],
    )


def settled(record: Record, certificate: Certificate, box: Box | None) -> Record:
    """The record of the same votes once a memory has settled what they certify; box: what inputs lie in."""
    # What a memory answers instead is no answer under this noise.
    echo = record.echo if certificate.label == record.leader else None
    return dataclasses.replace(record, **_said(certificate, box), echo=echo)


def _said(certificate: Certificate, box: Box | None) -> dict[str, Any]:
    """What a certificate says, as a record's fields."""
    region = certificate.region
    boxed = None if box is None else 0.0 if region is None else None
    if box is not None and isinstance(region, Region):
        boxed = region.boxed_proxy_radius(box)
    return {
        "label": certificate.label,
        "radius": certificate.radius,
        "proxy_radius": certificate.proxy_radius,
        "boxed_proxy_radius": boxed,
        "log_volume": region.log_volume if isinstance(region, Region | LinearRegion) and region.radius > 0 else None,
        "region_radius": region.radius if isinstance(region, Region | LinearRegion) else certificate.radius,
        "soundness": certificate.soundness,
        "rule": certificate.rule,
        **(_numbers(certificate) if isinstance(certificate, IntervalCertificate) else {}),
    }


def _numbers(certificate: IntervalCertificate) -> dict[str, Any]:
    """What is said of a number; what is infinite is None."""
    kept = [(one.radius, one.low, one.high) for one in certificate.intervals]
    return {
        "value": certificate.value if math.isfinite(certificate.value) else None,
        "intervals": tuple((radius, *(end if math.isfinite(end) else None for end in ends)) for radius, *ends in kept),
    }


def _row(votes: Votes) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(n) for n in look) for look in votes.counts[0])


def check_classes(run: object, records: Iterable[Record]) -> None:
    """Refuse a run that certifies numbers, where classes are needed."""
    if any(record.intervals for record in records):
        raise RunError(
            f"{run} certifies numbers, which have intervals and no classes; look at it with smoothcert report or attack, or give a run "
            "of a classifier"
        )


class Arrays(Protocol):
    """Where the arrays are that records name by their address: any store."""

    def get(self, address: str) -> FloatArray:
        """The array at this address."""


def value_of(parameter: Parameter, store: Arrays) -> FloatArray:
    """The number or the array that a record means, exactly."""
    return store.get(parameter) if isinstance(parameter, str) else np.array(parameter)


def scale_of(record: Record, store: Arrays) -> FloatArray:
    """The scale of a record's region: what its draws were multiplied by, in float64 on and off the grid."""
    return value_of(record.scale, store)


def region_of(record: Record, center: FloatArray, store: Arrays) -> Region | LinearRegion | ReplacedRegion | None:
    """The region that a record certifies around its input; None for an abstention."""
    if record.label is None:
        return None
    if record.threat is not None:
        return ReplacedRegion(center, THREATS[record.threat](int(record.region_radius)))
    if record.front is not None:
        # What rounding costs is taken off the radius already.
        return LinearRegion.behind(
            center, store.get(record.front), scale_of(record, store), record.region_radius, record.norm
        )
    return Region(center, scale_of(record, store), record.region_radius, record.norm)


def certificate_of(record: Record, center: FloatArray, store: Arrays) -> Certificate:
    """The certificate that a record stands for, at its input."""
    if record.intervals:
        bound, scale = Bound(record.lower, record.alpha, record.trials), scale_of(record, store)
        region = Region(center, scale, record.region_radius, record.norm)
        value = math.nan if record.value is None else record.value
        return IntervalCertificate(
            None, bound, region, record.soundness, record.rule, value=value, intervals=record.enclosures
        )
    bound = bound_of(record.lower, record.alpha, record.trials, record.upper)
    return Certificate(record.label, bound, region_of(record, center, store), record.soundness, record.rule)
