"""smoothcert demo: the main job, start to end, on the embedded digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.certify import certify_run
from smoothcert.cli.console import errors, output, print_json
from smoothcert.cli.options import Json
from smoothcert.cli.train import train_model
from smoothcert.config import Settings
from smoothcert.plan import IN_RUN
from smoothcert.sections import read

NAME = "demo"
EXAMPLE = "smoothcert demo --out demo"
SIGMA = 0.5
# Directory, law, norm, method, settled by a memory?
KINDS = (
    ("fixed", "gaussian", 2.0, "fixed", False),
    ("data_dependent", "gaussian", 2.0, "data_dependent", False),
    ("ancer", "gaussian", 2.0, "ancer", True),
    ("laplace", "laplace", 1.0, "fixed", False),
)


def command(
    out: Annotated[Path, typer.Option(help="Where to put the model, the runs and the curve.")] = Path("demo"),
    limit: Annotated[int, typer.Option(help="Test digits to certify.", min=1)] = 60,
    estimate: Annotated[int, typer.Option(help="Votes per digit.", min=20)] = 4000,
    epochs: Annotated[int, typer.Option(help="Training epochs.", min=1)] = 8,
    json: Json = False,
) -> None:
    """Train a small network under noise, certify test digits with fixed and with tuned noise, and make a report.

    Takes a few minutes on two cores; started again, it goes on where it stopped.
    """
    from smoothcert.report.runs import read_runs
    from smoothcert.report.sheets import to_rich
    from smoothcert.report.tables import common_radii, main_sheet, summary
    from smoothcert.report.write import write_report

    errors.print(f"1. train a small network on 4 000 embedded digits with Gaussian noise, sigma = {SIGMA}")
    model = train_model(read(Settings, {"noise.sigma": SIGMA, "train.epochs": epochs}), out / "model")
    runs = []
    for number, (name, law, norm, method, settled) in enumerate(KINDS, start=2):
        words = f"{law} noise, l{norm:g}, method {method}" + (", settled by a memory" if settled else "")
        errors.print(f"{number}. certify {limit} test digits: {words}, {estimate} votes each")
        flags = {
            "model.source": str(model),
            "data.limit": limit,
            "noise.law": law,
            "noise.sigma": SIGMA,
            "votes.norm": norm,
            "votes.trials": estimate,
            "votes.method": method,
        }
        if settled:
            flags["votes.memory"] = IN_RUN
        directory = out / name
        certify_run(read(Settings, flags), directory, note="smoothcert demo", title=name)
        runs.append(directory)
    found = read_runs(runs)
    lines = [line for run in found for line in run.lines]
    radii = common_radii(lines)
    page = write_report(found, radii, out)
    if json:
        print_json([summary(line, radii) for line in lines])
        return
    output.print(to_rich(main_sheet(lines, radii), output.width))
    print(
        f"Open {page} in a browser; its figures and tables lie beside it, the records in {', '.join(map(str, runs))}."
    )
    print(
        "How to read it: the label 'global' means that the smoothed classifier's answer is constant within the radius, "
        "except with probability alpha per certificate. 'frozen': the noise was chosen for that input, and the certificate "
        "holds for this noise only. 'memory': it holds for the classifier that answers from the stored regions first."
    )
    print("What to try next:")
    print(f"  smoothcert certify --model {model} --sigma 0.25 --norm inf --limit 50 -n 10000 --out {out}/linf")
    print(f"  smoothcert report {runs[0]} {out}/linf")
    print(f"  smoothcert export {runs[0]} --format cohen")
    print("  smoothcert certify --help    (your own model and data)")
