"""Sections of settings: written text reads back, sources are read in order, mistakes are named."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import SettingError
from smoothcert.registry import Checked, setting
from smoothcert.sections import facts, from_assignments, from_file, from_toml, places, read, write


@dataclass(frozen=True)
class Section(Checked):
    text: str = setting("a")
    maybe: str | None = setting(None)
    count: int = setting(1, least=1, changes="nothing")
    number: float = setting(2.0, changes="rounding")
    several: tuple[float, ...] = setting(())
    either: float | str = setting("auto", changes="method")
    on: bool = setting(False)
    made: int = 3


@dataclass(frozen=True)
class Settings:
    one: Section = Section()
    two: Section = field(default=Section())


numbers = st.floats(allow_nan=False)
sections = st.builds(
    Section,
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    maybe=st.none() | st.text("\"\\'# =[]\n\t;,").filter(lambda text: text != "none"),
    count=st.integers(1),
    number=numbers,
    several=st.lists(numbers).map(tuple),
    either=numbers | st.sampled_from(["auto", "a/b.npy"]),
    on=st.booleans(),
)


@given(sections, sections)
def test_what_is_written_reads_back(one: Section, two: Section) -> None:
    settings = Settings(one, two)
    assert read(Settings, from_toml(write(settings))) == settings


def test_a_setting_is_what_was_declared_as_one() -> None:
    assert list(places(Settings))[:3] == ["one.text", "one.maybe", "one.count"]
    assert "one.made" not in places(Settings)
    assert "made" not in write(Settings())


def test_later_sources_win_and_none_says_nothing() -> None:
    sources = (
        {"one.count": 5, "two.number": 1},
        {"one.count": None, "two.number": "inf"},
        from_assignments(["one.on=true"]),
    )
    assert read(Settings, *sources) == Settings(Section(count=5, on=True), Section(number=math.inf))
    assert from_file(None) == {}


def test_what_a_section_says_of_a_run() -> None:
    assert facts(Section(count=9)) == {
        "text": "a", "maybe": None, "number": 2.0, "several": (), "either": "auto", "on": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[one\n", "run.toml is not valid TOML"),
        ("count = 1", "run.toml: count stands in no section"),
        ("[three]\na = 1", "unknown section of the settings 'three'"),
        ("[one]\ncuont = 1", r"unknown setting in \[one\] 'cuont'; did you mean 'count'"),
        ("[one.text]\na = 1", r"\[one.text\] is a table"),
        ("[one]\ncount = 1.5", "setting one.count: count='1.5' must be a whole number"),
        ("[one]\ncount = true", "setting one.count: count='true' must be a whole number"),
        ("[one]\ncount = 0", "count=0 is outside what it may be; count must be a finite number of at least 1"),
        ("[one]\non = 1", "setting one.on: on='1' must be true or false"),
        ('[one]\nseveral = ["a"]', "setting one.several: several='a' must be a number"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        read(Settings, from_toml(text))
