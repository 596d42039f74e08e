"""What several commands share beside the settings: arguments, and small readers."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer

from smoothcert.cli.flags import Command, alone
from smoothcert.config import Settings
from smoothcert.errors import SettingError, without_passwords

Run = Annotated[str, typer.Argument(help="A run: its directory, or its store as name:key=value.")]
KeptBy = Annotated[
    str | None, typer.Option(help="The memory that keeps the certificates. [default: the run's own, if any]")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
MOVED = ("model.source", "model.weights", "data.source", "engine.device")  # for a run whose files have moved


class SettingsCommand(Command):
    """A command whose flags may stand alone where the settings say so."""

    alone = alone(Settings)


def command_line() -> str:
    """The exact command, for the run's notes, without the passwords of URLs."""
    return shlex.join([os.path.basename(sys.argv[0]), *map(without_passwords, sys.argv[1:])])


def numbers(text: str, flag: str) -> list[float]:
    """Numbers written with commas between, none negative."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"{flag} {text!r} must be numbers with commas between, for example 0.25,0.5,1") from None
    if min(values) < 0:
        raise SettingError(f"{flag} {text!r} must not be negative")
    return values
