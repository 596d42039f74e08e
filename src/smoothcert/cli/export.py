"""smoothcert export: the records of a run as a file for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.errors import RunError, SettingError, look_up
from smoothcert.files import write_atomically

NAME = "export"
EXAMPLE = "smoothcert export runs/a --format cohen --out a.tsv"


def command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    format: Annotated[
        str, typer.Option(help="csv, parquet (needs the extra 'parquet') or cohen (the tab-separated log).")
    ] = "csv",
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: standard output]")] = None,
) -> None:
    """Write the records of a run as CSV, Parquet or the tab-separated log this field publishes."""
    from smoothcert.report.exports import FORMATS
    from smoothcert.store import open_run

    convert = look_up("format", format, FORMATS)
    with open_run(run) as store:
        records, seconds = list(store.records()), store.seconds()
    if not records:
        raise RunError(f"{run} holds no records yet; certify some inputs into it first")
    content = convert(records, [seconds[record.index] for record in records])
    if out is not None:
        write_atomically(out, content)
    elif format == "parquet" and sys.stdout.isatty():
        raise SettingError("parquet is not text; give --out FILE")
    else:
        sys.stdout.buffer.write(content)
