"""The explorer of runs with views: replaced places are judged by all views, and splitting is an l1 region."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.explore.conftest import whole

from smoothcert.errors import InputError
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.slices import SIZE, Asked

Made = Callable[..., Explorer]


@pytest.mark.parametrize(
    ("views", "against", "size", "words"),
    [
        ("bands:width=2,hidden=0", {"threat": "patch:1"}, 3, "a 3 × 3 patch"),
        ("blocks:side=2,hidden=0", {"threat": "patch:1"}, 4, "a 4 × 4 patch"),
        ("ablation:keep=1,ask=all,hidden=0", {"norm": 0}, 32, "any 32 coordinates"),
    ],
)
def test_the_worst_of_the_certified_size_holds_and_one_more_flips(
    viewed: Made, views: str, against: dict, size: int, words: str
) -> None:
    """Sizes by hand: 3 + 1 of 8 bands, (4 + 1)² of 64 blocks, 32 of 64 pixels are at most half, and the class is the first."""
    explorer = viewed(views, **against)
    shown = explorer.input(0)
    assert (shown["threat"]["size"], shown["threat"]["words"], shown["exact"]) == (size, words, True)
    assert "alpha" not in shown["meaning"]
    assert shown["looks"] == []
    for more, answer in ((0, 0), (1, 1)):
        found = explorer.point(0, {"worst": size + more}, 10, False)
        assert (found["inside"], found["label"]) == (more == 0, answer)
        assert (found["replaced"]["size"], sum(found["counts"])) == (size + more, shown["trials"])
        assert found["part"] is None
        place = torch.from_numpy(
            explorer._specimen(0).point(explorer._worst(explorer._specimen(0), size + more))
        ).float()
        assert explorer.smoother.predict(place[None]) == [answer]


def test_places_of_ones_own(viewed: Made) -> None:
    explorer = viewed("bands:width=2,hidden=0", threat="patch:1")
    patch = [8 * row + column for row in (2, 3, 4) for column in (5, 6, 7)]
    found = explorer.point(0, {"places": patch, "value": 1.0}, 10, False)
    assert (found["inside"], found["label"], found["counts"]) == (True, 0, [4, 4])
    assert found["replaced"] == {"places": patch, "size": 3, "words": "a 3 × 3 patch"}
    apart = explorer.point(0, {"places": [0, 7], "value": 0.25}, 10, False)
    assert (apart["inside"], apart["label"], apart["replaced"]["size"]) == (False, 0, 8)
    nothing = explorer.point(0, {"places": [0, 7], "value": 0.0}, 10, False)
    assert (nothing["inside"], nothing["replaced"]["places"]) == (True, [])


def test_views_are_shown_with_their_answers(viewed: Made) -> None:
    explorer = viewed("bands:width=2,hidden=0", threat="patch:1")
    copies, answers = explorer._specimen(1).copies(12)
    assert (len(copies), answers) == (8, [0] * 8)  # no more than there are
    assert [int(copy[0, 2, 3] > 0) for copy in copies] == [0, 0, 1, 1, 0, 0, 0, 0]
    unsure = viewed("bands:width=2,hidden=0,confidence=0.9", threat="patch:1")
    assert unsure._specimen(0).copies(3)[1] == [None] * 3  # a softmax of 0.73
    assert unsure.input(0)["invalid"] == 8


def test_splitting_is_an_l1_region(viewed: Made) -> None:
    """The diamond, the classes on the plane and the answers at points, each counted by hand over the views."""
    explorer = viewed("splitting:lam=0.1", norm=1)
    specimen, smoother = explorer._specimen(0), explorer.smoother
    radius = explorer.records[0].radius
    assert radius > 0
    found = whole(explorer, Asked(0, "extremes", votes=20, zoom=3.0))
    diamond = np.abs(np.array(found["outlines"]["region"])).sum(axis=1)
    np.testing.assert_allclose(diamond, radius)
    view, axes = smoother.noise.view, explorer._axes_of(specimen, "extremes", 0)
    numbers = (np.arange(20) * 51 / 20).astype(int)  # of 51 views
    steps = np.linspace(-1, 1, SIZE) * found["extent"]
    for row, column in ((0, 0), (16, 16), (20, 31)):
        place = specimen.point(steps[column] * axes.vectors[0] + steps[row] * axes.vectors[1])
        seen = view.through(np.rint(place * 255).astype(int), view.lens((1, 8, 8), numbers)) / view.unit
        votes = smoother.model(torch.from_numpy(seen)).argmax(dim=1).bincount(minlength=2)
        assert found["label"][row * SIZE + column] == int(votes.argmax())
        assert found["share"][row * SIZE + column] == pytest.approx(int(votes.max()) / 20)
    for far, inside in ((radius, True), (radius + 1 / 255, False)):
        asked = explorer.point(0, {"axes": "extremes", "seed": 0, "a": far, "b": 0.0}, 10, False)
        assert asked["inside"] is inside
        assert sum(asked["counts"]) == 51
    assert "down the slope" in whole(explorer, Asked(0))["words"][0]


def test_sampled_views_vote_as_noise_does(viewed: Made) -> None:
    explorer = viewed("ablation:keep=5,hidden=0", norm=0)
    shown = explorer.input(0)
    assert (shown["exact"], shown["views"], shown["alpha"]) == (False, True, 0.001)
    assert shown["looks"][-1]["votes"] == shown["trials"]
    inside = explorer.point(0, {"worst": shown["threat"]["size"]}, 200, False)
    assert (inside["inside"], sum(inside["counts"])) == (True, 200)


def test_what_is_refused(viewed: Made) -> None:
    patches, split = viewed("bands:width=2,hidden=0", threat="patch:1"), viewed("splitting:lam=0.1", norm=1)
    with pytest.raises(InputError, match="which no plane shows"):
        patches._axes_of(patches._specimen(0), "random", 0)
    for explorer, size in ((split, 1), (patches, -1)):
        with pytest.raises(InputError, match="certified against a threat"):
            explorer.point(0, {"worst": size}, 10, False)
    with pytest.raises(IndexError):
        patches.point(0, {"places": [64], "value": 1.0}, 10, False)
