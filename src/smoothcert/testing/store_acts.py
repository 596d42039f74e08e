"""Stores at new places, things to keep in them, and processes that write and are killed: what the suite of stores does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from smoothcert.certificates import Soundness
from smoothcert.engine import Engine
from smoothcert.records.findings import Attempt, Finding
from smoothcert.records.record import Record
from smoothcert.store import InMemoryStore, ResultStore
from smoothcert.store.pictures import Picture
from smoothcert.testing.records import RECORD

Factory = Callable[[Path], ResultStore]
PICTURE = Picture(np.arange(6, dtype=np.uint8).reshape(2, 3), -1.5, 2.0)
ATTEMPT = Attempt("random", 0.5, 1, 0.9, 0.1, 100, False)


@contextmanager
def places(member: Factory) -> Iterator[tuple[Path, ResultStore, ResultStore]]:
    """A place where nothing is yet, and two stores there."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder) / "run"
        one, other = (stack.enter_context(member(place)) for _ in range(2))
        yield place, one, other


def record_at(index: int) -> Record:
    """A record of numbers that no rounding leaves alone."""
    return replace(RECORD, index=index, radius=0.1 + index / 3, lower=1 - 2**-53, norm=float("inf"))


def finding_at(index: int, times: float) -> Finding:
    """A finding about this input."""
    offset = np.array([float(index), 0.1])
    return Finding(index, 1, Soundness.GLOBAL, times, 0.5 * times, 2.0, 0.001, 0.001, (ATTEMPT,), offset, False)


def address_at(first: int) -> str:
    """Where InMemoryStore would put the array that ``write_and_die`` puts."""
    return InMemoryStore().put(np.array([float(first)]))


def texts(store: ResultStore) -> list[str]:
    """The records, byte for byte."""
    return [record.to_json() for record in store.records()]


def certify_into(store: ResultStore, indices: list[int] | None = None) -> None:
    """A tiny run: three inputs of six coordinates, each with its own scale."""
    import torch

    from smoothcert.data.rows import ArrayDataset
    from smoothcert.noise import Noise
    from smoothcert.run import certify_all
    from smoothcert.smoother import Smoother
    from smoothcert.testing.problems import HalfSpace

    noise = Noise("gaussian", np.linspace(0.1, 0.4, 6), grid=1 / 255)
    smoother = Smoother(
        HalfSpace(torch.eye(6)[0], -0.5), noise, select=20, estimate=200, engine=Engine(block=50, workers=1)
    )
    pixels = np.arange(18, dtype=np.uint8).reshape(3, 6) * 14
    certify_all(smoother, ArrayDataset("three", pixels, [0, 1, 0]), store, indices=indices)


def started(store: ResultStore, what: str) -> subprocess.Popen[str]:
    """A process of its own that makes the store from its text and does this with it."""
    program = f"from smoothcert.store import REGISTRY; from smoothcert.testing.store_acts import *; store = REGISTRY.make({str(store)!r}); {what}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe, command = subprocess.PIPE, [sys.executable, "-c", program]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def status(store: ResultStore, what: str) -> int:
    """How such a process ends."""
    with started(store, what) as process:
        return process.wait()


def write_and_die(store: ResultStore, first: int) -> None:
    """One of every write, and SIGKILL."""
    store.claim("configuration", {"first": first})
    store.put(np.array([float(first)]))
    store.keep("hard", finding_at(first, 1.0))
    store.append(record_at(first), 1.0, PICTURE)
    store.append_all([(record_at(first + 1), 1.0, None), (record_at(first + 2), 1.0, None)])
    store.describe({"notes": {"first": first}})
    os.kill(os.getpid(), signal.SIGKILL)


def die_amid(store: ResultStore) -> None:
    """SIGKILL after two of three rows."""

    def rows() -> Iterator[tuple[Record, float, Picture | None]]:
        yield record_at(0), 1.0, PICTURE
        yield record_at(1), 1.0, None
        os.kill(os.getpid(), signal.SIGKILL)
        yield record_at(2), 1.0, None

    store.append_all(rows())


def claim_and_append(store: ResultStore, number: int) -> None:
    """Wait for the word, claim, append, and say whose claim stands."""
    print("ready", flush=True)
    sys.stdin.readline()
    kept = store.claim("number", number)
    store.append(record_at(number), 1.0)
    store.append(record_at(9), float(number))
    store.close()
    print(kept)
