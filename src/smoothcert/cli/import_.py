"""smoothcert import: others' published logs as runs, labelled imported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import errors
from smoothcert.cli.options import command_line

NAME = "import"
EXAMPLE = "smoothcert import cohen.tsv --format cohen --sigma 0.5 --alpha 0.001 --n 100000 --out runs/cohen"


def command(
    file: Annotated[Path, typer.Argument(help="A tab-separated log: idx label predict radius correct time …")],
    out: Annotated[Path, typer.Option(help="A new run directory for the result.")],
    alpha: Annotated[
        float,
        typer.Option(help="Probability of error per certificate that its author used; 0 where all views were asked."),
    ],
    n: Annotated[int, typer.Option("--n", "-n", help="Votes, or views, per certificate that its author used.")],
    sigma: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the noise; none for views. Columns of the log go first: sigma, or min_sigma, which is "
            "the law's scale (for uniform noise its half-width)."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(help="cohen (Cohen et al. 2019 and most others) or ancer (with the column radius_proxy).")
    ] = "cohen",
    noise: Annotated[str, typer.Option(help="The law of the noise, or views, as for certify.")] = "gaussian",
    norm: Annotated[float, typer.Option(help="The norm of the radii.")] = 2.0,
    threat: Annotated[
        str | None, typer.Option(help="With views: the radii are sizes of this threat, such as patch.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(help="Whose it is: logs of one method have a common envelope over sigmas. [default: the format]"),
    ] = "",
) -> None:
    """Read a log that this field publishes into a run, to stand in a report beside ours.

    Its numbers are what its author says: every record is labelled imported, and nothing is checked but the form.
    """
    from smoothcert.store.imports import Log, import_log

    number = import_log(file, out, format, Log(sigma, alpha, n, noise, norm, method, threat), command=command_line())
    errors.print(f"{number} records in {out}; compare with: smoothcert report {out} RUN")
