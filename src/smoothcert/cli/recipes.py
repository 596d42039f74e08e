"""smoothcert recipes: the ways to train."""

from __future__ import annotations

from rich.table import Table

from smoothcert.cli.console import output

NAME = "recipes"
EXAMPLE = "smoothcert recipes"


def command() -> None:
    """List the recipes of smoothcert train, with their parameters and sources."""
    from smoothcert.training import RECIPES

    table = Table("recipe", "parameters and defaults", "what it does")
    for name, make in RECIPES.items():
        table.add_row(name, str(make()).partition(":")[2].replace(",", ", "), make.summary)
    output.print(table)
    print("Use: smoothcert train --recipe NAME or NAME:parameter=value,…; --data-dependent goes with all of them.")
