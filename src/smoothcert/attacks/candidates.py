"""Points inside a region of views, where the label may be weakest: by the gradient, by every place, by chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from smoothcert.maths import FloatArray, IntArray
from smoothcert.regions import Region
from smoothcert.threats import Coordinates, ReplacedRegion, Threat, layout

VALUES = (0.0, 1.0, 3.0, -3.0)  # a threat may write any value; pictures have the first two
Places = NDArray[np.bool_]
Points = Iterator[FloatArray]


def replacing(region: ReplacedRegion, slope: FloatArray, chance: np.random.Generator) -> dict[str, Points]:
    """Replaced places: the best by the gradient with the values it asks for, and any places with every value."""
    center, threat = np.asarray(region.center, dtype=float), region.threat
    wanted = np.where(slope < 0, 1.0, 0.0)  # what takes most from the label, to first order
    gain = np.abs(slope * (wanted - center)).reshape(-1, *layout(center.shape)).sum(axis=0)
    best = _best_places(threat, gain)

    def by_gradient() -> Points:
        for places in best:
            for values in (wanted, 4 * wanted - 2, *VALUES):
                yield np.where(places, values, center)

    def by_place() -> Points:
        while True:
            places = _random_places(threat, gain.shape, chance)
            noise = chance.integers(0, 2, center.shape).astype(float)
            for values in (wanted, noise, *VALUES):
                yield np.where(places, values, center)

    return {"gradient": by_gradient(), "places": by_place()}


def _best_places(threat: Threat, gain: FloatArray) -> list[Places]:
    """Where the gradient promises most: the best coordinates, or the best ten windows."""
    if isinstance(threat, Coordinates):
        chosen = np.zeros(gain.size, dtype=bool)
        chosen[np.argsort(-gain.ravel(), kind="stable")[: threat.size]] = True
        return [chosen.reshape(gain.shape)]
    corners = list(np.ndindex(*(max(1, side - threat.size + 1) for side in gain.shape)))
    scores = [float(gain[_window(threat.size, corner)].sum()) for corner in corners]
    return [_marked(gain.shape, threat.size, corners[at]) for at in np.argsort(scores)[::-1][:10]]


def _random_places(threat: Threat, room: tuple[int, ...], chance: np.random.Generator) -> Places:
    if isinstance(threat, Coordinates):
        chosen = np.zeros(int(np.prod(room)), dtype=bool)
        chosen[chance.permutation(chosen.size)[: threat.size]] = True
        return chosen.reshape(room)
    corner = tuple(int(chance.integers(max(1, side - threat.size + 1))) for side in room)
    return _marked(room, threat.size, corner)


def _window(size: int, corner: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(at, at + size) for at in corner)


def _marked(room: tuple[int, ...], size: int, corner: tuple[int, ...]) -> Places:
    marked = np.zeros(room, dtype=bool)
    marked[_window(size, corner)] = True
    return marked


def moving(region: Region, grid: int, slope: FloatArray, chance: np.random.Generator) -> dict[str, Points]:
    """An l1 budget in whole grid steps within [0, 1]: spent on one coordinate after the other, or spread over many."""
    center = np.rint(np.asarray(region.center, dtype=float) * grid).astype(np.int64)
    price = 1 / (grid * region.full_scale.ravel())  # of a step in each coordinate, in units of the radius
    flat, steep = center.ravel(), slope.ravel()

    def spent(order: IntArray, signs: IntArray, most: int) -> FloatArray:
        """Up to ``most`` steps on each coordinate in this order, while the budget lasts."""
        moved, left = flat.copy(), region.radius * (1 - 1e-9)  # sums of steps are rounded
        for at in order:
            room = grid - flat[at] if signs[at] > 0 else flat[at]
            steps = int(min(room, most, left / price[at]))
            moved[at] += signs[at] * steps
            left -= steps * price[at]
            if left < price.min():
                break
        return np.asarray(moved.reshape(center.shape) / grid)

    by_slope = np.argsort(-np.abs(steep) / price, kind="stable")

    def greedy() -> Points:
        down = np.where(steep < 0, 1, -1)
        for most in (grid, grid // 2, grid // 8, 8, 1):
            yield spent(by_slope, down, max(1, most))

    def singles() -> Points:
        while True:
            order = chance.permutation(flat.size)
            signs = np.where(flat * 2 > grid, -1, 1) if chance.random() < 0.5 else chance.choice([-1, 1], flat.size)
            yield spent(order, signs, grid if chance.random() < 0.5 else int(chance.integers(1, grid + 1)))

    return {"greedy l1": greedy(), "pixels": singles()}


def candidates(
    region: Region | ReplacedRegion, grid: int | None, slope: FloatArray, chance: np.random.Generator
) -> dict[str, Points]:
    """The searches that fit a region, by name; the last of them never ends."""
    if isinstance(region, ReplacedRegion):
        return replacing(region, slope, chance)
    assert grid is not None
    return moving(region, grid, slope, chance)
