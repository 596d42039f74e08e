"""The catalogue: every table and figure of the papers, read from its TOML file, with what was published."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from smoothcert.certificates import Soundness
from smoothcert.errors import look_up
from smoothcert.sections import Source

PAPERS = ("ds", "ancer", "unicr", "ucan")
SCALES = ("smoke", "small", "paper")
NOTHING = "-"  # a number that is not printed, or not to be read


@dataclass(frozen=True)
class Training:
    """How a network was trained; ``start``: from the weights of this other training."""

    name: str
    title: str
    settings: Source
    start: Training | None = None


@dataclass(frozen=True)
class Method:
    """How inputs were certified, and what the published certificates are worth."""

    name: str
    title: str
    settings: Source
    claim: Soundness
    law: str | None = None
    trained: str | None = None  # the law of the training, if it is another


@dataclass(frozen=True)
class Row:
    """A row of a table: a training, a method, and the published numbers, None where there is none."""

    training: Training
    method: Method
    published: tuple[float | None, ...]


@dataclass(frozen=True)
class Part:
    """One block of a table: its data, network and noise, its columns and its rows."""

    data: str
    network: str
    sigmas: tuple[float, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    law: str
    norm: float
    settings: Source
    rivals: tuple[Method, ...] = ()  # certified too, to be compared with
    cast_in: float | None = None  # the norm of the votes, if they are read again in this one
    times: float = 1.0  # radii are printed as multiples
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the trainings or methods that a scale keeps

    @property
    def title(self) -> str:
        """The data and the norm."""
        return f"{self.data}, {self.network}, l{self.norm:g}"

    def runs_at(self, row: Row, scale: str) -> bool:
        """Is the row certified at this scale?"""
        return scale not in self.kept or bool({row.training.name, row.method.name} & set(self.kept[scale]))


@dataclass(frozen=True)
class Entry:
    """A table or figure; one that has a ``reason`` is listed only."""

    name: str
    paper: str
    title: str
    note: str = ""
    reason: str = ""
    parts: tuple[Part, ...] = ()
    draw: Mapping[str, Any] | None = None  # of a figure: kinds, per_sigma, factors
    curve: Mapping[str, Any] | None = None  # of a figure of radii against probabilities

    @property
    def published(self) -> bool:
        """Does the catalogue hold any number of it?"""
        return any(number is not None for part in self.parts for row in part.rows for number in row.published)


def entry_named(name: str) -> Entry:
    """The entry, or an UnknownName that says which was probably meant."""
    return look_up("table or figure", name, catalogue())


def scale_named(name: str) -> dict[str, Any]:
    """What a scale makes of an entry."""
    return dict(look_up("scale", name, _read("scales")))


@cache
def catalogue() -> dict[str, Entry]:
    """Every entry by its name, such as ``ancer-table-1``."""
    found = [entry for paper in PAPERS for entry in _entries(paper, _read(paper))]
    return {entry.name: entry for entry in found}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


def _entries(paper: str, tables: dict[str, Any]) -> list[Entry]:
    trainings: dict[str, Training] = {}
    for name, table in tables["trainings"].items():  # one that starts from another stands below it
        settings = flat({section: each for section, each in table.items() if isinstance(each, dict)})
        trainings[name] = Training(name, table["title"], settings, trainings.get(table.get("start", "")))
    methods = {name: _method(name, table) for name, table in tables["methods"].items()}
    found = []
    for name, table in tables["entries"].items():
        parts = [_part(part, tables["defaults"], trainings, methods) for part in _parts_of(table, tables)]
        note = " ".join(filter(None, (table.get("note", ""), tables["note"] if parts else "")))
        shown = {key: table.get(key) for key in ("draw", "curve")}
        found.append(Entry(f"{paper}-{name}", tables["paper"], table["title"], note, parts=tuple(parts), **shown))
    for name, text in tables["skipped"].items():
        title, reason = text.split(" | ")
        found.append(Entry(f"{paper}-{name}", tables["paper"], title, reason=reason))
    return sorted(found, key=lambda entry: _order(entry.name))


def _order(name: str) -> tuple[bool, int]:
    """Tables before figures, each by its number."""
    kind, _, number = name.rpartition("-")
    return ("figure" in kind, int(number))


def _parts_of(table: dict[str, Any], tables: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of an entry, each with what the entry says of all; one with rows of its own is the only block.

    A figure of the rows of a table has them without the numbers.
    """
    source = tables["entries"][table["like"]] if "like" in table else table
    parts = [source | part for part in source.get("parts", [source] if "rows" in source else [])]
    if source is table:
        return parts
    bare = [part | {"rows": [f"{row.rpartition('|')[0]}|" for row in part["rows"]]} for part in parts]
    return [part for part in bare if part["data"] == table.get("only", part["data"])]


def _part(
    own: dict[str, Any], defaults: dict[str, Any], trainings: dict[str, Training], methods: dict[str, Method]
) -> Part:
    table = defaults | own | {"votes": defaults["votes"] | own.get("votes", {})}
    columns = tuple(table["columns"])
    rows = []
    for text in table["rows"]:
        training, method, numbers = (piece.strip() for piece in text.split("|"))
        published = [None if number == NOTHING else float(number) for number in numbers.split()]
        published = published or [None] * len(columns)
        assert len(published) == len(columns), text
        rows.append(Row(trainings[training], methods[method], tuple(published)))
    return Part(
        table["data"],
        table["network"],
        tuple(table["sigmas"]),
        columns,
        tuple(rows),
        table["law"],
        float(table["norm"]),
        flat({"votes": table["votes"]}) | flat({"data": table.get("inputs", {})}),
        tuple(methods[name] for name in table.get("rivals", ())),
        table.get("cast_in"),
        table.get("times", 1.0),
        {scale: table[scale] for scale in SCALES if scale in table},
    )


def _method(name: str, table: dict[str, Any]) -> Method:
    settings = flat({"votes": table.get("votes", {"method": "fixed"})})
    return Method(name, table["title"], settings, Soundness(table["claim"]), table.get("law"), table.get("trained"))


def flat(sections: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Settings by their path."""
    return {f"{section}.{name}": value for section, table in sections.items() for name, value in table.items()}
