"""Columns of published tables on records made by hand, and the text of a cell."""

import csv
import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smoothcert.certificates import Soundness
from smoothcert.papers import entry_named
from smoothcert.papers.measures import Group, measured
from smoothcert.papers.tables import Cell, to_files
from smoothcert.records.record import Record
from smoothcert.testing.records import RECORD


def run(*radii: float) -> list[Record]:
    """Right answers at these radii, the proxy radius twice as large; a negative one stands for a wrong answer."""
    return [
        replace(RECORD, index=at, radius=abs(r), proxy_radius=2 * abs(r), label=1 if r >= 0 else 0)
        for at, r in enumerate(radii)
    ]


SMALL, LARGE = run(0.5, 0.5, 0.5, -3.0), run(2.0, 1.0, -1.0, -1.0)
ROW = Group((), (SMALL, LARGE), {"square": 0.75})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("0.5", 75.0),
        ("0.51", 50.0),
        ("128/128", 50.0),
        ("2.1", 0.0),
        ("~1.0", 75.0),
        ("~2.1", 25.0),
        ("ACR", 0.875),  # .75·.5 + .5·.5 + .25·1
        ("score", 0.875),
        ("proxy ACR", 1.75),
        ("top 25 %", 1.5),  # of eight radii, three of them of wrong answers
        ("top 100 %", 4.5 / 8),
        ("attack square", 75.0),
    ],
)
def test_columns_by_hand(column: str, value: float) -> None:
    assert measured(column, ROW, []) == pytest.approx(value, rel=1e-15)


def test_the_best_sigma_of_each_method_is_compared() -> None:
    # Per input the best right answer: 2, 1, .5, none; the rival's: 2, .9, .6, 9.
    rival = Group((), (run(2.0, 0.9, 0.6, 9.0), run(0.1, 0.1, 0.1, 0.1)), {})
    assert measured("best radius", ROW, [rival]) == 50.0
    assert measured("best proxy", ROW, [rival]) == 50.0
    assert measured("best radius", rival, [ROW]) == 75.0
    nothing = Group((), (run(-1.0, -1.0, -1.0, -1.0),), {})
    assert measured("best radius", nothing, [nothing]) == 100.0


def test_a_row_is_worth_what_its_weakest_run_is() -> None:
    runs = [SimpleNamespace(lines=[SimpleNamespace(soundness=each)]) for each in (Soundness.GLOBAL, Soundness.FROZEN)]
    for order in (runs, runs[::-1]):
        assert Group(cast(Any, tuple(order)), (SMALL, LARGE), {}).label is Soundness.FROZEN


def test_files_hold_both_numbers_their_labels_and_the_difference() -> None:
    cells = [
        Cell("part", "row", "0.5", 76.99, 77.0, "frozen", "frozen", 2, 100, 37),
        Cell("part", "row", "ACR", 1.4499, 1.449, "frozen", "frozen", 2, 100, 37),
        Cell("part", "other", "0.5", None, 55.0, "", "global"),
        Cell("part", "other", "ACR", None, None, "", "global"),
    ]
    files = to_files(entry_named("ancer-table-1"), cells, {"scale": "small"})
    text = files["table.md"].decode()
    assert (
        "| row | frozen | frozen | 76.9 / 77 (−0.0) | 1.449 / 1.449 (+0.001) | 37 of 200 |" in text
    )  # ours is never rounded up
    assert "| other |  | global | not run / 55 | not run |  |" in text
    assert "published label frozen: noise was chosen per input and there is no memory" in text
    table = list(csv.DictReader(io.StringIO(files["table.csv"].decode())))
    assert [row["ours"] for row in table] == ["76.99", "1.4499", "", ""]
    assert float(table[0]["difference"]) == 76.99 - 77.0
    told = json.loads(files["table.json"])
    assert (told["entry"], told["scale"], len(told["cells"])) == ("ancer-table-1", "small", 4)
    assert told["cells"][2] == {
        **{"part": "part", "row": "other", "column": "0.5", "ours": None, "published": 55.0, "label": ""},
        **{"claim": "global", "classifiers": 0, "inputs": 0, "echoing": 0, "difference": None},
    }


def test_sound_numbers_are_not_called_unsound() -> None:
    [cell] = [Cell("part", "row", "0.5", 50.0, 51.0, "global", "global")]
    text = to_files(entry_named("ds-table-1"), [cell], {})["table.md"].decode()
    assert "published label" in text  # the column
    assert "does not hold" not in text
