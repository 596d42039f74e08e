"""Every kind of views passes every check; broken ones fail the check that is meant for them; known answers flip."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothcert.errors import SettingError, UnknownName
from smoothcert.identity import described
from smoothcert.laws import NumpyDraws
from smoothcert.maths.counting import counted_reach, sampled_reach
from smoothcert.regions import Region
from smoothcert.testing.views import EXAMPLES, VIEW_CHECKS, World, check_hidden, check_regions, explored, world_of
from smoothcert.threats import THREATS, Coordinates, Patch, ReplacedRegion, Span, Threat
from smoothcert.views import VIEWS, Ablation, Bands, Blocks, Chunks, Splitting, View, view_named
from smoothcert.views.confidence import best_confidence, certified_counts


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    rng = np.random.default_rng(0)
    return {spec: world_of(view_named(spec), shape, levels, rng) for spec, shape, levels in EXAMPLES}


@pytest.mark.parametrize("spec", [spec for spec, *_ in EXAMPLES])
@pytest.mark.parametrize("check", VIEW_CHECKS)
def test_views(spec: str, check: str, worlds: dict[str, World]) -> None:
    VIEW_CHECKS[check](worlds[spec])


def test_every_kind_is_an_example() -> None:
    assert {spec.partition(":")[0] for spec, *_ in EXAMPLES} == set(VIEWS)


def unequal(folder: Path, lengths: list[int], cls: type[Splitting] = Splitting, seed: int = 0) -> Splitting:
    """Splitting with a number of levels per coordinate, on a grid of five levels."""
    path = folder / ("-".join(map(str, lengths)) + ".npy")
    np.save(path, np.array(lengths))
    return cls(steps=4, file=str(path), seed=seed)


def unequal_worlds(folder: Path, cls: type[Splitting] = Splitting, trials: int = 70, lengths=(3, 4, 6, 12)):
    """Worlds of 125 inputs each with unequal numbers of levels."""
    rng = np.random.default_rng(11)
    for trial in range(trials):
        yield world_of(unequal(folder, rng.choice(lengths, 3).tolist(), cls, seed=trial), (3,), 5, rng)


def test_unequal_levels_over_a_million_pairs(tmp_path: Path) -> None:
    found = [explored(world, 1.0) for world in unequal_worlds(tmp_path)]
    assert sum(each.pairs for each in found) >= 1_000_000
    assert sum(each.moved + each.flipped for each in found) == 0
    assert sum(each.beyond for each in found) > 0  # with one view more, some answer changes


def no_tie_rule(counts):
    winner, _ = counted_reach(counts)
    others = np.where(np.arange(counts.shape[1]) == winner[:, None], -1, counts).max(axis=1)
    return winner, (counts.max(axis=1) - others) // 2


def test_the_tie_rule_is_needed(tmp_path: Path) -> None:
    assert sum(explored(world, 1.0, no_tie_rule).flipped for world in unequal_worlds(tmp_path, trials=20)) > 0


class OneScale(Splitting):
    """Forgets L/L_i: every coordinate is taken for the widest."""

    def region(self, center, threat, reach):
        region = super().region(center, threat, reach)
        return Region(region.center, region.scale.max() * np.ones_like(region.scale), region.radius, region.norm)


@dataclass(frozen=True)
class RoundedViews(Splitting):
    """Cells of 5.5 grid steps, and as many views as that rounded: some levels are cut in two of the six views."""

    def _whole_length(self) -> int:
        return 6

    def lens(self, shape, numbers):
        first = (numbers[:, None] + np.arange(*shape)) % 6
        cuts = [first + int(5.5 * k) for k in range(3)]
        return np.stack([*cuts, *(np.full_like(first, cell) for cell in range(4))])


def test_each_coordinate_has_its_own_scale(tmp_path: Path) -> None:
    found = [explored(world, 1.0) for world in unequal_worlds(tmp_path, OneScale, 20, (3, 12))]
    assert sum(each.flipped for each in found) > 0
    assert sum(each.moved for each in found) > 0


def test_the_number_of_views_is_not_rounded() -> None:
    rng = np.random.default_rng(3)
    found = [explored(world_of(RoundedViews(lam=0.25, steps=11), (2,), 12, rng), 1.0) for _ in range(20)]
    assert sum(each.moved for each in found) > 0
    assert sum(each.flipped for each in found) > 0


@dataclass(frozen=True)
class CentredBands(Bands):
    """Takes the mean of the whole picture before it hides a part."""

    def through(self, x, lens):
        return super().through(x - x.mean(), lens)


@dataclass(frozen=True)
class NarrowCount(Bands):
    """Counts a band too few."""

    def touched(self, threat: Threat, shape: tuple[int, ...]) -> int:
        return max(super().touched(threat, shape) - 1, 0)


@dataclass(frozen=True)
class OverlappingChunks(Chunks):
    """Shows two places more than it counts with."""

    def lens(self, shape, numbers):
        kept = super().lens(shape, numbers)
        return kept | np.roll(kept, 2, axis=1)


@pytest.mark.parametrize(
    ("view", "shape"),
    [(CentredBands(width=1), (1, 2, 4)), (NarrowCount(width=2), (1, 2, 4)), (OverlappingChunks(length=2), (8,))],
)
def test_broken_views_are_caught(view: View, shape: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="more views than was said"):
        check_regions(world_of(view, shape, 2, np.random.default_rng(1)))


def test_a_mean_before_masking_leaks_and_breaks_certificates() -> None:
    rng = np.random.default_rng(2)
    worlds = [world_of(CentredBands(width=1), (1, 2, 4), 2, rng) for _ in range(10)]
    assert sum(explored(world, Patch()).flipped for world in worlds) > 0
    with pytest.raises(AssertionError, match="leaks"):
        check_hidden(worlds[0])


def answer_of(view: View, point: np.ndarray, bright: float) -> tuple[int, int]:
    """A smoothed classifier with a known answer: a view votes for 1 if anything brighter is seen. Its winner and reach."""
    lens = view.lens(point.shape, np.arange(view.count(point.shape)))
    seen = view.through(point, lens) / view.unit
    ones = int((seen.reshape(len(seen), -1) > bright).any(axis=1).sum())
    winner, reach = counted_reach([len(seen) - ones, ones])
    return int(winner), int(reach)


KNOWN = [
    (Bands(width=4), Patch(), (1, 28, 28), np.s_[:, 0:12, 8:20], 11),
    (Blocks(side=4), Patch(), (1, 12, 12), np.s_[:, 2:8, 3:9], 5),
    (Chunks(length=2), Span(), (20,), np.s_[1:11], 9),
    (Ablation(keep=3, ask="all"), Coordinates(), (8,), np.s_[[2, 5]], 1),
    (Bands(width=4), Coordinates(), (1, 28, 28), np.s_[:, 3, [0, 6, 12, 18]], 3),
    (Chunks(length=2), Coordinates(), (20,), np.s_[[0, 3, 7, 11, 14, 19]], 5),
]


@pytest.mark.parametrize(("view", "threat", "shape", "places", "size"), KNOWN, ids=lambda value: str(value)[:30])
def test_one_place_more_than_certified_flips(view: View, threat: Threat, shape: tuple, places, size: int) -> None:
    dark = np.zeros(shape)
    winner, reach = answer_of(view, dark, 0.5)
    region = view.region(dark, threat, reach)
    assert isinstance(region, ReplacedRegion)
    assert (winner, region.size) == (0, size)
    bright = dark.copy()
    bright[places] = 1.0
    assert not region.contains(bright)
    assert ReplacedRegion(dark, threat.resized(size + 1)).contains(bright)
    assert answer_of(view, bright, 0.5)[0] == 1


def test_one_step_more_than_certified_flips() -> None:
    view, dark = Splitting(lam=0.5), np.zeros(1, dtype=int)
    winner, reach = answer_of(view, dark, 0.5)
    region = view.region(dark / 255, 1.0, reach)
    assert isinstance(region, Region)
    assert (winner, reach, region.inner_radius) == (0, 127, pytest.approx(127 / 255))
    assert region.contains([126 / 255])
    assert not region.contains([128 / 255])
    assert (answer_of(view, dark + 127, 0.5)[0], answer_of(view, dark + 128, 0.5)[0]) == (0, 1)


def test_the_published_radius() -> None:
    """l1 radius ρ/q of 75 views among 510 on the grid of 255, whatever the shape of the input."""
    region = Splitting(lam=1).region(np.zeros((1, 28, 28)), 1.0, 75)
    assert (Splitting(lam=1).count((1, 28, 28)), region.norm) == (510, 1.0)
    assert region.inner_radius == pytest.approx(75 / 255, rel=1e-15)


@pytest.mark.parametrize("lam", [3.0, 0.1, 1 / 510])
def test_a_cell_is_shown_by_its_middle(lam: float) -> None:
    """Against the formula of the cell c = ⌊(j − s − 1)/L⌋, on every level of the grid."""
    view, length = Splitting(lam=lam), round(510 * lam)
    lens = view.lens((256,), np.arange(view.count((256,))))
    levels, cut = np.arange(256), lens[0]
    edge = cut + 0.5 + length * ((levels - cut - 1) // length)
    middle = 0.5 * (np.maximum(0, edge) + np.minimum(255, edge + length)) / 255
    np.testing.assert_allclose(view.through(levels, lens) / view.unit, middle, rtol=1e-12)
    assert view.through(levels, lens).dtype == np.int64


@pytest.mark.parametrize("spec", [spec for spec, *_ in EXAMPLES])
def test_tensors_see_what_arrays_see(spec: str, worlds: dict[str, World]) -> None:
    world = worlds[spec]
    lens = world.view.lens(world.shape, np.arange(world.view.count(world.shape)))
    for point in world.points[::37]:
        seen = world.view.through(torch.from_numpy(point), torch.from_numpy(lens))
        np.testing.assert_array_equal(seen.numpy(), world.view.through(point, lens))


def test_drawn_subsets_have_the_right_size_and_share() -> None:
    """Each of 8 places is kept with probability 3/8; 4 000 draws, 6 standard deviations: false alarm below 2e-8."""
    view = Ablation(keep=3)
    kept = view.drawn((8,), 4000, NumpyDraws(np.random.default_rng(5)))
    assert (kept.sum(axis=1) == 3).all()
    assert np.abs(kept.mean(axis=0) - 3 / 8).max() < 6 * np.sqrt(3 / 8 * 5 / 8 / 4000)
    assert not view.complete
    assert len(np.unique(kept, axis=0)) == 56


def test_drawn_views_are_any_of_them() -> None:
    view = Bands(width=1)
    drawn = view.drawn((1, 2, 4), 400, NumpyDraws(np.random.default_rng(6)))
    assert drawn.reshape(400, 4).sum(axis=0).min() > 50  # expected 100, standard deviation 9


def test_sampled_ablation_certifies_what_its_share_allows() -> None:
    view = Ablation(keep=45)
    views = view.count((1, 28, 28))
    for size, share in ((1, 0.0574), (2, 0.1116), (10, 0.4482)):
        gap = 2 * share
        for shift, expected in ((-1e-3, size - 1), (1e-3, size)):
            reach = sampled_reach(0.5 + gap / 2 + shift, 0.5 - gap / 2, views)
            region = view.region(np.zeros((1, 28, 28)), Coordinates(), reach)
            assert isinstance(region, ReplacedRegion)
            assert region.size == expected


@pytest.mark.parametrize(
    ("spec", "shape", "says"),
    [
        ("splitting:lam=0.1001", (3,), "use lam=0.1 or 0.101960784314"),
        ("splitting:lam=0.0001", (3,), "whole number"),
        ("splitting:file=/nowhere.npy", (3,), "cannot read /nowhere.npy"),
        ("bands:width=29", (1, 28, 28), "width=29 is more than the columns"),
        ("bands", (12,), "no pictures"),
        ("blocks:side=5", (1, 4, 9), "side=5 is more than"),
        ("chunks:length=3", (1, 4, 4), "no lines"),
        ("chunks:length=9", (8,), "length=9 is more than the places"),
        ("ablation:keep=9", (8,), "keep=9 is more than the places"),
        ("ablation:keep=45,ask=all", (1, 28, 28), "ask=sampled"),
    ],
)
def test_shapes_that_do_not_fit(spec: str, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        view_named(spec).count(shape)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("splitting:lam=-1", "lam=-1 is outside"),
        ("bands:width=0", "width=0 is outside"),
        ("bands:confidence=1", "confidence=1 is outside"),
        ("ablation:ask=some", "one of sampled, all"),
        ("bands:lam=3", "no parameter"),
    ],
)
def test_bad_parameters(spec: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        view_named(spec)
    with pytest.raises(UnknownName, match="did you mean 'bands'"):
        view_named("band")


@pytest.mark.parametrize("spec", ["splitting", "bands", "blocks:side=2", "chunks:length=2", "ablation:keep=2"])
def test_a_threat_without_such_views_is_refused(spec: str) -> None:
    view = view_named(spec)
    shape = (8,) if "span" in view.threats else (1, 8, 8)
    for threat in [kind() for name, kind in THREATS.items() if name not in view.threats]:
        with pytest.raises(SettingError, match="has no certificate against|no lines|no pictures"):
            view.region(np.zeros(shape), threat, 1)
    with pytest.raises(SettingError, match="no certificate against l2; it has one for"):
        view.region(np.zeros(shape), 2.0, 1)


def test_levels_from_files(tmp_path: Path) -> None:
    view = unequal(tmp_path, [3, 4, 6])
    with pytest.raises(SettingError, match="shape"):
        view.count((4,))
    before, scale = described(view), view.scale
    np.save(view.file or "", np.array([3, 4, 12]))
    assert described(replace(view)) != before == described(view)  # known by what the file held when it was read
    assert np.array_equal(view.scale, scale)
    for bad in (np.array([1.5, 2.0, 3.0]), np.array([0, 1, 2])):
        np.save(view.file or "", bad)
        with pytest.raises(SettingError, match="whole numbers from 1 up"):
            replace(view).count((3,))
    with pytest.raises(SettingError, match="divide one another"):
        unequal(tmp_path, [997, 991, 1009]).count((3,))


def test_confidence_is_chosen_by_what_holds() -> None:
    """Unsure views are wrong here, so that a threshold between the two kinds is best; NaN never votes."""
    winners = np.array([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]])
    confidences = np.array([[0.9, 0.9, 0.9, 0.2, 0.2, 0.2, np.nan]] * 2)
    assert certified_counts(winners, confidences, 2, 0.0).tolist() == [[3, 3], [3, 3]]
    assert certified_counts(winners, confidences, 2, 0.5).tolist() == [[3, 0], [0, 3]]
    assert best_confidence(winners, confidences, np.array([0, 1]), 2, needed=[1]) == 0.3
