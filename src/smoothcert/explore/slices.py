"""A plane through an input: what the classifier answers on it, and where the regions cut it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.errors import SettingError
from smoothcert.explore.directions import AXES, Axes
from smoothcert.explore.specimen import Specimen
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import geometric_mean, p_norm
from smoothcert.regions import Region
from smoothcert.seeds import Stage

SIZE = (
    33  # cells along each axis; 2^k + 1, so that the input is the center of one, and the plane is filled coarse to fine
)
TOGETHER = 25  # cells asked at once: 5 × 5 are the first picture
FLIPS, FLIP_VOTES = 4, 200  # points along the first axis at which the deployed classifier is asked, and votes at each
ANGLES = 361  # corners of a region's outline
ENDLESS = 100.0  # inner radii: where the outline of a region without end is cut off
VOTES = (0, 20, 100)  # per cell; 0 is the base classifier without noise
ZOOMS = (
    0.0,
    1.5,
    3.0,
    6.0,
)  # half the width of the slice, in units of the region's reach in it; 0: as far as another class
FURTHEST = 64.0  # times the reach, for another class to be looked for


@dataclass(frozen=True)
class Asked:
    """Which slice: it is computed once."""

    index: int
    axes: str = "nearest"
    seed: int = 0
    votes: int = 0
    zoom: float = 0.0

    def __post_init__(self) -> None:
        allowed = {"axes": tuple(AXES), "votes": VOTES, "zoom": ZOOMS}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise SettingError(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(str, values))}")
        if type(self.index) is not int:
            raise SettingError(f"index={self.index!r} must be a whole number, that of an input")
        if not (type(self.seed) is int and 0 <= self.seed < 2**31):
            raise SettingError(f"seed={self.seed!r} must be a whole number from 0 to 2147483647")


def outline(vectors: FloatArray, gauges: Callable[[FloatArray], FloatArray], radius: float) -> FloatArray:
    """Where {gauge <= radius} cuts the plane of two directions: its boundary at every angle, (ANGLES, 2)."""
    angles = np.linspace(0, 2 * np.pi, ANGLES)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(circle * (radius / gauges(circle @ vectors))[:, None])


def regions(specimen: Specimen, axes: Axes) -> dict[str, FloatArray]:
    """The outlines of the region, the largest plain ball inside it (none for an abstention), and of the pixels' range."""
    region, inside = specimen.region, within(specimen, axes)
    box = {} if inside is None else {"box": inside}
    if not isinstance(region, Region | LinearRegion) or region.radius <= 0:
        return box
    # Behind a front it has no end where that is blind, and is cut off far outside; otherwise no direction is as flat.
    least = region.radius / (ENDLESS * region.inner_radius) if isinstance(region, LinearRegion) else 0.0
    return box | {
        "region": outline(axes.vectors, lambda rows: np.maximum(region.gauges(rows), least), region.radius),
        "inner": outline(axes.vectors, lambda rows: p_norm(rows, region.norm), region.inner_radius),
    }


def within(specimen: Specimen, axes: Axes) -> FloatArray | None:
    """Where the plane stays between 0 and 1 in every coordinate, (ANGLES, 2); None for inputs that do not lie there."""
    center = specimen.center.ravel()
    if center.min() < 0 or center.max() > 1:
        return None
    angles = np.linspace(0, 2 * np.pi, ANGLES)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    moves = circle @ axes.vectors
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(moves > 0, (1 - center) / moves, np.where(moves < 0, -center / moves, np.inf))
    return np.asarray(circle * room.min(axis=1)[:, None])


def reach(specimen: Specimen, outlines: dict[str, FloatArray]) -> float:
    """How far the region goes on the plane; without one, the size of the noise."""
    if "region" in outlines:
        return float(np.abs(outlines["region"]).max())
    return geometric_mean(specimen.scale)


def order(size: int = SIZE) -> list[tuple[int, int]]:
    """The cells of a slice, (row, column), coarse to fine: any part of them from the start covers the whole plane.

    >>> order(3)
    [(0, 0), (0, 2), (2, 0), (2, 2), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]
    """
    found: dict[tuple[int, int], None] = {}
    stride = size - 1
    while stride:
        found |= dict.fromkeys((row, column) for row in range(0, size, stride) for column in range(0, size, stride))
        stride = stride // 2 if stride > 1 else 0
    return list(found)


@torch.inference_mode()
def landscape(specimen: Specimen, axes: Axes, extent: float, votes: int) -> Iterator[list[tuple[int, int, float]]]:
    """Some cells at a time, coarse to fine: their place, the class that leads (-1: none) and its share, of votes if any.

    All cells meet the same draws. Every cell is asked at the point that the classifier would get there.
    """
    steps = np.linspace(-extent, extent, SIZE)
    drawn = specimen.drawn(votes, Stage.PREDICT) if votes else None
    cells = order()
    for first in range(0, len(cells), TOGETHER):
        some = cells[first : first + TOGETHER]
        places = [specimen.point(steps[c] * axes.vectors[0] + steps[r] * axes.vectors[1]) for r, c in some]
        label, share = _leaders(specimen, places, drawn)
        spots = [r * SIZE + c for r, c in some]
        yield list(zip(spots, label, share, strict=True))


def _leaders(specimen: Specimen, places: Sequence[FloatArray], drawn: Tensor | None) -> tuple[list[int], list[float]]:
    """The leading class at each point and its share of the votes that the draws give; without any, its probability."""
    smoother = specimen.smoother
    inputs = [torch.from_numpy(place.astype(np.float32)).to(smoother.device) for place in places]
    batch = (
        smoother.encoded(torch.stack(inputs))
        if drawn is None
        else torch.cat([specimen.seen(one, drawn) for one in inputs])
    )
    logits = torch.cat([smoother.pollster.classify(part) for part in torch.split(batch, smoother.plan.block)]).float()
    broken = logits.isnan().any(dim=1, keepdim=True)
    chances = logits.masked_fill(broken, 0.0).softmax(dim=1)
    if drawn is not None:
        # Who votes for nobody has the last place, which is cut off.
        chances = torch.nn.functional.one_hot(specimen.votes_of(logits) % (logits.shape[1] + 1), logits.shape[1] + 1)
        chances = chances[:, :-1].float()
    means = chances.masked_fill(broken, 0.0).reshape(len(places), -1, logits.shape[1]).mean(dim=1)
    share, label = means.max(dim=1)
    return torch.where(share > 0, label, -1).tolist(), [round(value, 4) for value in share.tolist()]


def flips(specimen: Specimen, axes: Axes, extent: float) -> Iterator[tuple[float, int | None]]:
    """What the deployed classifier, which chooses its noise anew at every point, answers along the first axis."""
    for step in np.linspace(0, extent, FLIPS + 1)[1:]:
        yield float(step), specimen.ask(specimen.point(step * axes.vectors[0]), FLIP_VOTES, anew=True).label


def described(specimen: Specimen, axes: Axes, asked: Asked) -> dict[str, Any]:
    """All of a slice but its landscape."""
    outlines = regions(specimen, axes)
    unit = reach(specimen, outlines)
    extent, note = (asked.zoom * unit, "") if asked.zoom else _to_another(specimen, axes, unit, asked.votes)
    return {
        "size": SIZE,
        "extent": extent,
        "unit": unit,
        "words": axes.words,
        "note": " ".join(filter(None, (axes.note, note))),
        "outlines": {name: corners.tolist() for name, corners in outlines.items()},
    }


@torch.inference_mode()
def _to_another(specimen: Specimen, axes: Axes, unit: float, votes: int) -> tuple[float, str]:
    """Half a width that shows the region, and another class if there is one along the first axis."""
    steps = unit * np.geomspace(0.5, FURTHEST, 15)
    places = [specimen.point(step * axes.vectors[0]) for step in (0.0, *steps)]
    label, _ = _leaders(specimen, places, specimen.drawn(votes, Stage.PREDICT) if votes else None)
    other = next((step for step, one in zip(steps, label[1:], strict=True) if one != label[0]), None)
    if other is None:
        return (
            3.0 * unit,
            f"Along the first axis no other class was found within {FURTHEST:g} times the region (or the noise, without one).",
        )
    return float(max(1.25 * unit, 1.4 * other)), ""
