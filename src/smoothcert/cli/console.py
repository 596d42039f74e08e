"""What the commands print: results to standard output, progress and notes to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

output = Console(soft_wrap=False)
# No markup: messages hold brackets that mean themselves, such as smoothcert[parquet].
errors = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar with count, a field ``rate`` in words, and the time left; nothing at all when not on a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        yield bar
