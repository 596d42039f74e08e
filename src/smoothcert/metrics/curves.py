"""Certified accuracy and its relatives: small functions over records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import exact_mean
from smoothcert.records.record import Record

ECHOING = 0.5  # a share of the votes on other inputs


def counts(record: Record) -> bool:
    """Is this a certificate to be counted? Its label is the truth, or the truth is unknown and there is a label."""
    return record.correct if record.truth is not None else record.label is not None


def certified_accuracy(records: Sequence[Record], radii: Sequence[float]) -> FloatArray:
    """The share of inputs answered correctly and certified at each radius or beyond; never rises with the radius."""
    reached = np.array([record.radius if counts(record) else -math.inf for record in records])
    return np.array([np.mean(reached >= radius) if len(reached) else math.nan for radius in radii])


def clean_accuracy(records: Sequence[Record]) -> float:
    """The share of inputs whose class by the selection votes is the truth: measured, not certified, and not abstaining."""
    known = [record.leader == record.truth for record in records if record.truth is not None and record.selection]
    return float(np.mean(known)) if known else math.nan


def abstention(records: Sequence[Record]) -> float:
    """The share of inputs without an answer."""
    return float(np.mean([record.label is None for record in records])) if records else math.nan


def average_certified_radius(records: Sequence[Record]) -> float:
    """ACR: the mean over all inputs of the radius, counted as zero unless the answer is right (Zhai et al. 2020)."""
    return exact_mean([record.radius if counts(record) else 0.0 for record in records])


def average_certified_proxy_radius(records: Sequence[Record]) -> float:
    """The same mean of the proxy radius, that of the ball of the region's volume (Eiras et al. 2022); NaN if any has none."""
    return _mean_if_known(records, [record.proxy_radius for record in records])


def average_certified_boxed_proxy_radius(records: Sequence[Record]) -> float:
    """The same mean of the proxy radius of what lies in the input box; NaN unless it is known of all records."""
    return _mean_if_known(records, [record.boxed_proxy_radius for record in records])


def _mean_if_known(records: Sequence[Record], values: Sequence[float | None]) -> float:
    if not values or None in values:
        return math.nan
    return exact_mean([value or 0.0 if counts(r) else 0.0 for r, value in zip(records, values, strict=True)])


def echoes(record: Record) -> bool:
    """Is the label what its noise says of most inputs? Then the certificate is true and says nothing of its own."""
    return record.echo is not None and record.echo >= ECHOING


def without_echoes(records: Iterable[Record]) -> list[Record]:
    """The records with radius zero where the certificate echoes."""
    return [_emptied(one) if echoes(one) else one for one in records]


def _emptied(record: Record) -> Record:
    return replace(
        record, radius=0.0, proxy_radius=0.0, boxed_proxy_radius=None if record.boxed_proxy_radius is None else 0.0
    )


def echoing(records: Sequence[Record]) -> int | None:
    """How many certificates echo; None where no echo was measured."""
    return sum(map(echoes, records)) if any(record.echo is not None for record in records) else None


def votes_of(record: Record) -> int:
    """How many noisy copies were classified, to select and to estimate."""
    return record.trials + sum(record.selection) + record.selection_invalid


def votes_per_input(records: Sequence[Record]) -> float:
    """The mean number of noisy copies classified per input."""
    return float(np.mean([votes_of(record) for record in records])) if records else math.nan


def expected_wrong(records: Sequence[Record]) -> float:
    """How many of the certificates may be expected to be wrong: the sum of their alphas."""
    return float(sum(record.alpha for record in records if record.label is not None))


def round_radii(records: Sequence[Record], number: int = 6) -> list[float]:
    """About ``number`` round radii from zero up to the largest certified one, for the columns of a table.

    >>> round_radii([])
    [0.0]
    """
    largest = max((record.radius for record in records), default=0.0)
    if not 0 < largest < math.inf:
        return [0.0]
    if all(record.threat is not None for record in records):  # sizes are whole numbers
        return [float(size) for size in range(0, round(largest) + 1, math.ceil(largest / number))]
    magnitude = 10.0 ** math.floor(math.log10(largest / number))
    step = next(magnitude * factor for factor in (1, 2.5, 5, 10) if magnitude * factor * number >= largest)
    return [round(step * k, 10) for k in range(math.floor(largest / step) + 1)]
