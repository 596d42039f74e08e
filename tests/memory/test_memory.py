"""The memory keeps every promise: manufactured conflicts in every shape, and what its certificates are worth."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm as gaussian

import smoothcert.memory.index
from smoothcert.certificates import Certificate, Soundness
from smoothcert.errors import InputError, RunError, SettingError
from smoothcert.estimators.bounds import Bound
from smoothcert.maths.geometry import p_norm
from smoothcert.memory.memory import Memory
from smoothcert.records.promise import Promise
from smoothcert.regions import Region

BOUND = Bound(0.9, 0.001, 100)
SHAPES = {"l1": [1.0], "l1.5": [1.5], "l2": [2.0], "l3": [3.0], "linf": [math.inf], "mixed": [1.0, 2.0, 2.5, math.inf]}
HISTORIES = 200


def certificate(
    label: int | None, center: object, radius: float, *, scale: object = 1.0, norm: float = 2.0,
    soundness: Soundness = Soundness.FROZEN,
) -> Certificate:  # fmt: skip
    if label is None:
        return Certificate(None, BOUND, None, soundness)
    region = Region(np.asarray(center, dtype=float), np.asarray(scale, dtype=float), radius, norm)
    return Certificate(label, BOUND, region, soundness, "some rule")


def history(
    rng: np.random.Generator, norms: list[float], length: int, dim: int
) -> list[tuple[Certificate, np.ndarray]]:
    """Certificates that crowd: three labels, radii as large as the distances, points, abstentions, repeated inputs."""
    found: list[tuple[Certificate, np.ndarray]] = []
    for _ in range(length):
        center = rng.normal(size=dim)
        if found and rng.uniform() < 0.15:
            center = found[int(rng.integers(len(found)))][1]
        label = None if rng.uniform() < 0.1 else int(rng.integers(3))
        radius = 0.0 if rng.uniform() < 0.1 else float(rng.exponential(0.7))
        scale = np.exp(rng.normal(size=dim) * 0.6) if rng.uniform() < 0.7 else np.exp(rng.normal() * 0.6)
        found.append((certificate(label, center, radius, scale=scale, norm=float(rng.choice(norms))), center))
    return found


def settle_all(memory: Memory, items: list[tuple[Certificate, np.ndarray]], first: int = 0) -> list[Certificate]:
    return [memory.settle(c, index=first + i, center=center) for i, (c, center) in enumerate(items)]


def border(region: Region, directions: np.ndarray) -> np.ndarray:
    scaled = directions * region.full_scale
    return region.center + region.radius * scaled / p_norm(scaled / region.full_scale, region.norm)[:, None]


def gauges(region: Region, points: np.ndarray) -> np.ndarray:
    return p_norm((points - region.center) / region.full_scale, region.norm)


def directions_of(dim: int, rng: np.random.Generator) -> np.ndarray:
    if dim == 2:
        angle = np.linspace(0, 2 * np.pi, 240, endpoint=False) + 1e-3
        around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        around = rng.normal(size=(240, dim))
    return np.vstack([around, np.eye(dim), -np.eye(dim), np.ones((1, dim)), -np.ones((1, dim))])


def assert_nothing_contradicts(memory: Memory, directions: np.ndarray) -> int:
    """No border point of a region is in a region of another label, both ways; returns how many pairs were compared."""
    compared = 0
    promises = list(memory.promises())
    borders = [border(promise.region, directions) for promise in promises]
    for i, j in combinations(range(len(promises)), 2):
        if promises[i].label != promises[j].label:
            compared += 1
            assert np.all(gauges(promises[i].region, borders[j]) > promises[i].region.radius)
            assert np.all(gauges(promises[j].region, borders[i]) > promises[j].region.radius)
    return compared


@pytest.mark.parametrize("shape", SHAPES)
def test_no_two_promises_contradict(shape: str) -> None:
    rng = np.random.default_rng(len(shape))
    compared = cut = taken = 0
    for number in range(HISTORIES):
        dim = 2 if number % 2 else int(rng.integers(1, 5))
        items = history(rng, SHAPES[shape], 8, dim)
        memory = Memory()
        settled = settle_all(memory, items)
        compared += assert_nothing_contradicts(memory, directions_of(dim, rng))
        for (asked, center), given in zip(items, settled, strict=True):
            assert memory.answer(center) == given.label or given.label is None
            if asked.region is None or given.region is None:
                continue
            assert given.region.radius <= asked.region.radius
            taken += given.label != asked.label
            cut += given.region.radius < asked.region.radius and given.label == asked.label
    assert min(compared, cut, taken) > 100  # the conflicts were real


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_resumed_equals_unbroken(shape: str, tmp_path: Path) -> None:
    """Stopped anywhere, the last certificate settled a second time: the same results and the same promises."""
    rng = np.random.default_rng(29)
    for number in range(HISTORIES):
        items, stop = history(rng, SHAPES[shape], 8, int(rng.integers(1, 5))), int(rng.integers(1, 8))
        whole, path = Memory(), tmp_path / f"{number}.sqlite"
        unbroken = settle_all(whole, items)
        with Memory.open(path) as memory:
            resumed = settle_all(memory, items[:stop])
        with Memory.open(path) as memory:
            resumed[stop - 1 :] = settle_all(memory, items[stop - 1 :], stop - 1)
            assert [told(c) for c in resumed] == [told(c) for c in unbroken]
            pairs = zip(memory.promises(), whole.promises(), strict=True)
            assert all(a.index == b.index and told(a) == told(b) for a, b in pairs)


def told(given: Certificate | Promise) -> tuple[object, ...]:
    region = given.region
    return given.label, given.soundness, None if region is None else (region.radius, region.center.tolist())


@pytest.mark.parametrize("shape", SHAPES)
def test_every_point_of_a_promise_is_answered_with_its_label(shape: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(10):
        memory = Memory()
        settle_all(memory, history(rng, SHAPES[shape], 12, 3))
        for promise in memory.promises():
            steps = border(promise.region.resized(1.0), rng.normal(size=(5, 3))) - promise.region.center
            for point in promise.region.center + steps * promise.region.radius * rng.uniform(0, 1, size=(5, 1)):
                if promise.region.contains(point):  # rounding leaves a tiny region
                    assert memory.answer(point) == promise.label


@pytest.mark.parametrize("dim", [2, 300])
@pytest.mark.parametrize("shape", SHAPES)
def test_pruning_changes_nothing(shape: str, dim: int) -> None:
    """The same as the definition of the algorithm, region by region."""
    rng = np.random.default_rng(13)
    memory, stored = Memory(), []
    for asked, center in history(rng, SHAPES[shape], 60 if dim == 2 else 24, dim):
        if asked.region is not None:
            region = asked.region.resized(asked.region.radius * (10 if dim > 2 else 1))
            asked = certificate(asked.label, center, region.radius, scale=region.scale, norm=region.norm)
        settled = memory.settle(asked, center=center)
        inside = [c for c in stored if c.region.contains(center)]
        label = inside[0].label if inside else asked.label
        assert settled.label == label
        if asked.region is None or label is None:
            continue
        if label == asked.label:
            clear = [asked.region.clearance(c.region) for c in stored if c.label != label]
            expected = min([asked.region.radius, *(t * (1 - 1e-9) for t in clear)])
        else:
            expected = min(asked.region.radius, max(asked.region.room_inside(c.region) for c in inside) * (1 - 1e-9))
        assert settled.radius == pytest.approx(expected * float(np.min(asked.region.scale)), rel=1e-12)
        stored.append(settled)


def test_a_kept_copy_is_the_largest() -> None:
    rng = np.random.default_rng(17)
    cut = 0
    for norms in SHAPES.values():
        for _ in range(20):
            memory, stored = Memory(), []
            for asked, center in history(rng, norms, 10, 3):
                given = memory.settle(asked, center=center)
                if given.region is not None and given.label == asked.label and given.radius < asked.radius:
                    nearest = min(given.region.clearance(c.region) for c in stored if c.label != given.label)
                    assert given.region.radius >= nearest * (1 - 1e-6)
                    cut += 1
                if given.region is not None:
                    stored.append(given)
    assert cut > 50


@pytest.mark.parametrize("leak", ["loc", "scale"])
def test_noise_that_carries_the_label_is_overruled_by_the_first_promise(leak: str) -> None:
    """f(z) = sign z with loc 5·sign x, or a scale that shrinks on one side: frozen certificates contradict at distance
    0.06; through the memory the promise holds, whatever the model says later."""

    def frozen(x: float) -> Certificate:
        if leak == "loc":
            return certificate(int(x > 0), [x], (5 + abs(x)) * 0.76)
        scale = 1.0 if x > 0 else 0.01  # at -0.01 with scale 0.01 the model is sure of the other label
        label = 1 if leak == "scale" and x > 0 else 0
        return certificate(label, [x], float(gaussian.ppf(0.9999)), scale=scale)

    memory = Memory()
    first = memory.settle(frozen(0.05))
    later = memory.settle(frozen(-0.01))
    assert frozen(-0.01).label == 0
    assert (first.label, first.radius, later.label) == (1, frozen(0.05).radius, 1)
    assert later.rule == "memory"
    assert first.region is not None
    assert later.region is not None
    assert later.region.radius <= frozen(-0.01).region.radius  # type: ignore[union-attr]
    assert memory.answer([-1.0]) == 1


@pytest.mark.parametrize(
    ("before", "own", "taken"),
    [
        ("global", "global", "memory"),
        ("memory", "memory", "memory"),
        ("frozen", "memory", "memory"),
        ("estimate", "estimate", "estimate"),
        ("imported", "imported", "imported"),
    ],
)
def test_what_a_settled_certificate_is_worth(before: str, own: str, taken: str) -> None:
    memory = Memory()
    kept = memory.settle(certificate(0, [0.0], 1.0, soundness=Soundness(before)))
    cut = memory.settle(certificate(1, [3.0], 9.0, soundness=Soundness(before)))
    assert (kept.soundness, cut.soundness, cut.label) == (own, own, 1)
    assert kept.rule == "some rule"
    over = Memory()
    over.settle(certificate(0, [0.0], 1.0))
    answered = over.settle(certificate(1, [0.5], 1.0, soundness=Soundness(before)))
    assert (answered.label, answered.soundness, answered.rule) == (0, taken, "memory")
    under = Memory()
    under.settle(certificate(0, [0.0], 1.0, soundness=Soundness(before)))
    assert under.settle(certificate(1, [0.5], 1.0)).soundness == taken  # no better than what it was taken from


def test_abstentions() -> None:
    memory = Memory()
    abstention = certificate(None, None, 0.0)
    outside = memory.settle(abstention, center=[5.0])
    assert (outside.label, outside.region, outside.soundness, len(memory)) == (None, None, "memory", 0)
    memory.settle(certificate(2, [0.0], 1.0))
    assert memory.settle(abstention, center=[5.0]).label is None
    answered = memory.settle(abstention, center=[0.5])
    assert (answered.label, answered.radius, answered.soundness, len(memory)) == (2, 0.0, "memory", 1)
    assert answered.region is not None
    assert answered.region.contains([0.5])
    with pytest.raises(InputError, match="center=x"):
        memory.settle(abstention)


def test_a_point_is_stored_and_avoided() -> None:
    memory = Memory()
    memory.settle(certificate(0, [0.0, 0.0], 0.0))
    around = memory.settle(certificate(1, [1.0, 0.0], 5.0, scale=[2.0, 1.0]))
    assert around.region is not None
    assert around.region.radius == pytest.approx(0.5, rel=1e-8)
    assert memory.answer([0.0, 0.0]) == 0
    same = memory.settle(certificate(1, [0.0, 0.0], 3.0))
    assert (same.label, same.radius) == (0, 0.0)


def test_an_index_is_settled_once() -> None:
    memory = Memory()
    first = memory.settle(certificate(0, [0.0], 1.0), index=4)
    memory.settle(certificate(0, [1.5], 1.0), index=5)
    again = memory.settle(certificate(1, [0.0], 7.0), index=4)
    assert (again.label, again.radius, again.soundness, again.bound) == (0, 1.0, "memory", first.bound)
    assert (again.rule, len(memory)) == ("some rule", 2)
    with pytest.raises(RunError, match="another input"):
        memory.settle(certificate(0, [0.1], 1.0), index=4)


def test_predictions_are_kept_as_points() -> None:
    memory = Memory()
    memory.settle(certificate(0, [0.0], 1.0))
    assert [memory.settle_answer([x], 1) for x in (0.5, 2.0, 2.0)] == [0, 1, 1]
    assert len(memory) == 2
    assert memory.settle(certificate(0, [4.0], 9.0)).radius == pytest.approx(2.0, rel=1e-8)


def test_regions_beyond_the_cache_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    items = history(np.random.default_rng(23), SHAPES["mixed"], 40, 2)
    near = settle_all(Memory(), items)
    monkeypatch.setattr(smoothcert.memory.index, "CACHE", 100)
    far = settle_all(Memory(), items)
    assert [(c.label, c.radius) for c in near] == [(c.label, c.radius) for c in far]


@pytest.mark.parametrize(
    ("bad", "error", "word"),
    [
        (certificate(0, [0.0], 1.0, norm=0.5), SettingError, "not convex"),
        (certificate(0, [0.0], math.inf), InputError, "radius"),
        (certificate(0, [0.0], -1.0), InputError, "radius"),
        (certificate(0, [math.nan], 1.0), InputError, "NaN"),
        (certificate(0, [0.0], 1.0, scale=[0.0]), InputError, "scales"),
        (certificate(0, [0.0, 1.0], 1.0), InputError, "coordinates"),
        (Certificate(3, BOUND, None, Soundness.FROZEN), InputError, "both, or neither"),
    ],
)
def test_what_cannot_be_kept_is_refused(bad: Certificate, error: type[Exception], word: str) -> None:
    memory = Memory()
    memory.settle(certificate(0, [0.0], 1.0))
    with pytest.raises(error, match=word):
        memory.settle(bad, center=[0.0] if bad.region is None else None)
    assert len(memory) == 1
    with pytest.raises(InputError):
        memory.settle(certificate(0, [0.0], 1.0), center=[2.0])
    with pytest.raises(InputError):
        memory.answer([0.0, 0.0])
