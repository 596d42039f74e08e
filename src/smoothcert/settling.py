"""A run's memory: where it is kept, whom it belongs to, and whether it still holds what the run has promised."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from smoothcert.errors import RunError
from smoothcert.memory import Memory
from smoothcert.promises import RULE
from smoothcert.records import Record
from smoothcert.store import RESULTS


def memory_file(place: Path | str) -> Path:
    """The file of a memory: a run directory stands for its results.

    >>> memory_file("some/memory.sqlite").name
    'memory.sqlite'
    """
    path = Path(place)
    return path / RESULTS if path.is_dir() else path


def check_kept(memory: Memory, run: str, records: Iterable[Record], directory: Path) -> None:
    """Refuse a memory that has lost what a run's records promise: later inputs would be settled against too little."""
    # What an abstention takes over from a stored region is no promise of its own.
    made = {r.index for r in records if r.label is not None and not (r.rule == RULE and r.region_radius == 0)}
    lost = sorted(made - memory.indices(run))
    if lost:
        raise RunError(
            f"the memory {memory.path} lacks the promises of {len(lost)} inputs of {directory} (index {lost[0]} is the "
            "first); give the memory that this run was begun with, or certify into a new directory"
        )
