"""One grammar: names, parameters of every type, where guests are found, and what is said of mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from smoothcert import registry
from smoothcert.errors import SettingError, UnknownName
from smoothcert.registry import Plugin, Registry, setting, setting_of, split_spec, usage


class Animal(Plugin):
    """What the registry of these tests holds."""


@dataclass(frozen=True)
class Cat(Animal):
    """A cat."""

    name = "cat"
    lives: int = setting(9, "how many", least=1, most=9)
    weight: float = setting(4.0, "in kilograms", above=0)
    indoors: bool = setting(False)
    coat: str = setting("plain", choices=("plain", "striped"))
    owner: str | None = setting(None)
    age: float | None = setting(None)


@dataclass(frozen=True)
class Dog(Animal):
    """A dog, which must have a home."""

    name = "dog"
    home: str | Path = setting(help="where it lives")


@dataclass(frozen=True)
class Guest(Animal):
    """Of no registry."""

    size: int = setting(1)


ANIMALS: dict[str, type[Animal]] = {"cat": Cat, "dog": Dog}
REGISTRY = Registry("animal", "smoothcert.tests.animals", ANIMALS, Animal)


def test_every_type_is_read() -> None:
    made = REGISTRY.make("cat:lives=7,weight=3.5,indoors=true,coat=striped,owner=me,age=2")
    assert made == Cat(7, 3.5, True, "striped", "me", 2.0)
    assert REGISTRY.make("cat:age=none,owner=none") == Cat()
    assert REGISTRY.make("dog:home=/a/b:c") == Dog("/a/b:c")
    assert REGISTRY.make(Cat(3)) == Cat(3)
    assert isinstance(REGISTRY.make("cat:weight=3").weight, float)  # type: ignore[attr-defined]


@pytest.mark.parametrize("made", [Cat(), Cat(7, 1 / 3, True, "striped", "me", 2.5), Dog("there"), Guest(3)])
def test_a_text_reads_back(made: Animal) -> None:
    assert REGISTRY.make(str(made)) == made
    assert REGISTRY.make(made.title) == made


def test_the_title_holds_what_is_not_usual() -> None:
    assert (Cat().title, Cat(3).title, str(Guest())) == ("cat", "cat:lives=3", f"{__name__}:Guest:size=1")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("cta", "unknown animal 'cta'; did you mean 'cat'? known: cat, dog"),
        (
            "cat:lifes=3",
            "'lifes=3' is no parameter of it; it has lives, weight, indoors, coat, owner, age: cat:lives=9,",
        ),
        ("cat:lives", "'lives' is no key=value"),
        ("cat:lives=3,lives=4", "'lives=4' is given twice"),
        ("cat:lives=three", "lives='three' must be a whole number"),
        ("cat:lives=2.5", "lives='2.5' must be a whole number"),
        ("cat:indoors=perhaps", "indoors='perhaps' must be true or false"),
        (
            "cat:lives=10",
            "cat: lives=10 is outside what it may be; lives must be a finite number of at least 1 and at most 9",
        ),
        ("cat:weight=0", "weight must be a finite number above 0"),
        ("cat:weight=nan", "weight must be a finite number above 0"),
        ("cat:coat=blue", "coat must be one of plain, striped"),
        ("dog", "lacks home: write dog:home=…"),
        ("nowhere.at_all:Cat", "cannot find the animal 'nowhere.at_all:Cat' (No module named 'nowhere')"),
        ("pathlib:Path", "pathlib:Path is no animal: it must be a subclass of"),
    ],
)
def test_mistakes_are_named(spec: str, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        REGISTRY.make(spec)
    assert words in str(caught.value)


def test_only_members_are_taken() -> None:
    wrong: Any = 3
    with pytest.raises(SettingError, match="3 is no animal; give its name, or a"):
        REGISTRY.make(wrong)


def test_guests_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up by name, imported only when asked for, and never in place of what is built in."""
    points = {
        "guest": EntryPoint("guest", f"{__name__}:Guest", "group"),
        "cat": EntryPoint("cat", f"{__name__}:Guest", "group"),
        "broken": EntryPoint("broken", "nowhere.at_all:Thing", "group"),
    }
    monkeypatch.setattr(registry, "_points", lambda group: points)
    assert REGISTRY.names == ["cat", "dog", "guest", "broken"]
    assert REGISTRY.make("guest:size=4") == Guest(4)
    assert REGISTRY.make("cat") == Cat()
    with pytest.raises(SettingError, match="No module named 'nowhere'"):
        REGISTRY.make("broken")
    with pytest.raises(UnknownName, match="known: cat, dog, guest, broken"):
        REGISTRY.make("gest:size=4")


def test_what_is_declared_can_be_asked_for() -> None:
    fields = registry.parameters(Cat)
    assert (setting_of(fields["lives"]).help, setting_of(fields["lives"]).most) == ("how many", 9)
    assert usage(Dog) == "dog:home=…"
    assert registry.parameters(Animal) == {}


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("cat", ("cat", "")),
        ("cat:", ("cat", "")),
        ("cat:a=b:c", ("cat", "a=b:c")),
        ("a.b:C", ("a.b:C", "")),
        ("a.b:C:d=e", ("a.b:C", "d=e")),
    ],
)
def test_where_a_name_ends(spec: str, parts: tuple[str, str]) -> None:
    assert split_spec(spec) == parts
