"""smoothcert cite: the BibTeX owed by runs."""

from __future__ import annotations

from typing import Annotated

import typer

NAME = "cite"
EXAMPLE = "smoothcert cite runs/a > references.bib"


def command(
    runs: Annotated[list[str], typer.Argument(help="Runs: their directories, or their stores as name:key=value.")],
) -> None:
    """Print BibTeX entries for the theorems, methods, estimators and data that runs used."""
    from smoothcert.report.citations import bibtex
    from smoothcert.report.runs import read_runs

    print(bibtex(read_runs(runs)), end="")
