"""smoothcert recertify: the stored votes of a run, judged anew without the model."""

from __future__ import annotations

from typing import Annotated

import typer

from smoothcert.cli.console import errors
from smoothcert.cli.options import Estimator, Radii, Run, numbers
from smoothcert.errors import SettingError

NAME = "recertify"
EXAMPLE = "smoothcert recertify runs/a --alpha 0.01 --out runs/a-0.01"


def command(
    run: Run,
    out: Annotated[str, typer.Option(help="Where to keep the result: a new run directory, or an empty store.")],
    alpha: Annotated[float | None, typer.Option(help="Another probability of error.")] = None,
    estimator: Estimator = None,
    radii: Radii = None,
) -> None:
    """Certify again from the raw counts of a run: another alpha, another bound, another grid.

    Refuses what the stored votes cannot prove. Decide on alpha, radii and estimator before you look at results: chosen
    afterwards, alpha is no probability of error any more. --radii none asks for the whole radius.
    """
    from smoothcert.recertify import recertify

    given = {
        "alpha": alpha,
        "estimator": estimator,
        "radii": None if radii is None else () if radii == "none" else tuple(sorted(numbers(radii, "--radii"))),
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise SettingError("nothing to change; give --alpha, --estimator or --radii")
    number = recertify(run, out, changes)
    errors.print(f"{number} records judged again in {out}; compare with: smoothcert report {run} {out}")
