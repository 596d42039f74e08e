"""Which inputs of a data set a run takes: every so many, the first so many, or a list."""

from __future__ import annotations

import re
from collections.abc import Sequence

from smoothcert.errors import DataError, SettingError

LONGEST_RANGE = 10_000_000
"""A range longer than this is a slip of the keyboard, and would fill the memory."""


def choose_indices(
    length: int, limit: int | None = None, skip: int = 1, indices: Sequence[int] | None = None
) -> list[int]:
    """The indices to certify out of ``length`` inputs, in the order to take them.

    ``skip`` takes every skip-th input from the first on, ``limit`` at most so many of those, and ``indices`` exactly
    those, in the order given; a list goes with neither of the two others.

    >>> choose_indices(10, skip=4), choose_indices(10, limit=2, skip=4), choose_indices(10, indices=[7, 3])
    ([0, 4, 8], [0, 4], [7, 3])
    """
    if skip < 1:
        raise SettingError(f"skip is {skip}; allowed are whole numbers from 1 (1 takes every input)")
    if limit is not None and limit < 1:
        raise SettingError(f"limit is {limit}; allowed are whole numbers from 1; leave it out to take all inputs")
    if indices is None:
        return list(range(0, length, skip))[:limit]
    if limit is not None or skip != 1:
        raise SettingError(
            f"indices were given together with skip={skip}, limit={limit}; a list of indices is taken as it is: "
            f"leave out skip and limit, or the list"
        )
    return _checked_list(list(indices), length)


def parse_indices(text: str) -> list[int]:
    """The indices that a text such as ``0,5,10-19`` names; both ends of a range belong to it.

    >>> parse_indices("0, 5, 10-13")
    [0, 5, 10, 11, 12, 13]
    """
    chosen: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,12})(?:\s*-\s*([0-9]{1,12}))?\s*", part)
        if match is None:
            raise SettingError(
                f"indices {_shortened(text)!r}: {_shortened(part)!r} is neither an index nor a range; allowed are "
                f"whole numbers from 0 and ranges, as in 0,5,10-19"
            )
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last < first + LONGEST_RANGE:
            raise SettingError(
                f"indices {_shortened(text)!r}: the range {first}-{last} is empty or longer than {LONGEST_RANGE}; "
                f"write the smaller end first, as in 10-19"
            )
        chosen.extend(range(first, last + 1))
    return chosen


def shard_of(indices: Sequence[int], text: str) -> list[int]:
    """The part that ``I/N`` names: every N-th of the indices from the I-th on, so that all parts take about as long.

    >>> shard_of([0, 4, 8, 12, 16], "2/3"), shard_of([0, 4], "3/3")
    ([4, 16], [])
    """
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise SettingError(
            f"shard {_shortened(text)!r} is no part of a whole; write I/N with I from 1 to N, as in 1/3, 2/3 and 3/3"
        )
    return list(indices[int(match[1]) - 1 :: int(match[2])])


def _checked_list(indices: list[int], length: int) -> list[int]:
    """The list itself, once it is found to hold indices in range, at least one, and none of them twice."""
    if not indices:
        raise SettingError("the list of indices is empty; give at least one index, or leave it out to take all inputs")
    seen: set[int] = set()
    for index in indices:
        if not 0 <= index < length:
            raise DataError(f"index {index} is outside the data set: it holds {length} inputs, 0 to {length - 1}")
        if index in seen:
            raise SettingError(f"index {index} is listed twice; an input is certified once: list each index once")
        seen.add(index)
    return indices


def _shortened(text: str) -> str:
    """The text, cut where an error message would become unreadable."""
    return text if len(text) <= 60 else text[:57] + "..."
