"""A run's memory: where it is kept, whom it belongs to, and whether it still holds what the run has promised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smoothcert.errors import RunError, SettingError, StoreError
from smoothcert.memory.memory import MEMORY, Memory
from smoothcert.records.promise import RULE
from smoothcert.records.record import Record
from smoothcert.store import Keeper, Place, ResultStore, directory_of, opened
from smoothcert.store.server import is_server, named
from smoothcert.store.server_keeper import has_memory


def same_place(one: Place, other: Place) -> bool:
    """Is it one run, however it is written?

    >>> same_place("runs/a", Path("runs/b/../a")), same_place("runs/a", "sqlite:path=runs/a"), same_place("a", "b")
    (True, True, False)
    """
    if is_server(one) and is_server(other):
        return named(str(one), MEMORY) == named(str(other), MEMORY)
    first, second = directory_of(one), directory_of(other)
    if first is None or second is None:
        return one is other or (isinstance(one, str) and one == other)
    return first.resolve() == second.resolve()


def keeper_at(place: Place) -> Path | str | Keeper:
    """Where an existing memory is: a file of its own, on a server, or the run that holds it.

    >>> keeper_at("some/memory.sqlite").name
    'memory.sqlite'
    """
    if is_server(place):
        return str(place)
    path = directory_of(place)
    if path is not None and not path.is_dir():
        return path
    with opened(place) as store:
        found = store.keeper() if store.begun else None
    if found is None:
        raise StoreError(f"{place} holds no memory; give a file or a run made by smoothcert certify --memory")
    return found


def is_missing(where: Path | str | Keeper) -> bool:
    """Is there no memory yet where one may be made?"""
    if is_server(where):
        return not has_memory(*named(str(where), MEMORY))
    return isinstance(where, Path) and not where.exists()


@contextmanager
def memory_of(
    store: ResultStore, place: Place | None, own: Memory | None, *, norm: float, owner: Mapping[str, Any]
) -> Iterator[Memory | None]:
    """The memory that keeps the certificates of a run: at this place; by default the run's own, or the one it was settled by.

    None if there is none. One that is named and missing must not be made, since it would promise nothing.
    """
    found = store.keeper() if place is None else keeper_at(place)
    if found is not None and is_missing(found):
        raise SettingError(f"there is no memory at {place}; give the file that the certificates were settled in")
    if found is None:
        yield own if "memory" in store.facts().get("configuration", {}) else None
        return
    with Memory.open(found, norm=norm, owner=owner, create=False) as memory:
        yield memory


def check_memory(records: Iterable[Record], memory: Memory | None, run: Place) -> None:
    """Refuse certificates that a memory keeps when there is none."""
    if memory is None and any(record.soundness == "memory" for record in records):
        raise RunError(
            f"{run} holds certificates that a memory keeps, but no memory; give its file with --memory, since "
            "they speak of queries that go through it"
        )


def check_kept(memory: Memory, run: str, records: Iterable[Record], place: Place) -> None:
    """Refuse a memory that does not hold what a run's records promise: later inputs would be settled against something else."""
    # What an abstention takes over from a stored region is no promise of its own.
    own = [r for r in records if r.label is not None and not (r.rule == RULE and r.region_radius == 0)]
    kept = memory.settled(run)  # read after the records: others may settle meanwhile

    def holds(record: Record) -> bool:
        label, radius = kept.get(record.index, (None, 0.0))
        return label == record.label and radius >= record.region_radius  # behind a front a record says less

    lost = [record.index for record in own if not holds(record)]
    if lost:
        raise RunError(
            f"the memory {memory.name} lacks the promises of {len(lost)} inputs of {place}, or has others for them (index {lost[0]} "
            "is the first); give the memory that this run was begun with, or certify into a new directory"
        )
