"""Runs beside each other, against hand-computed shares; and tables as CSV and LaTeX."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from smoothcert.certificates import Soundness
from smoothcert.metrics.curves import average_certified_proxy_radius
from smoothcert.metrics.supersets import best_share, certified_region, superset_share
from smoothcert.records.record import Record
from smoothcert.report.comparisons import best_of_all, envelopes, supersets
from smoothcert.report.runs import Line, read_runs
from smoothcert.store import SqliteStore, open_run

GRID = "grid 1/255"
# Per run and input: scale per coordinate (or one number), radius in units of it, and the label; the truth is 1.
BALLS = [(1.0, 0.5, 1), (1.0, 1.0, 1), (1.0, 0.25, 0), (1.0, 0.0, None)]
SHAPES = [([0.5, 2.0], 1.0, 1), ([0.9, 3.0], 1.0, 1), ([1.0, 1.0], 1.0, 1), ([1.0, 1.0], 1.0, 0)]


def lines_in(*directories: Path) -> list[Line]:
    return [line for run in read_runs(directories) for line in run.lines]


def written(place: Path, rows: list[tuple[object, float, int | None]], scale: float, **changes: object) -> Path:
    """A run of these certificates, each on its own input of dimension two."""
    place.mkdir()
    with SqliteStore(place) as store:
        facts = {"data": "d", "law": "gaussian", "tuner": "t", "norm": "2.0", "domain": GRID, "alpha": 0.001}
        store.describe({"configuration": facts | {"scale": scale}, "shape": [2]})
        for index, (axes, radius, label) in enumerate(rows):
            values = np.broadcast_to(np.asarray(axes, dtype=float), (2,))
            record = Record(
                index=index, truth=1, label=label, radius=radius * float(values.min()),
                proxy_radius=radius * float(np.sqrt(values.prod())), log_volume=None, region_radius=radius, norm=2.0,
                soundness=Soundness.FROZEN, rule="r", law="gaussian", domain=GRID, alpha=0.001, lower=0.9, upper=None,
                scale=float(values[0]) if isinstance(axes, float) else store.put(values), loc=0.0, trials=10,
                selection=(1, 9), selection_invalid=0, estimation=((1, 9),), estimation_invalid=(0,),
                stopped="all votes",
            )  # fmt: skip
            store.append(replace(record, **changes), 1.0)  # type: ignore[arg-type]
    return place


@pytest.fixture
def lines(tmp_path: Path) -> list[Line]:
    return lines_in(written(tmp_path / "balls", BALLS, 1.0), written(tmp_path / "shapes", SHAPES, 0.5))


def test_supersets(lines: list[Line]) -> None:
    """(0.5, 2) holds the ball of 0.5; (0.9, 3) does not hold that of 1; a wrong ball is nothing; neither is last."""
    sheet = supersets(lines)
    assert sheet is not None
    assert sheet.rows == (
        ("balls ⊇ shapes", "frozen", "4", "25.0", "25.0"),
        ("shapes ⊇ balls", "frozen", "4", "75.0", "25.0"),
    )


def test_imported_regions_are_unknown_and_left_out(lines: list[Line], tmp_path: Path) -> None:
    [log] = lines_in(written(tmp_path / "log", BALLS, 1.0, soundness=Soundness.IMPORTED))
    alone, beside = supersets(lines), supersets([*lines, log])
    assert alone is not None
    assert beside is not None
    assert beside.rows == alone.rows
    assert "imported runs are left out" in beside.note
    assert supersets([lines[0], log]) is None


def test_who_is_best(lines: list[Line]) -> None:
    sheet = best_of_all(lines)
    assert sheet is not None
    assert sheet.rows == (
        ("balls", "frozen", "1", "4", "75.0", "25.0", "25.0"),  # radii 0.5 = 0.5, 1 > 0.9, 0 < 1, 0 = 0
        ("shapes", "frozen", "1", "4", "75.0", "100.0", "25.0"),  # proxy radii 1 > 0.5, 1.64 > 1, 1 > 0, 0 = 0
    )


def test_envelope(lines: list[Line], tmp_path: Path) -> None:
    sheet = envelopes(lines, [0.5, 0.95, 1.0])
    assert sheet is not None
    assert sheet.rows == (("balls, shapes", "frozen", "2", "75.0", "25.0", "25.0"),)
    assert "several classifiers" in sheet.note
    assert envelopes(lines[:1], [0.5]) is None
    other = lines_in(written(tmp_path / "global", BALLS, 2.0, soundness=Soundness.GLOBAL))
    assert envelopes([lines[0], *other], [0.5]) is None  # two labels are never mixed
    fewer = lines_in(written(tmp_path / "fewer", BALLS[:2], 2.0))
    assert envelopes([lines[0], *fewer], [0.5]) is None  # nor two sets of inputs


def test_one_run_twice_and_other_data_are_not_compared(lines: list[Line]) -> None:
    assert supersets([lines[0], lines[0]]) is None
    assert best_of_all([lines[0], lines[0]]) is None
    foreign = replace(lines[1], facts=lines[1].facts | {"configuration": {"data": "other"}})
    assert supersets([lines[0], foreign]) is None
    assert best_of_all([lines[0], foreign]) is None


def test_measures(lines: list[Line]) -> None:
    assert average_certified_proxy_radius(lines[1].records) == pytest.approx((1 + math.sqrt(2.7) + 1) / 4)
    assert math.isnan(average_certified_proxy_radius([]))
    assert math.isnan(superset_share([]))
    assert math.isnan(best_share([], [lines[0].records], lambda record: record.radius))
    with open_run(lines[0].place) as store:
        assert certified_region(lines[0].records[2], (2,), store) is None
        region = certified_region(lines[0].records[0], (2,), store)
    assert region is not None
    assert region.contains([0.5, 0.0])
