"""The options of a command, made from the settings that it takes: names, help, panels, defaults and ranges follow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args

import typer
from typer.core import TyperCommand

from smoothcert.errors import look_up
from smoothcert.registry import written
from smoothcert.sections import Place, Source, from_assignments, from_file, places, read

Chosen = TypeVar("Chosen")
NUMBERS = {int: "INTEGER", float: "NUMBER"}
Config = Annotated[Path | None, typer.Option(help="A run.toml to start from; flags win.", metavar="FILE")]


@dataclass(frozen=True)
class Given:
    """What a user said, and the defaults of the command that was asked; later fields win."""

    defaults: Source = field(default_factory=dict)
    file: Source = field(default_factory=dict)
    flags: Source = field(default_factory=dict)
    assigned: Source = field(default_factory=dict)

    def over(self, settings: type[Chosen], kept: Source | None = None) -> Chosen:
        """The settings, with what a run kept below all that was said."""
        return read(settings, self.defaults, kept or {}, self.file, self.flags, self.assigned)

    def says(self, path: str) -> bool:
        """Did the user say anything about this setting?"""
        return any(source.get(path) is not None for source in (self.file, self.flags, self.assigned))


def takes(
    settings: type,
    *wanted: str,
    without: Sequence[str] = (),
    defaults: Mapping[str, object] | None = None,
    of_run: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of these sections or settings; what was said comes as its first argument, a Given.

    wanted and without: ``section`` or ``section.name``. defaults: of this command, where they are not those declared.
    of_run: what a run kept stands in their place, so that help names none.
    """
    own = dict(defaults or {})
    chosen = {p: place for p, place in places(settings).items() if _among(p, wanted) and not _among(p, without)}
    names = {path.replace(".", "__"): path for path, place in chosen.items() if place.declared.flag is not None}
    flagless = [path for path, place in chosen.items() if place.declared.flag is None]

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def asked(*, config: Path | None, assign: list[str] | None, **options: Any) -> None:
            flags = {path: options.pop(name) for name, path in names.items()}
            command(Given(own, from_file(config), flags, from_assignments(assign or ())), **options)

        _, *rest = inspect.signature(command, eval_str=True).parameters.values()
        made = [
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in rest),
            *(_parameter(name, option(chosen[path], "" if of_run else own.get(path))) for name, path in names.items()),
            *(_parameter("config", Config), _parameter("assign", _assign(flagless))),
        ]
        asked.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
        asked.__annotations__ = {parameter.name: parameter.annotation for parameter in made}
        return asked

    return wrap


def option(place: Place, default: object = None) -> Any:
    """The option of one setting, as typer wants it: an annotation. Its text is read with all the others."""
    names, default = _names(place), place.field.default if default is None else default
    if place.kind is bool:
        pair = names[0] if "/" in names[0] else f"{names[0]}/--no-{names[0][2:]}"
        shown = pair.split("/")[not default].removeprefix("--")
        return Annotated[bool | None, _typer_option(place, [pair], shown)]
    return Annotated[str | None, _typer_option(place, names, "" if default is None else written(default))]


def _assign(flagless: Sequence[str]) -> Any:
    """The option --set, which names the settings that have no flag."""
    more = f" The only way to set {', '.join(flagless)}." if flagless else ""
    told = f"Any setting as section.name=value; wins over flags.{more}"
    return Annotated[list[str] | None, typer.Option("--set", help=told, metavar="SETTING")]


def alone(settings: type) -> dict[str, str]:
    """The value of each flag that may be given without one."""
    known = [place for place in places(settings).values() if place.declared.flag is not None]
    return {n: p.declared.alone for p in known for n in _names(p) if p.declared.alone is not None}


class Command(TyperCommand):
    """A command that says which flag was probably meant, and whose flags may stand alone if they have a value for it."""

    alone: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse unknown flags, and give those that stand alone their value."""
        known = [name for option in self.get_params(ctx) for name in (*option.opts, *option.secondary_opts)]
        said: list[str] = []
        for at, word in enumerate(args):
            if word == "--":
                return super().parse_args(ctx, [*said, *args[at:]])
            if word.startswith("--"):
                look_up(f"option of {ctx.info_name}", word.partition("=")[0], dict.fromkeys(known))
            said.append(word)
            if word in self.alone and (at + 1 == len(args) or args[at + 1].startswith("-")):
                said.append(self.alone[word])
        return super().parse_args(ctx, said)


def _typer_option(place: Place, names: Sequence[str], default: str) -> Any:
    declared = place.declared
    facts = "; ".join(filter(None, [declared.range, f"default: {default}" if default else ""]))
    return typer.Option(
        *names,
        help=f"{declared.help} [{facts}]" if facts else declared.help,
        rich_help_panel=place.section.title(),
        metavar=f"[{_metavar(place)}]" if declared.alone else _metavar(place),
    )


def _metavar(place: Place) -> str:
    """What stands for the value: as declared, or the choices and the type."""
    kinds, choices = get_args(place.kind) or (place.kind,), place.declared.choices
    numbers = [name for kind, name in NUMBERS.items() if kind in kinds]
    several = ",…" if Ellipsis in kinds else ""
    if place.kind is bool:
        return " "  # a flag without a value
    return place.declared.metavar or "|".join([*choices, *numbers] or ["TEXT"]) + several


def _names(place: Place) -> list[str]:
    """How the flag is written, the long name first."""
    return (place.declared.flag or f"--{place.field.name.replace('_', '-')}").split()


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _among(path: str, wanted: Sequence[str]) -> bool:
    return path in wanted or path.partition(".")[0] in wanted
