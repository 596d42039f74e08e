"""The pixel grid: how many whole steps a coordinate is, and the words for where a certificate's perturbations live."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import InputError
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box

LARGEST_STEP = 2.0**23  # whole numbers up to twice this add up exactly in float32
_OFF_GRID = 1e-3  # in steps of the grid; float32 pixels k/255 are within 2e-5
_REALS = "reals, float arithmetic"
_CLIPPED = ", clipped to "


def whole_steps(x: ArrayLike, levels: int) -> FloatArray:
    """The whole number of grid steps in each coordinate.

    Refuses what would be certified as another input: one off the grid, or so large that float32 rounds its sums.

    >>> whole_steps(np.float32([0.1, 1.0]) * np.float32([2.0, 1.0]), 5)
    array([1., 5.])
    """
    exact = np.asarray(x, dtype=float) * levels
    steps = np.rint(exact) + 0.0  # a classifier could tell −0 from 0, and they are one point
    away = np.abs(exact - steps)
    allowed = np.minimum(
        _OFF_GRID + np.abs(exact) * 2.0**-23, 0.25
    )  # float32 itself is that far from a large grid point
    if np.any(away > allowed):
        raise InputError(
            f"an input is off the grid of 1/{levels} by {float(away.max()):.3g} steps, and would be certified as another "
            f"one; quantise it first (x = (x * {levels}).round() / {levels}), or use noise without a grid"
        )
    if np.any(np.abs(steps) > LARGEST_STEP):
        raise InputError(
            f"an input lies {float(np.abs(steps).max()):.0f} steps of 1/{levels} from zero, where sums with noise are no "
            f"longer exact; the limit is {LARGEST_STEP:.0f} steps ({LARGEST_STEP / levels:g}). Give pixels from 0 to 1, or "
            "use noise without a grid"
        )
    return np.asarray(steps)


def domain_of(levels: int | None, box: Box | None = None) -> str:
    """Where perturbations live, in words that go into every record; levels are the steps in one unit, None off the grid.

    >>> domain_of(255), domain_of(255, Box(0, 1))
    ('grid 1/255', 'grid 1/255, clipped to 0..1')
    """
    return with_box(_REALS if levels is None else f"grid 1/{levels}", box)


def with_box(domain: str, box: Box | None) -> str:
    """The same domain, with inputs clipped to this box before the noise."""
    return domain.partition(_CLIPPED)[0] + ("" if box is None else f"{_CLIPPED}{box}")


def box_of(domain: str) -> Box | None:
    """The box that inputs are clipped to before the noise; None if they are not.

    >>> box_of("grid 1/255, clipped to 0..1"), box_of("grid 1/255")
    (Box(low=0.0, high=1.0), None)
    """
    _, clipped, text = domain.partition(_CLIPPED)
    return Box.read(text) if clipped else None


def certified_point(x: ArrayLike, domain: str) -> FloatArray:
    """The one way from an input to the point that is certified: the exact grid point, or the float32 that is classified.

    >>> certified_point(np.float32(0.1), "grid 1/10"), certified_point(0.1, domain_of(None))
    (array(0.1), array(0.1))
    """
    found = re.match(r"grid 1/(\d+)", domain)
    if found is not None:
        levels = int(found[1])
        return np.asarray(whole_steps(x, levels) / levels)
    return np.asarray(np.asarray(x, dtype=np.float32).astype(float) + 0.0)  # −0 is 0
