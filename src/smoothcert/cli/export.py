"""smoothcert export: the records of a run as a file for other programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli.console import errors
from smoothcert.cli.options import Run
from smoothcert.errors import SettingError, look_up
from smoothcert.files import write_atomically

if TYPE_CHECKING:
    from smoothcert.records.record import Record

NAME = "export"
EXAMPLE = "smoothcert export runs/a --format cohen --out a.tsv"


def command(
    run: Run,
    format: Annotated[
        str, typer.Option(help="csv, parquet (needs the extra 'parquet') or cohen (the tab-separated log).")
    ] = "csv",
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: standard output]")] = None,
) -> None:
    """Write the records of a run as CSV, Parquet or the tab-separated log this field publishes."""
    from smoothcert.report.exports import FORMATS
    from smoothcert.store import check_filled, open_run

    if out is not None and out.is_dir():
        raise SettingError(f"--out {out} is a directory; give the file to write, such as --out {out / f'run.{format}'}")
    convert = look_up("format", format, FORMATS)
    with open_run(run) as store:
        records, seconds = list(store.records()), store.seconds()
    check_filled(run, records)
    if format == "cohen":
        _warn_of_labels(records)
    content = convert(records, [seconds[record.index] for record in records])
    if out is not None:
        write_atomically(out, content)
    elif format == "parquet" and sys.stdout.isatty():
        raise SettingError("parquet is not text; give --out FILE")
    else:
        sys.stdout.buffer.write(content)


def _warn_of_labels(records: Sequence[Record]) -> None:
    """The log has no column for the label, so whoever reads it takes every radius for a proof about the deployed classifier."""
    from smoothcert.certificates import Soundness
    from smoothcert.report.fairness import MEANING

    threats = {record.threat for record in records if record.threat is not None}
    if threats:
        errors.print(
            f"note: the radii are sizes of the threat {', '.join(sorted(threats))}, which this format does not say"
        )
    labels = Counter(record.soundness for record in records if record.label is not None)
    for label in sorted(labels.keys() - {Soundness.GLOBAL}):
        errors.print(
            f"warning: {labels[label]} of {labels.total()} certificates are labelled {label.value} ({MEANING[label]}), and this "
            "format has no column for it: say so wherever you publish it, or export csv",
            style="yellow",
        )
