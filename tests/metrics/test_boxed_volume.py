"""The volume that lies in the input box: against simulation, through records, means, recertify and the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.maths.boxed import Box
from smoothcert.maths.geometry import log_volume
from smoothcert.metrics.curves import average_certified_boxed_proxy_radius, without_echoes
from smoothcert.recertify import recertify
from smoothcert.records.record import Record
from smoothcert.regions import Region
from smoothcert.report.runs import read_runs
from smoothcert.report.tables import common_radii, main_sheet
from smoothcert.store import open_run
from smoothcert.store.pictures import grid_point_of, picture_of
from smoothcert.testing.problems import HalfSpace
from smoothcert.testing.records import RECORD

BOX = Box(0, 1)


def test_against_simulation() -> None:
    """400 000 points of the box, the share inside within 3 %, .15 % of the radius; few and unlike axes, so only about 1 %."""
    generator = np.random.default_rng(0)
    center, scale = generator.random(20), generator.uniform(0.3, 3.0, 20)
    points = generator.random((400_000, 20))
    region = Region(center, scale, 1.2, norm=2)
    inside = float(np.mean(np.sum(((points - center) / scale) ** 2, axis=1) <= region.radius**2))
    assert 0.01 < inside < 0.5
    truth = np.exp((np.log(inside) - log_volume(1.0, 1.0, 2, 20)) / 20)
    assert region.boxed_proxy_radius(BOX) == pytest.approx(truth, rel=1e-2)


def test_limits() -> None:
    """A small ball in the middle keeps its radius; one that holds the box has the box's volume; a point has none."""
    middle = np.full(200, 0.5)
    assert Region(middle, np.ones(1), 0.3, 2).boxed_proxy_radius(BOX) == pytest.approx(0.3, rel=1e-3)
    whole = np.exp(-log_volume(1.0, 1.0, 2, 200) / 200)
    assert Region(middle, np.ones(1), 1e3, 2).boxed_proxy_radius(BOX) == pytest.approx(whole)
    assert Region(middle, np.ones(1), 0.0, 2).boxed_proxy_radius(BOX) == 0.0
    corner = Region(np.zeros(200), np.ones(1), 0.3, 2).boxed_proxy_radius(BOX)
    assert corner == pytest.approx(0.15, rel=1e-3)  # one orthant: 2^-d of the volume


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 1, 8, 8), dtype=np.uint8)
    noise = sc.Noise("gaussian", np.linspace(0.2, 2.0, 64).reshape(1, 8, 8), grid=1 / 255)
    model = HalfSpace(torch.linspace(-1, 1, 64), offset=2.0)
    smoother = sc.Smoother(model, noise, estimator="fixed", estimate=2_000)
    return sc.certify_all(smoother, ArrayDataset("noise", pixels, [1] * 5), tmp_path_factory.mktemp("run") / "run")


def records(place: Path) -> list[Record]:
    with open_run(place) as store:
        return list(store.records())


def test_a_run_keeps_it(run: Path) -> None:
    found = records(run)
    certified = [record for record in found if record.label is not None]
    assert certified
    for record in certified:
        assert record.boxed_proxy_radius is not None
        assert 0 < record.boxed_proxy_radius < record.proxy_radius
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 1, 8, 8), dtype=np.uint8)
    first = certified[0]
    region = Region(pixels[first.index] / 255, np.linspace(0.2, 2.0, 64).reshape(1, 8, 8), first.region_radius, 2)
    assert first.boxed_proxy_radius == region.boxed_proxy_radius(BOX)


def test_recertify_finds_the_input_in_its_picture(run: Path, tmp_path: Path) -> None:
    recertify(run, tmp_path / "same", {"alpha": 0.001})
    assert records(tmp_path / "same") == records(run)
    recertify(run, tmp_path / "more", {"alpha": 0.1})
    pairs = [(a, b) for a, b in zip(records(tmp_path / "more"), records(run), strict=True) if b.label is not None]
    assert all((a.boxed_proxy_radius or 0) > (b.boxed_proxy_radius or 0) for a, b in pairs)


def test_a_picture_that_was_shrunk_is_no_input() -> None:
    colours = np.random.default_rng(1).integers(0, 256, (3, 5, 4)) / 255
    picture = picture_of(colours)
    assert picture is not None
    assert np.array_equal(grid_point_of(picture, (3, 5, 4)), colours)  # type: ignore[arg-type]
    large = picture_of(np.ones((1, 128, 128)) / 255)
    other = picture_of(np.array([[0.0, 2.0]]))
    assert large is not None
    assert other is not None
    assert grid_point_of(large, (1, 128, 128)) is None
    assert grid_point_of(other, (1, 1, 2)) is None


def test_means_count_what_is_right_and_known() -> None:
    right, wrong = replace(RECORD, boxed_proxy_radius=0.4), replace(RECORD, label=0, boxed_proxy_radius=0.4)
    assert average_certified_boxed_proxy_radius([right, wrong]) == 0.2
    assert np.isnan(average_certified_boxed_proxy_radius([right, RECORD]))
    assert np.isnan(average_certified_boxed_proxy_radius([]))
    assert without_echoes([replace(right, echo=1.0)])[0].boxed_proxy_radius == 0.0


def test_the_report_shows_it(run: Path) -> None:
    lines = read_runs([run])[0].lines
    sheet = main_sheet(lines, common_radii(lines))
    [row] = [row for row in sheet.rows if row[0] == "the same, of the volume in the input box"]
    assert float(row[1]) > 0
