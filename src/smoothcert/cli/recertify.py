"""smoothcert recertify: the stored votes of a run, judged anew without the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import errors
from smoothcert.cli.options import Estimator, Radii, Rivals, Tolerance, numbers
from smoothcert.errors import SettingError

NAME = "recertify"
EXAMPLE = "smoothcert recertify runs/a --alpha 0.01 --out runs/a-0.01"


def command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[Path, typer.Option(help="A new run directory for the result.")],
    alpha: Annotated[float | None, typer.Option(help="Another probability of error.")] = None,
    estimator: Estimator = None,
    radii: Radii = None,
    tolerance: Tolerance = None,
    rivals: Rivals = None,
) -> None:
    """Certify again from the raw counts of a run: another alpha, another bound, another grid.

    Refuses what the stored votes cannot prove. Decide on alpha, radii and rivals before you look at results: chosen
    afterwards, alpha is no probability of error any more. --radii none asks for the whole radius.
    """
    from smoothcert.recertify import recertify

    given = {
        "alpha": alpha,
        "estimator": estimator,
        "radii": None if radii is None else () if radii == "none" else tuple(sorted(numbers(radii, "--radii"))),
        "tolerance": tolerance,
        "rivals": rivals,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise SettingError("nothing to change; give --alpha, --estimator, --radii, --tolerance or --rivals")
    number = recertify(run, out, changes)
    errors.print(f"{number} records judged again in {out}; compare with: smoothcert report {run} {out}")
