"""Metrics, tables, figures and exports: against hand-computed values, rounded down, never mixed."""

import csv
import io
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from smoothcert.certificates import Soundness
from smoothcert.errors import MissingExtra
from smoothcert.maths.geometry import percent_down, round_down
from smoothcert.metrics import curves
from smoothcert.metrics.distributions import bin_edges, sigma_factor
from smoothcert.metrics.score import robustness_score
from smoothcert.records.record import Record
from smoothcert.report.comparisons import best_of_all
from smoothcert.report.exports import FORMATS
from smoothcert.report.figures import draw_all, hollow, steps
from smoothcert.report.page import line_of
from smoothcert.report.runs import Line, read_runs
from smoothcert.report.sheets import to_rich
from smoothcert.report.tables import class_table, main_sheet, summary
from smoothcert.store import SqliteStore
from smoothcert.testing.records import RECORD


def record(index: int, radius: float, *, label: int | None = 1, **changes: object) -> Record:
    return replace(RECORD, index=index, radius=radius, label=label, **changes)  # type: ignore[arg-type]


# Right at 0.5, 1.0 and 0.29; wrong at 2.0; one abstention.
FIVE = [record(0, 0.5), record(1, 1.0), record(2, 0.29), record(3, 2.0, label=0), record(4, 0.0, label=None)]


def line(records: list[Record], name: str = "a") -> Line:
    return Line(name, records[0].soundness, tuple(records), (0.5,) * len(records), {})


def test_hand_computed_values() -> None:
    np.testing.assert_array_equal(
        curves.certified_accuracy(FIVE, [0, 0.29, 0.3, 0.5, 0.51, 1, 1.1]), [0.6, 0.6, 0.4, 0.4, 0.2, 0.2, 0]
    )
    assert curves.clean_accuracy(FIVE) == 1.0  # the selection votes of all five name class 1
    assert curves.clean_accuracy([replace(FIVE[0], selection=(60, 40)), FIVE[1]]) == 0.5
    assert curves.abstention(FIVE) == 0.2
    assert math.isclose(curves.average_certified_radius(FIVE), (0.5 + 1.0 + 0.29) / 5)
    assert curves.votes_per_input(FIVE) == 1100
    assert math.isclose(curves.expected_wrong(FIVE), 0.004)


def test_without_truths_certified_inputs_count() -> None:
    unknown = [replace(item, truth=None) for item in FIVE]
    assert math.isnan(curves.clean_accuracy(unknown))
    assert curves.certified_accuracy(unknown, [0.0])[0] == 0.8
    assert "no truths known" in rendered([line(unknown)])


@pytest.mark.usefixtures("fonts_of_papers")
def test_papers_get_fonts_that_they_take(tmp_path: Path) -> None:
    """Publishers refuse the kind that matplotlib writes by default, Type 3."""
    draw_all([line(FIVE)], tmp_path)
    document = (tmp_path / "curve.pdf").read_bytes()
    assert b"/TrueType" in document or b"/CIDFontType2" in document
    assert b"/Type3" not in document


@given(
    radii=st.lists(st.floats(0, 5), min_size=1, max_size=20), grid=st.lists(st.floats(0, 5), min_size=2, max_size=10)
)
def test_a_curve_never_rises(radii: list[float], grid: list[float]) -> None:
    accuracy = curves.certified_accuracy([record(i, radius) for i, radius in enumerate(radii)], sorted(grid))
    assert (np.diff(accuracy) <= 0).all()
    _, shares = steps(line([record(i, radius) for i, radius in enumerate(radii)]))
    assert (np.diff(shares) <= 0).all()


def near(value: float, number: int = 7) -> list[float]:
    """The value and its neighbours in floating point."""
    values = [value]
    while len(values) < number:
        values.append(math.nextafter(values[-1], math.inf))
    return values


def certified_at(sigma: float) -> list[Record]:
    """Records whose radius divided by its gap is sigma up to rounding; the scale is an array, kept by its hash."""
    gaps = np.random.default_rng(0).uniform(0.3, 3.8, 40).tolist()
    return [record(i, sigma * gap, region_radius=gap, scale="sha256") for i, gap in enumerate(gaps)]


def test_bins_hold_every_value_at_every_sigma() -> None:
    for sigma in np.arange(1, 201) / 100:
        factors = [value for one in certified_at(float(sigma)) if (value := sigma_factor(one)) is not None]
        assert {round_down(factor, 4) for factor in factors} == {round_down(float(sigma), 4)}
        factors = [one.radius / one.region_radius for one in certified_at(float(sigma))]  # these differ, by an ulp
        edges = bin_edges(factors)
        assert (np.diff(edges) > 0).all()
        assert np.histogram(factors, edges)[0].sum() == len(factors) == 40


@pytest.mark.parametrize("value", [0.0, 1e-300, 0.12, 1e9])
@pytest.mark.parametrize("spread", ["one value", "neighbours", "within 1e-9"])
def test_every_chart_is_drawn_of_values_that_are_alike(tmp_path: Path, value: float, spread: str) -> None:
    values = {
        "one value": [value] * 7,
        "neighbours": near(value),
        "within 1e-9": [value * (1 + k * 1e-10) for k in range(7)],
    }[spread]
    changes = [
        {"proxy_radius": one + 1, "region_radius": one, "lower": min(one, 1.0), "trials": 1000, "scale": "sha256"}
        for one in values
    ]
    records = [record(i, one, **change) for i, (one, change) in enumerate(zip(values, changes, strict=True))]
    assert len(draw_all([line(records)], tmp_path)) == 15


@pytest.mark.parametrize("sigma", [0.12, 0.5 / math.sqrt(2), 0.6])
def test_a_report_at_common_sigmas(tmp_path: Path, sigma: float) -> None:
    assert draw_all([line(certified_at(sigma)), line(certified_at(sigma), "b")], tmp_path)


def test_percentages_are_exact_for_every_count() -> None:
    """The floor of 1000·k/n in integers against what is printed, for all k/n up to n = 1000."""
    for n in range(1, 1001):
        for k in range(n + 1):
            tenths = 1000 * k // n
            assert percent_down(k / n) == f"{tenths // 10}.{tenths % 10}", (k, n)


def test_tables_page_and_means_print_what_was_counted() -> None:
    records = [record(i, 1.81 if i < 814 else 0.1) for i in range(1000)]
    assert "81.4 (" in rendered([line(records)], (0.5,))
    tenth = [line([record(i, 1.0, label=1 if i < 90 else None) for i in range(100)], name) for name in "ab"]
    sheet = best_of_all(tenth)
    assert sheet is not None
    assert [row[-1] for row in sheet.rows] == ["10.0", "10.0"]  # where none certifies
    assert class_table(line(records), [0.5]).rows[0][4] == "81.4"
    assert 81.4 in line_of(line(records), 0)["curves"]["radius"]["y"]
    for number in range(1, 200):
        mean = curves.average_certified_radius([record(i, 1.81) for i in range(number)])
        assert (round_down(mean), mean) == ("1.810", 1.81)
    ten = [[record(i, radius) for i, radius in enumerate((1.8, 1.81, 1.82) * number)] for number in (1, 7, 100)]
    assert [round_down(robustness_score([one], 3.0).value, 4) for one in ten] == ["1.8100"] * 3


def rendered(lines: list[Line], radii: tuple[float, ...] = (0.0, 0.5)) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(to_rich(main_sheet(lines, radii), 200))
    return text.getvalue()


def test_eight_long_names_fit_a_terminal_of_eighty_columns() -> None:
    """No name is cut, no line is longer, what all share is said once, and every number of the wide table is there."""
    names = [f"data_dependent_sigma_0.{k}5" for k in range(8)]
    records = [replace(one, lower=0.9) for one in FIVE]
    lines = [line(records if k % 2 else records[:4], name) for k, name in enumerate(names)]
    text = io.StringIO()
    sheet = main_sheet(lines, [0.0, 0.25, 0.5, 1.0])
    Console(file=text, width=80).print(to_rich(sheet, 80))
    printed = text.getvalue().splitlines()
    assert max(map(len, printed)) <= 80
    for name in names:
        assert sum(name in row for row in printed) >= 2
    assert " ".join(text.getvalue().split()).count("alpha 0.001") == 1
    assert "…" not in text.getvalue()
    words = text.getvalue().split()
    for row in sheet.rows:
        assert all(part in words or f"{part};" in words for cell in row[1:] for part in cell.split()), row


def test_the_table_says_label_alpha_votes_and_expected_errors() -> None:
    text = rendered([line(FIVE), line([replace(r, soundness=Soundness.FROZEN) for r in FIVE], "b")])
    for word in (
        "global",
        "frozen",
        "alpha",
        "0.001",
        "1000",
        "0.004",
        "accuracy (most votes, none abstain)",
        "60.0",
        "abstention",
        "20.0",
        "0.358",
    ):
        assert word in text


def test_echoes_by_hand() -> None:
    """Of the certificates of 0.5, 1.0, 0.29 and a wrong 2.0 the second echoes, and at the last just does."""
    echoing = [replace(one, echo=echo) for one, echo in zip(FIVE, (0.495, 0.995, 0.0, 0.5, None), strict=True)]
    assert [curves.echoes(one) for one in echoing] == [False, True, False, True, False]
    row = summary(line(echoing), [0.5])
    assert row["echoing"] == 2
    assert math.isclose(row["average_certified_radius"], (0.5 + 1.0 + 0.29) / 5)
    assert math.isclose(row["average_certified_radius_without_echoes"], (0.5 + 0.29) / 5)
    proxies = [replace(one, proxy_radius=2 * one.radius) for one in echoing]
    assert math.isclose(
        summary(line(proxies), [])["average_certified_proxy_radius_without_echoes"], 2 * (0.5 + 0.29) / 5
    )
    text = rendered([line(echoing), line(FIVE, "b")])
    assert re.search(r"certificates with echo ≥ 1/2 +│ +2 of 4 │ +– │", text)
    assert re.search(r"average certified radius without echoes +│ +0.158 │ +– │", text)
    assert "says nothing of its input" in " ".join(text.split())
    assert "echo" not in rendered([line(FIVE)])
    assert summary(line(FIVE), [])["echoing"] is None
    radii, shares = hollow(echoing)
    assert (radii.tolist(), shares.tolist()) == ([1.0], [0.2])


def test_votes_that_stopped_are_reported() -> None:
    text = rendered([line([*FIVE[:3], replace(FIVE[3], stopped="radii 0.1 decided")])])
    assert "all votes: 3; radii 0.1 decided: 1" in text


def test_nan_votes_are_reported() -> None:
    assert "NaN votes" not in rendered([line(FIVE)])
    assert "NaN votes" in rendered([line([replace(FIVE[0], estimation_invalid=(7,))])])


def test_summaries_are_exact() -> None:
    row = summary(line(FIVE), [0.5])
    assert row["certified_accuracy"] == [0.4]
    assert row["seconds_per_input"] == 0.5
    assert row["certificates"] == 4


def test_round_radii() -> None:
    assert curves.round_radii(FIVE) == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert curves.round_radii([record(0, 0.013)]) == [0.0, 0.0025, 0.005, 0.0075, 0.01, 0.0125]


def test_two_labels_of_one_run_are_two_lines(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with SqliteStore(tmp_path / name) as store:
            store.append(FIVE[0], 1.0)
            store.append(replace(FIVE[1], soundness=Soundness.FROZEN), 1.0)
    lines = [item for run in read_runs([tmp_path / "a", tmp_path / "b"]) for item in run.lines]
    assert [(item.name, item.soundness.value) for item in lines] == [
        ("a", "global"),
        ("a", "frozen"),
        ("b", "global"),
        ("b", "frozen"),
    ]


def test_curves_are_drawn_for_mixed_norms_and_only_abstentions(tmp_path: Path) -> None:
    lines = [line(FIVE), line([replace(r, norm=1.0) for r in FIVE], "b"), line([FIVE[4]], "c")]
    picture = draw_all(lines, tmp_path / "deep")[0]
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


class TestExports:
    def test_cohen(self) -> None:
        text = FORMATS["cohen"](FIVE, [1.5] * 5).decode().splitlines()
        assert text[0] == "idx\tlabel\tpredict\tradius\tcorrect\ttime"
        assert text[3] == "2\t1\t1\t0.2900\t1\t0:00:01.500000"
        assert text[5] == "4\t1\t-1\t0.0000\t0\t0:00:01.500000"

    def test_cohen_radii_are_rounded_down(self) -> None:
        text = FORMATS["cohen"]([record(0, 0.99999)], [0.0]).decode()
        assert "0.9999\t" in text

    def test_csv_is_exact(self) -> None:
        rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](FIVE, [1.5] * 5).decode())))
        assert [float(row["radius"]) for row in rows] == [r.radius for r in FIVE]
        assert rows[4]["label"] == ""
        assert rows[0]["soundness"] == "global"
        rows = list(csv.DictReader(io.StringIO(FORMATS["csv"]([replace(FIVE[0], echo=0.125)], [1.5]).decode())))
        assert (rows[0]["echo"], rows[0]["stopped"]) == ("0.125", "all votes")

    def test_parquet(self) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        content = FORMATS["parquet"](FIVE, [1.5] * 5)
        assert parquet.read_table(io.BytesIO(content)).column("radius").to_pylist() == [r.radius for r in FIVE]

    def test_parquet_without_pyarrow_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingExtra, match=r"smoothcert\[parquet\]"):
            FORMATS["parquet"](FIVE, [1.5] * 5)
