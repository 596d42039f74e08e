"""What every kind of views must pass: worlds so small that every input and every neighbour of it is looked at.

A classifier is drawn at random for every view, so that the smoothed answer is known everywhere; then no answer may change
inside a certified region, no pair of inputs may differ in more views than was said, and one view more must be able to flip
some answer. Each check takes a world and raises AssertionError; views of your own can be put through the same checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from smoothcert.maths import Array, FloatArray, IntArray
from smoothcert.maths.counting import counted_reach
from smoothcert.regions import Region
from smoothcert.threats import THREATS, ReplacedRegion, Threat
from smoothcert.views import View, view_named

# Views, the shape of the inputs, and the number of values that a coordinate may have.
EXAMPLES: tuple[tuple[str, tuple[int, ...], int], ...] = (
    ("splitting:lam=1.5,steps=4", (3,), 5),
    ("splitting:lam=0.375,steps=4", (3,), 5),
    ("bands:width=2", (1, 2, 4), 2),
    ("bands:width=1", (2, 1, 4), 2),
    ("bands:width=3,hidden=0", (2, 5), 2),
    ("blocks:side=2", (3, 3), 2),
    ("blocks:side=1", (2, 2, 2), 2),
    ("ablation:keep=2,ask=all", (6,), 3),
    ("ablation:keep=3,ask=all", (1, 2, 3), 3),
    ("chunks:length=2", (7,), 2),
    ("chunks:length=3", (6,), 3),
)
CHANCES = (0.55, 0.2, 0.15, 0.1)  # of three classes and of no vote: margins of all sizes, and ties

Reach = Callable[[IntArray], tuple[IntArray, IntArray]]


@dataclass(frozen=True, eq=False)
class World:
    """Every input of one shape, (points, *shape), and how its views are classified, (points, views); −1 is no vote."""

    view: View
    points: IntArray
    seen: IntArray  # a number for what each view shows, (points, views)
    answers: IntArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.points.shape[1:]

    @property
    def counts(self) -> IntArray:
        """The votes of each input, (points, classes)."""
        return np.stack([(self.answers == label).sum(axis=1) for label in range(len(CHANCES) - 1)], axis=1)

    @property
    def changed(self) -> IntArray:
        """How many views differ between two inputs, (points, points)."""
        return np.asarray((self.seen[:, None] != self.seen[None]).sum(axis=2))


@dataclass(frozen=True)
class Findings:
    """Of all pairs of inputs: where more views changed than was said, where an answer changed inside a region, and where
    one changed with just one view more than proved."""

    pairs: int
    moved: int
    flipped: int
    beyond: int


def world_of(view: View, shape: tuple[int, ...], levels: int, rng: np.random.Generator) -> World:
    """All inputs with values 0 … levels − 1 (in grid steps), and a classifier for each view drawn at random."""
    points = np.array(list(product(range(levels), repeat=int(np.prod(shape))))).reshape(-1, *shape)
    lens = view.lens(shape, np.arange(view.count(shape)))
    shown = [np.asarray(view.through(point, lens)) for point in points]
    seen = np.stack([_numbered(np.stack([each[t] for each in shown])) for t in range(view.count(shape))], axis=1)
    table = rng.choice(len(CHANCES), p=CHANCES, size=(seen.shape[1], int(seen.max()) + 1))
    answers = table[np.arange(seen.shape[1]), seen]
    return World(view, points, seen, np.where(answers == len(CHANCES) - 1, -1, answers))


def explored(world: World, threat: Threat | float, reach: Reach = counted_reach) -> Findings:
    """Every pair of inputs against what the views claim; ``reach`` is the rule from votes to views that may change."""
    winners, allowed = reach(world.counts)
    differs, changed = winners[:, None] != winners[None], world.changed
    if isinstance(threat, Threat):
        needed = sizes_needed(world, threat)
        claimed = np.array([world.view.touched(threat.resized(s), world.shape) for s in range(int(needed.max()) + 1)])
        inside = needed <= np.array([_size(world, threat, int(ok)) for ok in allowed])[:, None]
        moved = changed > claimed[needed]
    else:
        inside, moved = _distances(world, threat, allowed, changed)
    beyond = differs & (changed == allowed[:, None] + 1)
    return Findings(changed.size, int(moved.sum()), int((differs & inside).sum()), int(beyond.sum()))


def sizes_needed(world: World, threat: Threat) -> IntArray:
    """The least size at which the threat makes one input of another, (points, points), by trying all sizes."""
    flat = world.points.reshape(len(world.points), -1)
    powers = 1 << np.arange(flat.shape[1])
    patterns = ((flat[:, None] != flat[None]) * powers).sum(axis=2)
    most, zero = threat.most(world.shape), np.zeros(world.shape)

    def least(pattern: int) -> int:
        point = (pattern >> np.arange(flat.shape[1]) & 1).reshape(world.shape)
        return next(s for s in range(most + 1) if ReplacedRegion(zero, threat.resized(s)).contains(point))

    known, place = np.unique(patterns, return_inverse=True)
    return np.array([least(int(pattern)) for pattern in known])[place].reshape(patterns.shape)


def _size(world: World, threat: Threat, allowed: int) -> int:
    region = world.view.region(np.zeros(world.shape), threat, allowed)
    assert isinstance(region, ReplacedRegion)
    return region.size


def _distances(
    world: World, norm: float, allowed: IntArray, changed: IntArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pairs lie in the region of the first, and which differ in more views than a region around them says."""
    grid = world.view.grid or 1
    center = world.points[0] / grid
    regions = [world.view.region(center, norm, int(ok)) for ok in range(int(allowed.max()) + 1)]
    assert all(isinstance(region, Region) for region in regions)
    radii = np.array([region.radius for region in regions if isinstance(region, Region)])
    unit = world.view.region(center, norm, 1)
    assert isinstance(unit, Region)
    offsets: FloatArray = np.abs(world.points[:, None] - world.points[None]) / grid / unit.full_scale
    gauge = offsets.reshape(*changed.shape, -1).sum(axis=2)
    # A little is added on the side of containing more, so that rounding hides nothing.
    return gauge <= radii[allowed][:, None] * (1 + 1e-9), changed > np.rint(gauge / unit.radius * (1 + 1e-9))


def _numbered(rows: Array) -> IntArray:
    """Equal rows get equal numbers, from 0."""
    return np.asarray(np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)[1]).ravel()


def threats_of(view: View) -> list[Threat | float]:
    """All that these views have a certificate against."""
    return [*view.norms, *(THREATS[name]() for name in view.threats)]


def fitting(view: View, shape: tuple[int, ...]) -> list[Threat | float]:
    """Those of its threats that inputs of this shape can suffer: no patch on a line, no span in a picture."""
    kinds = {"patch": len(shape) >= 2, "span": len(shape) == 1}
    return [threat for threat in threats_of(view) if not isinstance(threat, Threat) or kinds.get(threat.name, True)]


def check_regions(world: World) -> None:
    """No answer changes inside a region, and no two inputs differ in more views than was said."""
    for threat in fitting(world.view, world.shape):
        found = explored(world, threat)
        assert found.moved == 0, f"{world.view}, {threat}: {found.moved} pairs differ in more views than was said"
        assert found.flipped == 0, f"{world.view}, {threat}: {found.flipped} answers change inside their region"


def check_hidden(world: World) -> None:
    """What a view hides has no influence: through every lens, an input that differs in hidden places only looks the same."""
    view, shape = world.view, world.shape
    rng = np.random.default_rng(7)
    for number in range(view.count(shape)):
        lens = view.lens(shape, np.array([number]))
        if lens.dtype != bool:
            return
        kept = np.broadcast_to(lens[0], shape)
        for point in world.points[:: max(1, len(world.points) // 20)]:
            other = np.where(kept, point, rng.integers(0, 1000, shape))
            assert np.array_equal(view.through(point, lens), view.through(other, lens)), f"{view}: view {number} leaks"


def check_name(world: World) -> None:
    """The text of the views reads back as the same views."""
    again = view_named(str(world.view))
    numbers = np.arange(again.count(world.shape))
    assert str(again) == str(world.view)
    assert np.array_equal(again.lens(world.shape, numbers), world.view.lens(world.shape, numbers))


VIEW_CHECKS: dict[str, Callable[[World], None]] = {
    "regions": check_regions,
    "hidden": check_hidden,
    "name": check_name,
}
