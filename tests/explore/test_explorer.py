"""What the explorer says: outlines, axes, points and slices against independent computations."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.explore.conftest import whole
from torch import nn

from smoothcert.data.guests import as_dataset
from smoothcert.data.rows import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.errors import InputError, RunError, SettingError, SmoothcertError
from smoothcert.explore import directions
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.slices import SIZE, TOGETHER, Asked, order, outline, regions, within
from smoothcert.explore.specimen import Specimen
from smoothcert.noise import Noise
from smoothcert.records.findings import Attempt, Finding
from smoothcert.regions import Region
from smoothcert.run import certify_all, record_poll
from smoothcert.smoother import Batch, Smoother
from smoothcert.store import SqliteStore


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_an_outline_is_the_boundary_of_the_region(norm: float) -> None:
    draw = np.random.default_rng(1)
    region = Region(np.zeros(7), draw.uniform(0.2, 2, 7), 0.7, norm)
    vectors = np.linalg.qr(draw.standard_normal((7, 2)))[0].T
    for corner in outline(vectors, region.gauges, region.radius):
        assert region.contains(0.999 * corner @ vectors)
        assert not region.contains(1.001 * corner @ vectors)


def test_both_regions_of_an_input_are_outlined(explorer: Explorer) -> None:
    """The ellipsoid along the axes of its widest and narrowest pixel, and the largest ball inside it."""
    specimen = explorer._specimen(1)
    assert specimen.region is not None
    axes = directions.extremes(specimen, 0)
    found = regions(specimen, axes)
    scale, radius = specimen.scale, specimen.region.radius
    np.testing.assert_allclose(np.abs(found["region"]).max(axis=0), [radius * scale.max(), radius * scale.min()])
    np.testing.assert_allclose(np.linalg.norm(found["inner"], axis=1), radius * scale.min())
    assert scale.max() > 2 * scale.min()


def small(tmp_path: Path) -> Specimen:
    """An input of six coordinates and a smooth network."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
    smoother = Smoother(net, Noise("gaussian", 0.3), estimate=200)
    x = torch.linspace(-1, 1, 6)
    [poll] = smoother.polls([Batch(x[None], [0])])
    with SqliteStore(tmp_path) as store:
        record = record_poll(smoother, poll, smoother.conclude(poll), as_dataset(x[None]), store)
        return Specimen(record, smoother, x, store)


def test_curvature_finds_the_eigenvectors_of_the_dense_hessian(tmp_path: Path) -> None:
    specimen = small(tmp_path)
    found = directions.curvature(specimen, 0)
    product = directions._hessian(specimen)
    dense = np.stack([product(row) for row in np.eye(6)])
    np.testing.assert_allclose(dense, dense.T, atol=1e-5)
    moves = specimen.noise.noisy(specimen.x.expand(directions.DRAWS, 6), torch.Generator().manual_seed(0)) - specimen.x
    label = specimen.record.leader
    exact = torch.autograd.functional.hessian(
        lambda x: specimen.smoother.model(x + moves).softmax(dim=1).mean(dim=0)[label], specimen.x
    )
    np.testing.assert_allclose(dense, exact.numpy(), atol=1e-5)
    values, vectors = np.linalg.eigh(exact.double().numpy())
    order = np.argsort(-np.abs(values))
    assert abs(found.vectors[0] @ vectors[:, order[0]]) > 0.99
    assert abs(found.vectors[1] @ exact.double().numpy() @ found.vectors[1]) < abs(values[order[-1]]) + 0.05 * abs(
        values[order[0]]
    )
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(2), atol=1e-6)


def test_the_other_axes(explorer: Explorer) -> None:
    specimen = explorer._specimen(1)
    scale = specimen.scale.ravel()
    extremes = directions.extremes(specimen, 0)
    assert [abs(row) @ scale for row in extremes.vectors] == [scale.max(), scale.min()]
    first, again, other = (directions.random(specimen, seed).vectors for seed in (0, 0, 1))
    np.testing.assert_allclose(first @ first.T, np.eye(2), atol=1e-12)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_point_is_judged_where_the_classifier_gets_it(explorer: Explorer) -> None:
    specimen = explorer._specimen(0)
    assert specimen.region is not None
    axes = explorer._axes_of(specimen, "extremes", 0)
    last = int(255 * specimen.region.radius * specimen.scale.max())  # the last grid step inside along the widest axis
    for steps, inside in ((0, True), (last, True), (last + 1, False)):
        # A third of a step off: what counts is the grid point that the classifier gets.
        a = (steps + 0.3) / 255
        found = explorer.point(0, {"axes": "extremes", "seed": 0, "a": a, "b": 0.0}, 100, False)
        place = specimen.point(a * axes.vectors[0])
        assert found["inside"] is inside is specimen.region.contains(place)
        np.testing.assert_allclose(place * 255, np.rint(place * 255), atol=1e-9)
        assert sum(found["counts"]) + found["invalid"] == 100
    # At the input itself it says what predict says.
    found = explorer.point(0, {"axes": "extremes", "seed": 0, "a": 0.0, "b": 0.0}, 100, False)
    x = torch.from_numpy(explorer.dataset.inputs([0]))
    assert [found["label"]] == explorer.smoother.predict(x, 0, votes=100)


def test_a_point_off_the_grid_is_what_float32_holds(tmp_path: Path) -> None:
    place = small(tmp_path).point(np.full(6, 1 / 3))
    np.testing.assert_allclose(place, np.linspace(-1, 1, 6) + 1 / 3, atol=1e-6)
    assert np.array_equal(place, place.astype(np.float32))


def test_a_drawing_is_a_perturbation(explorer: Explorer) -> None:
    drawing = np.zeros(784)
    drawing[:5] = 1.0
    found = explorer.point(0, {"drawing": drawing.tolist(), "channel": None, "far": 0.2}, 10, False)
    assert found["moved"] == 5
    assert found["distance"] == pytest.approx(0.2 * np.sqrt(5))
    with pytest.raises(InputError, match="one number per pixel"):
        explorer.point(0, {"drawing": [1.0], "far": 1.0}, 10, False)


def test_a_slice_is_what_the_classifier_answers_and_is_kept(explorer: Explorer) -> None:
    asked = Asked(2, "extremes", zoom=3.0)
    found = whole(explorer, asked)
    specimen = explorer._specimen(2)
    assert len(found["label"]) == SIZE**2
    vectors, steps = explorer._axes_of(specimen, "extremes", 0).vectors, np.linspace(-1, 1, SIZE) * found["extent"]
    for row, column in ((0, 0), (3, 30), (16, 16), (32, 5)):
        point = specimen.point(steps[column] * vectors[0] + steps[row] * vectors[1])
        with torch.inference_mode():
            chances = explorer.smoother.model(torch.from_numpy(point).float()[None]).softmax(dim=1)[0]
        assert found["label"][row * SIZE + column] == int(chances.argmax())
        assert found["share"][row * SIZE + column] == pytest.approx(float(chances.max()), abs=1e-4)
    job = explorer._jobs[asked]
    assert whole(explorer, asked) == found
    assert explorer._jobs[asked] is job
    votes = whole(explorer, replace(asked, votes=20))
    assert {round(20 * share, 2) % 1 for share in votes["share"]} == {0.0}


def test_a_stop_that_comes_first_stops_too(explorer: Explorer) -> None:
    """A ticket that was stopped begins nothing; one stopped later ends its slice, unless somebody else waits for it."""
    asked = Asked(3, "random", seed=99, votes=100)
    explorer.stop("early")
    assert explorer.slice(asked, "early")["stopped"]
    assert asked not in explorer._jobs
    explorer.slice(asked, "first")
    explorer.slice(asked, "second")
    job = explorer._jobs[asked]
    explorer.stop("first")
    assert job.wanted
    explorer.stop("second")
    assert not job.wanted
    explorer._done(lambda: None)  # a step that was under way is over
    explorer._done(lambda: None)
    done = job.done
    time.sleep(0.3)
    assert job.done == done < SIZE**2


def test_who_asks_no_more_is_not_waited_for(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(3, "random", seed=98, votes=100)
    explorer.slice(asked, "gone")
    monkeypatch.setattr("smoothcert.explore.explorer.PATIENCE", 0.0)
    assert not explorer._jobs[asked].wanted


def test_a_plane_is_filled_coarse_to_fine() -> None:
    cells = order(SIZE)
    assert len(cells) == len(set(cells)) == SIZE**2
    assert set(cells[:TOGETHER]) == {(r, c) for r in range(0, SIZE, 8) for c in range(0, SIZE, 8)}


def test_the_default_plane_shows_another_class(explorer: Explorer) -> None:
    found = whole(explorer, Asked(1))
    assert len({one for one in found["label"] if one is not None}) > 1
    specimen = explorer._specimen(1)
    axes = directions.nearest(specimen, 0)
    np.testing.assert_allclose(axes.vectors @ axes.vectors.T, np.eye(2), atol=1e-9)
    assert "down the slope" in axes.words[0]
    chances, point = directions._smoothed(specimen)
    label, rival = specimen.record.leader, int(axes.words[0].split("class ")[1].split(",")[0])
    margin = chances[label] - chances[rival]
    [slope] = torch.autograd.grad(margin, point)
    assert float(slope.double().numpy().ravel() @ axes.vectors[0]) == pytest.approx(-float(slope.norm()), rel=1e-4)


def test_the_plane_follows_what_attacks_found(explorer: Explorer) -> None:
    specimen = explorer._specimen(2)
    offset = np.random.default_rng(3).standard_normal(784)
    attempt = Attempt("random", 1.0, 4, 0.4, 0.5, 100, True)
    record = specimen.record
    specimen.worst = Finding(2, 0, record.soundness, 1.0, 1.0, 2.0, 0.001, 0.001, (attempt,), offset, False)
    axes = directions.nearest(specimen, 0)
    specimen.worst = None
    assert axes.words[0] == "towards class 4, as attacks found it"
    np.testing.assert_allclose(axes.vectors[0], offset / np.linalg.norm(offset))


def test_the_box_is_where_every_pixel_is_one(explorer: Explorer) -> None:
    specimen = explorer._specimen(0)
    axes = directions.extremes(specimen, 0)
    box = within(specimen, axes)
    assert box is not None
    for corner in box:
        inside = specimen.center.ravel() + 0.999 * corner @ axes.vectors
        assert inside.min() >= -1e-12
        assert inside.max() <= 1 + 1e-12
    coordinates = [int(abs(row).argmax()) for row in axes.vectors]
    for at, name in zip(coordinates, (0, 90), strict=True):  # straight along each axis: what is left up to 1
        assert np.linalg.norm(box[name]) == pytest.approx(1 - specimen.center.ravel()[at])


def test_the_votes_as_they_arrived(explorer: Explorer) -> None:
    """The last look is the record itself; a radius only where there is a certificate."""
    shown = explorer.input(1)
    record = explorer.records[1]
    assert [look["votes"] for look in shown["looks"]] == [sum(row) for row in record.estimation]
    assert shown["looks"][-1]["lower"] == pytest.approx(record.lower, abs=1e-6)
    assert shown["looks"][-1]["radius"] == float(shown["radius"])


def test_pixels_outside_are_counted(explorer: Explorer) -> None:
    drawing = np.zeros(784)
    drawing[:5] = 1.0
    dark = int((explorer._specimen(0).center.ravel()[:5] < 0.2).sum())
    assert explorer.point(0, {"drawing": drawing.tolist(), "far": -0.2}, 10, False)["outside"] == dark > 0


def test_noise_chosen_anew_betrays_a_frozen_certificate_and_the_memory_keeps_it(leak: Explorer) -> None:
    """Just left of zero: inside the region, where the input's own noise, but not the deployed classifier, says 1.

    Each answer is of 200 votes for a class of probability 1 - 4e-7, so a false alarm has probability below 1e-3.
    """
    left = {"axes": "extremes", "seed": 0, "a": -0.1, "b": 0.0}
    frozen, anew = (leak.point(0, left, 200, chosen) for chosen in (False, True))
    assert leak.overview()["reads_input"]
    assert frozen["inside"] is anew["inside"] is True
    assert (frozen["label"], anew["label"]) == (1, 0)
    assert frozen["promised"] == anew["promised"] == 1
    assert leak.point(0, left | {"a": -30.0}, 200, True)["promised"] is None


def test_a_memory_must_be_there(leak: Explorer, leaking: tuple[Smoother, ArrayDataset], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="give its file with --memory"):
        Explorer(*leaking, leak.run.place)
    with pytest.raises(SettingError, match="there is no memory at"):
        Explorer(*leaking, leak.run.place, tmp_path / "none")


def test_an_abstention_has_no_region(leak: Explorer) -> None:
    shown = leak.input(1)
    assert [shown[name] for name in ("label", "gauge", "reach")] == [None] * 3
    assert sum(shown["counts"]) == shown["trials"]
    found = leak.point(1, {"axes": "extremes", "seed": 0, "a": 30.0, "b": 0.0}, 200, False)
    assert (found["inside"], found["part"], found["label"], found["distance"]) == (None, None, 1, 30.0)
    slice_ = whole(leak, Asked(1, "extremes", zoom=3.0))
    assert slice_["outlines"] == {}
    assert slice_["extent"] == 3.0  # times the noise
    assert set(slice_["label"]) == {0, 1}


def test_a_point_is_not_asked_with_the_draws_of_the_certificate(leak: Explorer) -> None:
    """On an even split other draws give another count, except with probability 0.03; the seed is fixed."""
    specimen = leak._specimen(1)
    certifying = specimen.record.estimation[-1]
    assert specimen.ask(specimen.center, specimen.record.trials).counts != list(certifying)


def test_what_is_refused(explorer: Explorer, run: Path) -> None:
    with pytest.raises(InputError, match="no record of input 99"):
        explorer.input(99)
    with pytest.raises(SettingError, match="axes='up' is not one of nearest"):
        Asked(0, "up")
    other = Smoother(explorer.smoother.model, Noise.isotropic("gaussian", 0.1, grid=1 / 255))
    with pytest.raises(SmoothcertError, match="not what .* certified \\(scale: "):
        Explorer(other, explorer.dataset, run)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_under_another_runtime_it_shows_what_that_answers(tmp_path: Path, runtime: str) -> None:
    """A slice, copies and points: those of torch but for a few votes that rounding moves, and torch is not asked for them."""
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 3)).eval()
    pixels = np.random.default_rng(0).random((2, 1, 4, 4)).astype(np.float32)
    data = ArrayDataset("grey", pixels, np.zeros(2, int), classes=3)
    told = []
    for name in ("torch", runtime):
        smoother = Smoother(net, Noise("gaussian", 0.3), estimate=500, engine=Engine(block=50, workers=1, runtime=name))
        certify_all(smoother, data, tmp_path / name)
        explorer, asked = Explorer(smoother, data, tmp_path / name), []
        hook = net.register_forward_hook(lambda *_, asked=asked: asked.append(1))
        specimen = explorer._specimen(1)
        found = whole(explorer, Asked(1, "random", votes=100))
        answers = [specimen.ask(specimen.center + shift, 300) for shift in (0.0, 0.2)]
        told.append((found["label"], specimen.copies(50)[1], [answer.label for answer in answers]))
        hook.remove()
        explorer.close()
        assert (len(asked) > 20) == (
            name == "torch"
        )  # it is compared with torch where a block of another shape is loaded
    (slice_, copies, labels), (slice_2, copies_2, labels_2) = told
    assert len(slice_) == SIZE**2
    assert sum(one != two for one, two in zip(slice_, slice_2, strict=True)) <= 0.02 * SIZE**2
    assert sum(one != two for one, two in zip(copies, copies_2, strict=True)) <= 1
    assert labels == labels_2
