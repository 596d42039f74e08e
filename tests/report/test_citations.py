"""What a run owes: every key has its entry, every option its keys."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from smoothcert.certificates import Soundness
from smoothcert.laws import LAWS as KNOWN_LAWS
from smoothcert.report import citations
from smoothcert.report.runs import read_runs

Make = Callable[..., Any]


def test_every_key_has_an_entry_and_every_entry_a_use() -> None:
    used = {*citations.ALWAYS, *citations.OTHER_LAWS, *citations.ANISOTROPIC}
    for group in (
        citations.LAWS,
        citations.VIEWS,
        citations.RULES,
        citations.TUNERS,
        citations.ESTIMATORS,
        citations.LABELS,
        citations.DATA,
    ):
        used |= {key for keys in group.values() for key in keys}
    assert used == set(citations.entries())
    assert set(citations.LAWS) <= set(KNOWN_LAWS)


def test_every_entry_is_balanced_and_says_who_what_and_when() -> None:
    for text in citations.entries().values():
        assert re.match(r"@[a-z]+\{", text)
        assert text.count("{") == text.count("}")
        assert all(re.search(rf"^  {field} = \{{", text, re.M) for field in ("title", "author", "year"))


@pytest.mark.parametrize(
    ("changes", "settings", "key"),
    [
        ({}, {}, "cohen2019certified"),
        ({}, {}, "lecun1998gradient"),  # the digits
        ({"law": "laplace"}, {}, "teng2020l1"),
        ({"law": "uniform"}, {}, "lee2019tight"),
        ({"law": "generalized_normal:beta=1.5"}, {}, "hong2022unicr"),
        ({"rule": "Rényi envelope"}, {}, "li2019certified"),
        ({}, {"tuner": "hill_climb:keep_label=true"}, "hong2022unicr"),
        ({}, {"tuner": "ancer"}, "eiras2022ancer"),
        ({}, {"tuner": "data_dependent"}, "alfarra2022data"),
        ({}, {"estimator": "betting"}, "waudbysmith2024estimating"),
        ({"soundness": Soundness.MEMORY}, {}, "alfarra2022data"),
        ({"soundness": Soundness.ESTIMATE}, {}, "hong2022unicr"),
        ({"scale": "address"}, {}, "hong2025ucan"),
    ],
)
def test_what_was_used_is_cited(
    changes: dict[str, Any], settings: dict[str, Any], key: str, some: Make, write_run: Make
) -> None:
    [run] = read_runs([write_run("a", some(3, **changes), **settings)])
    assert key in citations.keys(run)
    assert f"{{{key}," in citations.bibtex([run])


def test_what_was_not_used_is_not(some: Make, write_run: Make) -> None:
    runs = read_runs([write_run("a", some(3)), write_run("b", [])])
    for run in runs:
        assert citations.keys(run) == ["cohen2019certified", "clopper1934confidence", "lecun1998gradient"]
    assert citations.bibtex(runs).count("@") == 3
