"""A plane through an input: what the classifier answers on it, and where the regions cut it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from smoothcert.errors import SettingError
from smoothcert.explore.directions import AXES, Axes
from smoothcert.explore.specimen import Specimen
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import geometric_mean, p_norm
from smoothcert.seeds import Stage, draws_for

SIZE = 33  # cells along each axis; odd, so that the input is the center of one
ANGLES = 361  # corners of a region's outline
VOTES = (0, 20, 100)  # per cell; 0 is the base classifier without noise
ZOOMS = (1.5, 3.0, 6.0)  # half the width of the slice, in units of the region's reach in it


@dataclass(frozen=True)
class Asked:
    """Which slice: it is computed once."""

    index: int
    axes: str = "random"
    seed: int = 0
    votes: int = 0
    zoom: float = 3.0

    def __post_init__(self) -> None:
        allowed = {"axes": tuple(AXES), "votes": VOTES, "zoom": ZOOMS}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise SettingError(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(str, values))}")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**31):
            raise SettingError(f"seed={self.seed!r} must be a whole number from 0 to 2147483647")


def outline(vectors: FloatArray, scale: FloatArray, radius: float, norm: float) -> FloatArray:
    """Where {‖δ/scale‖ <= radius} cuts the plane of two directions: its boundary at every angle, (ANGLES, 2)."""
    angles = np.linspace(0, 2 * np.pi, ANGLES)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(circle * (radius / p_norm(circle @ (vectors / scale.ravel()), norm))[:, None])


def regions(specimen: Specimen, axes: Axes) -> dict[str, FloatArray]:
    """The outlines of the region and of the largest plain ball inside it; none for an abstention."""
    region = specimen.region
    if region is None or region.radius <= 0:
        return {}
    plain = np.ones(region.dim)
    return {
        "region": outline(axes.vectors, region.full_scale, region.radius, region.norm),
        "inner": outline(axes.vectors, plain, region.inner_radius, region.norm),
    }


def reach(specimen: Specimen, outlines: dict[str, FloatArray]) -> float:
    """How far the region goes on the plane; without one, the size of the noise."""
    if outlines:
        return float(np.abs(outlines["region"]).max())
    return geometric_mean(specimen.scale)


@torch.inference_mode()
def landscape(specimen: Specimen, axes: Axes, extent: float, votes: int) -> Iterator[tuple[list[int], list[float]]]:
    """Row by row from below: the class that leads in each cell (-1: none) and its share, of the votes if there are any.

    All cells meet the same draws. Every cell is asked at the point that the classifier would get there.
    """
    smoother, noise = specimen.smoother, specimen.noise
    steps = np.linspace(-extent, extent, SIZE)
    drawn = None
    if votes:
        dtype = noise.sampling_dtype
        draws = draws_for(smoother.seed, specimen.index, Stage.PREDICT, 0, dtype=dtype, device=smoother.device)
        drawn = noise.draw(votes, specimen.shape, draws)
    for height in steps:
        points = [specimen.point(step * axes.vectors[0] + height * axes.vectors[1]) for step in steps]
        cells = [torch.from_numpy(point.astype(np.float32)).to(smoother.device) for point in points]
        if drawn is None:
            batch = torch.stack(cells)
        else:
            batch = torch.cat([noise.placer(cell)(drawn, torch.empty_like(drawn)) for cell in cells])
        logits = torch.cat(
            [smoother.pollster.classify(part) for part in torch.split(batch, smoother.plan.block)]
        ).float()
        broken = logits.isnan().any(dim=1, keepdim=True)
        chances = logits.masked_fill(broken, 0.0).softmax(dim=1)
        if votes:
            chances = torch.nn.functional.one_hot(chances.argmax(dim=1), chances.shape[1]).float()
        means = chances.masked_fill(broken, 0.0).reshape(SIZE, max(votes, 1), -1).mean(dim=1)
        share, label = means.max(dim=1)
        yield torch.where(share > 0, label, -1).tolist(), [round(value, 4) for value in share.tolist()]


def described(specimen: Specimen, axes: Axes, zoom: float) -> dict[str, Any]:
    """All of a slice but its landscape."""
    outlines = regions(specimen, axes)
    return {
        "size": SIZE,
        "extent": zoom * reach(specimen, outlines),
        "words": axes.words,
        "note": axes.note,
        "outlines": {name: corners.tolist() for name, corners in outlines.items()},
    }
