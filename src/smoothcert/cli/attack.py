"""smoothcert attack: try to break the certificates of a run."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import errors, output, progress_bar
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.of_run import certified_with
from smoothcert.config import Settings
from smoothcert.errors import SettingError
from smoothcert.files import write_atomically

NAME = "attack"
EXAMPLE = "smoothcert attack runs/a --limit 50 --beyond 1.5,2"


@takes(Settings, *o.MOVED, "data.indices", of_run=True)
def command(
    given: Given,
    run: o.Run,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="An attack, with parameters after a colon, such as projected_gradient:restarts=4 or foolbox:attack=L2PGD; may be "
            "given several times (smoothcert list attacks). [default: all but foolbox]"
        ),
    ] = None,
    budget: Annotated[int, typer.Option(help="Evaluations of the classifier per attack and certificate.")] = 3_000,
    votes: Annotated[int, typer.Option(help="At most so many fresh votes for a verdict.")] = 20_000,
    alpha: Annotated[float, typer.Option(help="Probability that a sound certificate is called violated.")] = 0.001,
    limit: Annotated[int | None, typer.Option(help="At most so many certificates.", min=1)] = None,
    beyond: Annotated[
        str | None,
        typer.Option(
            help="Also attack at these multiples of the radius, comma-separated: 1.1,1.5,2; drawn as RUN/room.png."
        ),
    ] = None,
    memory: o.KeptBy = None,
    json: o.Json = False,
) -> None:
    """Search every certified region for a point where the deployed predictor answers otherwise.

    A violation is declared on fresh votes only. Findings are kept in the run; the same command goes on where it
    stopped. Exit status 1: more certificates labelled global or memory are violated than chance allows.
    --model, --weights, --data and --device are for a run whose files have moved; model and data must be the same.
    """
    multiples = [1.0, *([] if beyond is None else o.numbers(beyond, "--beyond"))]
    if min(multiples) <= 0 or len(set(multiples)) < len(multiples):
        raise SettingError(f"--beyond {beyond!r} must be multiples of the radius above 0, each once and not 1")
    from smoothcert.attacks.check import Effort
    from smoothcert.attacks.over_run import attack_run
    from smoothcert.data.selection import parse_indices
    from smoothcert.report.attacks import attack_summary, attack_table, draw_room
    from smoothcert.store import directory_of

    effort = Effort(tuple(attack) if attack else None, budget, votes, alpha)
    asked = given.over(Settings).data.indices  # without what the run keeps: those that it was certified on
    indices = None if asked is None else parse_indices(asked)
    smoother, dataset = certified_with(run, given)
    with progress_bar("attack") as tell:
        findings = attack_run(
            smoother,
            dataset,
            run,
            effort,
            multiples=multiples,
            limit=limit,
            indices=indices,
            memory=memory,
            progress=tell,
        )
    rows = attack_summary(findings)
    if json:
        print(jsonlib.dumps(rows))
    else:
        output.print(attack_table(findings))
    if beyond is not None:
        picture = (directory_of(run) or Path()) / "room.png"
        write_atomically(picture, draw_room(findings))
        errors.print(f"curve: {picture}", highlight=False)
    if any(row["broken"] for row in rows):
        raise typer.Exit(1)
