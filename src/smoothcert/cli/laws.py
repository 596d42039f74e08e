"""smoothcert laws: the kinds of noise."""

from __future__ import annotations

from rich.table import Column, Table

from smoothcert.cli.console import output

NAME = "laws"
EXAMPLE = "smoothcert laws"


def command() -> None:
    """List the laws of noise, whether they take a sigma, and in which norms a theorem gives the radius."""
    from smoothcert.laws import LAWS, law_named

    table = Table(Column("law", no_wrap=True), "sigma or scale", "a theorem in", "what it is")
    for law in map(law_named, LAWS):
        norms = ", ".join("l∞" if norm == float("inf") else f"l{norm:g}" for norm in law.radii)
        words = (type(law).__doc__ or "").strip().splitlines()[0]
        table.add_row(str(law), "sigma or scale" if law.std else "scale", norms or "–", words)
    output.print(table)
    print("Every law also certifies in every other norm, by conversion or a computed table. Use: --noise LAW.")
