"""smoothcert merge: the parts of a run, certified apart, as one run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from smoothcert.cli.build import dataset_of
from smoothcert.cli.certify import write_settings
from smoothcert.cli.console import errors
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.of_run import kept_by
from smoothcert.cli.options import command_line
from smoothcert.config import Settings
from smoothcert.errors import without_passwords
from smoothcert.plan import IN_RUN
from smoothcert.sections import write

NAME = "merge"
EXAMPLE = "smoothcert merge runs/part-1 runs/part-2 runs/part-3 --out runs/a"


@takes(Settings, "data.source", "votes.memory", of_run=True)
def command(
    given: Given,
    runs: Annotated[list[str], typer.Argument(help="The parts: run directories, or stores.")],
    out: Annotated[str, typer.Option(help="Where to keep the result: a new run directory, or an empty store.")],
) -> None:
    """Put the parts of a run together: what certify --shard made of the same settings, on any machines.

    The records are those of one run, byte for byte. --memory settles them afterwards in the order of their indices, with
    the promises that one run would have made; it needs the data, which --data names if they have moved. Runs of another
    configuration or with an input in common are refused.
    """
    from smoothcert.merge import check_settles, merge
    from smoothcert.store import open_run

    settings = given.over(Settings, kept_by(runs[0]))
    place = settings.votes.memory
    memory = out if place == IN_RUN else place
    if memory is not None:
        with open_run(runs[0]) as store:
            check_settles(store.facts()["configuration"])
    data = None if memory is None else dataset_of(settings.data)
    text = write(replace(settings, data=replace(settings.data, shard=None)))
    number = merge(runs, out, dataset=data, memory=memory, notes={"command": command_line(), "settings": text})
    write_settings(out, text)
    shown = without_passwords(out)
    errors.print(f"{number} inputs in {shown}; look at them with: smoothcert report {shown}")
