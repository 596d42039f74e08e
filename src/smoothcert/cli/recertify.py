"""smoothcert recertify: the stored votes of a run, judged anew without the model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from smoothcert.cli.console import errors
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.options import Run
from smoothcert.config import Settings
from smoothcert.errors import SettingError, without_passwords

NAME = "recertify"
EXAMPLE = "smoothcert recertify runs/a --alpha 0.01 --out runs/a-0.01"
JUDGED = ("alpha", "estimator", "radii", "threat")


@takes(Settings, *(f"votes.{name}" for name in JUDGED), "noise.box", of_run=True)
def command(
    given: Given,
    run: Run,
    out: Annotated[str, typer.Option(help="Where to keep the result: a new run directory, or an empty store.")],
) -> None:
    """Certify again from the raw counts of a run: another alpha, another bound, or inputs that are clipped to a box.

    Refuses what the stored votes cannot prove. Decide on alpha, radii and estimator before you look at results: chosen
    afterwards, alpha is no probability of error any more. --radii none asks for the whole radius. Votes on all views are
    exact: of them only the --threat can be another.
    """
    from smoothcert.maths.boxed import Box
    from smoothcert.recertify import recertify

    votes = given.over(Settings).votes
    asked = {
        "alpha": votes.alpha,
        "estimator": votes.estimator,
        "radii": tuple(sorted(votes.radii)),
        "threat": votes.threat,
    }
    changes: dict[str, Any] = {name: value for name, value in asked.items() if given.says(f"votes.{name}")}
    if given.says("noise.box"):
        changes["box"] = Box.read(given.over(Settings).noise.box)
    if not changes:
        raise SettingError("nothing to change; give --alpha, --estimator, --radii or --box, or for views --threat")
    number = recertify(run, out, changes)
    run, out = without_passwords(run), without_passwords(out)
    errors.print(f"{number} records judged again in {out}; compare with: smoothcert report {run} {out}")
