"""The one plug-in grammar: ``name:key=value,…`` or ``package.module:Name:key=value,…``, and what a parameter may be.

A number that stands first and alone is the first parameter: ``pca:40`` is ``pca:k=40``.

A plug-in is a frozen dataclass whose fields are its parameters, each declared by ``setting`` with its range and help.
A registry is the plain dict of a folder (name -> class), joined by what other packages register under its entry point.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from smoothcert.errors import SettingError, look_up

Changes = Literal["method", "number", "rounding", "nothing"]
Member = TypeVar("Member")


@dataclass(frozen=True)
class Setting:
    """What a parameter may be, what it is for, and what it does to a comparison of two runs.

    choices bound what is text, the ends what is a number. changes: a setting that names the *method* is what one compares;
    one that changes the *number* makes a comparison unfair unless both sides have it; one that changes the *rounding* of a
    network belongs to the run but to no comparison; one that changes *nothing* is about where and how fast.

    On the command line: flag is how it is written ("" after the field, None not at all: a run.toml or --set has it), metavar
    what stands for its value, alone the value of a flag that is given without one.
    """

    help: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    changes: Changes = "number"
    flag: str | None = ""
    metavar: str = ""
    alone: str | None = None

    @property
    def range(self) -> str:
        """The ends in words."""
        ends = [(self.above, "above"), (self.least, "at least"), (self.below, "below"), (self.most, "at most")]
        return " and ".join(f"{word} {end:g}" for end, word in ends if end is not None)

    @property
    def allowed(self) -> str:
        """What it may be, in words.

        >>> Setting(above=0, most=1).allowed, Setting(least=1).allowed, Setting(choices=("l1", "l2")).allowed
        ('a finite number above 0 and at most 1', 'a finite number of at least 1', 'one of l1, l2')
        """
        ways = [f"one of {', '.join(self.choices)}"] if self.choices else []
        number = f"a finite number {self.range}".replace("number at least", "number of at least")
        return " or ".join([*ways, number] if self.range else ways)

    def holds(self, value: Any) -> bool:
        """Is this value allowed?"""
        if isinstance(value, tuple):
            return all(self.holds(each) for each in value)
        if isinstance(value, str):
            return not self.choices or value in self.choices
        ends = (self.least, self.most, self.above, self.below)
        if value is None or all(end is None for end in ends):
            return True
        if not math.isfinite(value):
            return False
        least, most, above, below = ends
        return (
            (least is None or value >= least)
            and (most is None or value <= most)
            and (above is None or value > above)
            and (below is None or value < below)
        )


def setting(default: Any = MISSING, help: str = "", **declared: Any) -> Any:
    """A dataclass field that is a parameter: its default, its help and what else a ``Setting`` says, once and for all."""
    return dataclasses.field(default=default, metadata={"setting": Setting(help, **declared)})


def setting_of(field: Field[Any]) -> Setting:
    """What was declared of a field.

    >>> setting_of(dataclasses.fields(dataclasses.make_dataclass("Any", [("steps", int, setting(3, least=1))]))[0]).least
    1
    """
    return cast(Setting, field.metadata.get("setting", Setting()))


def check_settings(thing: Any) -> None:
    """Make each value of a dataclass one of its field's type, and refuse what is outside what was declared."""
    kind: Any = type(thing)
    where = name_of(kind) if isinstance(thing, Plugin) else ""
    hints = _hints(kind)
    for field in dataclasses.fields(thing):
        declared = setting_of(field)
        value = fitted(where, field.name, getattr(thing, field.name), hints.get(field.name, Any))
        if not declared.holds(value):
            raise SettingError(
                f"{where and f'{where}: '}{field.name}={written(value)} is outside what it may be; {field.name} must be "
                f"{declared.allowed}"
            )
        object.__setattr__(thing, field.name, value)


class Checked:
    """A dataclass that refuses values outside what was declared of its fields.

    In Python a value may also be given as on the command line: a text that reads as the type, or one number for several.
    """

    def __post_init__(self) -> None:
        check_settings(self)


class Plugin(Checked):
    """What guests and residents have in common: a name, parameters that are fields, and a text that reads back."""

    name: ClassVar[str] = ""

    def content(self) -> object:
        """All that decides what it does, beside its code: its parameters, or what the files that they name hold."""
        return {name: getattr(self, name) for name in parameters(type(self))}

    @property
    def title(self) -> str:
        """The shortest text that makes it: its name, and the parameters that are not their defaults."""
        known = parameters(type(self))
        changed = {n: getattr(self, n) for n, field in known.items() if getattr(self, n) != field.default}
        text = ",".join(f"{name}={written(value)}" for name, value in changed.items())
        return f"{name_of(type(self))}:{text}" if text else name_of(type(self))

    def __str__(self) -> str:
        """The thing as a user would write it: its name, and every parameter after a colon."""
        values = {field.name: getattr(self, field.name) for field in parameters(type(self)).values()}
        text = ",".join(f"{name}={written(value)}" for name, value in values.items() if value is not None)
        return f"{name_of(type(self))}:{text}" if text else name_of(type(self))


def name_of(kind: type) -> str:
    """The name of a registered class, or where another one is to be found: package.module:Name."""
    own = kind.__dict__.get("name")
    return own if isinstance(own, str) and own else f"{kind.__module__}:{kind.__qualname__}"


def parameters(kind: Any) -> dict[str, Field[Any]]:
    """The parameters of a plug-in's class by name; none if it is no dataclass."""
    return {field.name: field for field in dataclasses.fields(kind) if field.init} if _is_dataclass(kind) else {}


def written(value: object) -> str:
    """The shortest text that reads back as the value.

    >>> written(1.5), written(2.0), written(1 / 3), written(True), written("l2"), written([0.25, 1.0])
    ('1.5', '2', '0.3333333333333333', 'true', 'l2', '0.25,1')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(written, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


@dataclass(frozen=True)
class Registry(Generic[Member]):
    """The members of one kind: built in, registered by other packages (``group``), or named by where they are."""

    kind: str
    group: str
    members: Mapping[str, type[Member]]
    base: type[Member]

    @property
    def names(self) -> list[str]:
        """Every name: what is built in comes first and cannot be replaced."""
        return [*self.members, *(name for name in _points(self.group) if name not in self.members)]

    def find(self, name: str) -> type[Member]:
        """The class of this name, or at package.module:Name."""
        if name in self.members:
            return self.members[name]
        if ":" not in name:
            look_up(self.kind, name, dict.fromkeys(self.names))
            name = _points(self.group)[name].value
        module, _, attribute = name.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as problem:
            raise SettingError(
                f"cannot find the {self.kind} {name!r} ({problem}); write package.module:Name of something importable, "
                f"or one of {', '.join(self.names)}"
            ) from problem
        if not (isinstance(found, type) and issubclass(found, self.base)):
            raise SettingError(f"{name} is no {self.kind}: it must be a subclass of {name_of(self.base)}")
        return found

    def knows(self, spec: str) -> bool:
        """Does this text name a member? What cannot be found is for another registry to complain about."""
        if spec.partition(":")[0] in self.names:
            return True
        try:
            return bool(self.find(split_spec(spec)[0]))
        except SettingError:
            return False

    def make(self, spec: str | Member) -> Member:
        """The member that a text describes; a member is returned as it is."""
        if not isinstance(spec, str):
            if not isinstance(spec, self.base):
                raise SettingError(f"{spec!r} is no {self.kind}; give its name, or a {name_of(self.base)}")
            return spec
        head, _, rest = spec.partition(":")
        name, text = (head, rest) if head in self.names else split_spec(spec)
        kind = self.find(name)
        return kind(**self._values(spec, kind, text))

    def _values(self, spec: str, kind: type[Member], text: str) -> dict[str, Any]:
        """The parameters of a specification, each read as its type."""
        known, types_ = parameters(kind), _hints(cast(Any, kind)) if _is_dataclass(kind) else {}
        has = f"it has {', '.join(known)}" if known else "it has none"
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            key, equals, value = (part if "=" in part or values else _of_first(known, part)).partition("=")
            if not equals or key not in known or key in values:
                what = "is given twice" if key in values else "is no parameter of it" if equals else "is no key=value"
                raise SettingError(f"{self.kind} {spec!r}: {part!r} {what}; {has}: {usage(kind)}")
            values[key] = read_value(f"{self.kind} {spec!r}", key, value, types_[key])
        missing = [n for n, f in known.items() if f.default is f.default_factory is MISSING and n not in values]
        if missing:
            raise SettingError(f"{self.kind} {spec!r} lacks {', '.join(missing)}: write {usage(kind)}")
        return values


def _of_first(known: Mapping[str, Field[Any]], part: str) -> str:
    """A number that stands first and alone is the first parameter's.

    >>> _of_first(parameters(dataclasses.make_dataclass("Any", [("k", int)])), "40")
    'k=40'
    """
    return f"{next(iter(known))}={part}" if known and part.replace(".", "", 1).isdecimal() else part


def split_spec(spec: str) -> tuple[str, str]:
    """The name of a specification, and its parameters as text.

    >>> split_spec("ancer:steps=60,kappa=1.5"), split_spec("my.laws:Triangle:width=2"), split_spec("my.laws:Triangle")
    (('ancer', 'steps=60,kappa=1.5'), ('my.laws:Triangle', 'width=2'), ('my.laws:Triangle', ''))
    """
    name, _, rest = spec.partition(":")
    attribute, _, parameters_ = rest.partition(":")
    if attribute.isidentifier():
        return f"{name}:{attribute}", parameters_
    return name, rest


def usage(kind: type) -> str:
    """How a plug-in is written, with its defaults."""
    values = [f"{n}={'…' if f.default is MISSING else written(f.default)}" for n, f in parameters(kind).items()]
    return f"{name_of(kind)}:{','.join(values)}" if values else name_of(kind)


NUMBERS: dict[Any, str] = {float: "a number", int: "a whole number", bool: "true or false"}


def fitted(where: str, name: str, value: Any, kind: Any) -> Any:
    """A parameter's value as its type, as far as that is a number or several; whatever else is left as it is.

    >>> fitted("", "norm", "inf", float), fitted("", "radii", 0.5, tuple[float, ...]), fitted("", "votes", 1e3, int | None)
    (inf, (0.5,), 1000)
    >>> fitted("", "votes", [1], int)
    Traceback (most recent call last):
    smoothcert.errors.SettingError: votes=[1] must be a whole number
    """
    several, kinds = get_origin(kind) is tuple, _kinds(kind)
    if value is None or not NUMBERS.keys() & {*get_args(kind), *kinds} or (isinstance(value, str) and str in kinds):
        return value
    if isinstance(value, str):
        return read_value(where, name, value, kind)
    if several:
        values = value if isinstance(value, Iterable) else [value]
        return tuple(fitted(where, name, each, get_args(kind)[0]) for each in values)
    number = next(each for each in NUMBERS if each in kinds)
    if number is bool or isinstance(value, bool):
        return value
    try:
        return float(value) if number is float else operator.index(int(value) if float(value).is_integer() else value)
    except (TypeError, ValueError, OverflowError):
        raise _no_number(where, name, repr(value), number) from None


def _no_number(where: str, name: str, value: str, number: type) -> SettingError:
    return SettingError(f"{where and f'{where}: '}{name}={value} must be {NUMBERS[number]}")


def _kinds(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def read_value(where: str, name: str, text: str, kind: Any) -> Any:
    """A parameter's text as its type.

    >>> read_value("law", "beta", "1.5", float), read_value("law", "votes", "7", int | None), read_value("", "on", "true", bool)
    (1.5, 7, True)
    >>> read_value("", "radii", "1/4,1", tuple[float, ...]), read_value("", "scale", "map.npy", float | str)
    ((0.25, 1.0), 'map.npy')
    """
    kinds = _kinds(kind)
    if text == "none" and type(None) in kinds:
        return None
    if get_origin(kind) is tuple:
        text = "" if text == "none" else text
        return tuple(read_value(where, name, part.strip(), get_args(kind)[0]) for part in text.split(",") if part)
    number = next((each for each in NUMBERS if each in kinds), None)
    if number is None:
        return text
    try:
        if number is bool:
            return {"true": True, "false": False}[text.lower()]
        return float(Fraction(text)) if number is float and "/" in text else number(text)
    except (KeyError, ValueError, ZeroDivisionError):
        if str in kinds:
            return text
        raise _no_number(where, name, repr(text), number) from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields; none where they name what only type checkers see."""
    try:
        return get_type_hints(kind)
    except NameError:
        return {}


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer under an entry point; imported when it is asked for."""
    return {point.name: point for point in entry_points(group=group)}


def _is_dataclass(kind: object) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)
