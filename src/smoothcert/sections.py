"""Settings in sections, each a frozen dataclass whose fields ``setting`` declares: read from anywhere, written to run.toml.

A source is a mapping from ``section.name`` to a value or its text: a file, the flags of a command, ``--set``. Sources are
read in order, and a later one wins. What the fields declare is all that is known of a setting.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from smoothcert.errors import SettingError, look_up, without_passwords
from smoothcert.registry import Setting, read_value, setting_of, written

Chosen = TypeVar("Chosen")
Source = Mapping[str, object]


@dataclass(frozen=True)
class Place:
    """A setting where it is declared: its section, its field, its type."""

    section: str
    field: Field[Any]
    kind: Any

    @property
    def declared(self) -> Setting:
        """What was declared of it."""
        return setting_of(self.field)


def places(settings: type) -> dict[str, Place]:
    """Every setting by its path ``section.name``; fields without ``setting`` are none of the user's business."""
    found = {}
    for section, kind in get_type_hints(settings).items():
        types = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if "setting" in field.metadata:
                found[f"{section}.{field.name}"] = Place(section, field, types[field.name])
    return found


def read(settings: type[Chosen], *sources: Source) -> Chosen:
    """The settings from their sources, the last wins; a source's None says nothing.

    >>> @dataclass(frozen=True)
    ... class Noise:
    ...     sigma: float = dataclasses.field(default=1.0, metadata={"setting": Setting(above=0)})
    >>> all = dataclasses.make_dataclass("All", [("noise", Noise)])
    >>> read(all, {"noise.sigma": "1/4"}), read(all, {"noise.sigma": 3.0}, {"noise.sigma": None})
    (All(noise=Noise(sigma=0.25)), All(noise=Noise(sigma=3.0)))
    """
    known, kinds = places(settings), get_type_hints(settings)
    values: dict[str, dict[str, Any]] = {section: {} for section in kinds}
    merged = {path: value for source in sources for path, value in source.items() if value is not None}
    for path, value in merged.items():
        section, _, name = path.partition(".")
        look_up("section of the settings", section, kinds)
        if path not in known:
            inside = {place.field.name: place for place in known.values() if place.section == section}
            look_up(f"setting in [{section}]", name, inside)
        if isinstance(value, Mapping):
            raise SettingError(f"[{path}] is a table, and {name} is a setting of [{section}]; write {name} = …")
        try:
            values[section][name] = read_value(f"setting {path}", name, written(value), known[path].kind)
        except SettingError as problem:
            raise SettingError(f"{problem}. {known[path].declared.help}") from None
    return settings(**{section: kind(**values[section]) for section, kind in kinds.items()})


def from_toml(text: str, where: str = "run.toml") -> Source:
    """The settings in the text of a run.toml.

    >>> from_toml("[noise]\\nsigma = 0.5")
    {'noise.sigma': 0.5}
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise SettingError(f"{where} is not valid TOML: {problem}") from problem
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise SettingError(f"{where}: {name} stands in no section; write it below the line of one, such as [noise]")
    return {f"{section}.{name}": value for section, table in tables.items() for name, value in table.items()}


def from_file(file: Path | None) -> Source:
    """The settings in a file; none without one."""
    if file is None:
        return {}
    try:
        return from_toml(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingError(f"cannot read the settings file {file}: {problem}") from problem


def from_assignments(assignments: Iterable[str]) -> Source:
    """The settings of ``--set section.name=value``.

    >>> from_assignments(["noise.sigma=0.5"])
    {'noise.sigma': '0.5'}
    """
    found = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise SettingError(
                f"--set {assignment!r} must have the form section.name=value, for example noise.sigma=0.5"
            )
        found[path.strip()] = text.strip()
    return found


def write(settings: object) -> str:
    """The settings as the text of a run.toml, which reads back to the same but for passwords in URLs."""
    sections: dict[str, list[str]] = {}
    for place in places(type(settings)).values():
        lines = sections.setdefault(place.section, [f"[{place.section}]"])
        value = getattr(getattr(settings, place.section), place.field.name)
        if value is not None:
            lines.append(f"{place.field.name} = {_toml(value)}")
    return "\n\n".join("\n".join(lines) for lines in sections.values()) + "\n"


def facts(section: Any) -> dict[str, Any]:
    """What the settings of a section say of a run: all but those that change nothing."""
    declared = [field for field in dataclasses.fields(section) if "setting" in field.metadata]
    return {field.name: getattr(section, field.name) for field in declared if setting_of(field).changes != "nothing"}


def changed(section: Any, *names: str) -> list[str]:
    """Those of its settings of these names that are not their defaults."""
    usual = {field.name: field.default for field in dataclasses.fields(section)}
    return [name for name in names if getattr(section, name) != usual[name]]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):  # a string of JSON is one of TOML
        return json.dumps(without_passwords(value), ensure_ascii=False)
    return json.dumps(value) if isinstance(value, bool) else repr(value)  # TOML tells 2 from 2.0
