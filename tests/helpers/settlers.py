"""Processes that settle into one memory at once, what they were told, and whether the memory has kept it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from smoothcert.certificates import Certificate, Soundness
from smoothcert.data import Dataset, load
from smoothcert.estimators.bounds import Bound
from smoothcert.memory.memory import Memory
from smoothcert.records.promise import Promise
from smoothcert.regions import Region

DIGITS = 784  # in this dimension the centers are images


def certificate_at(index: int, dim: int) -> Certificate:
    """An ellipsoid in a crowd: it would meet some of its neighbours with other labels, and few of those far away."""
    rng = np.random.default_rng([dim, index])
    label, center = int(rng.integers(3)), rng.normal(size=dim)
    if dim == DIGITS:
        digits = _digits()
        [truth], center = digits.truths([index]), digits.inputs([index]).ravel().astype(float)
        label = int(truth or 0)
    scale = np.exp(0.3 * rng.normal(size=dim))
    size = rng.uniform(0.3, 3.0) if dim == DIGITS else float(np.sqrt(2 * dim)) * rng.uniform(0.2, 0.7)
    return Certificate(label, Bound(0.9, 0.001, 100), Region(center, scale, size, 2.0), Soundness.FROZEN, "rule")


@cache
def _digits() -> Dataset:
    return load("digits")


def settle_all(place: str, dim: str, first: str, step: str, last: str, told: str) -> None:
    """Settle every step-th ellipsoid and write each answer down once it was given: index, label, radius, milliseconds."""
    with Memory.open(place, dim=int(dim), owner={"who": "all"}) as memory, open(told, "a", encoding="utf-8") as lines:
        print("ready", flush=True)
        sys.stdin.readline()
        for index in range(int(first), int(last), int(step)):
            certificate = certificate_at(index, int(dim))
            began = time.perf_counter()
            settled = memory.settle(certificate, index=index if index % 3 else None, run="load")
            assert isinstance(settled.region, Region)
            took = 1e3 * (time.perf_counter() - began)
            lines.write(json.dumps([index, settled.label, settled.region.radius, took]) + "\n")
            lines.flush()


class Settlers:
    """Several such processes; ``told`` is what they were answered so far."""

    def __init__(self, place: str, *, dim: int, count: int, settlers: int, folder: Path) -> None:
        self.files = [folder / f"{number}.txt" for number in range(settlers)]
        self.processes = []
        for number, file in enumerate(self.files):
            words = map(str, (place, dim, number, settlers, count, file))
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-W", "ignore", __file__, *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def go(self) -> None:
        """Let all begin at once."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def told(self) -> list[list[Any]]:
        """Every answer that was given: index, label, radius, milliseconds."""
        lines = [line for file in self.files if file.exists() for line in file.read_text().splitlines(keepends=True)]
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_for(self, answers: int, seconds: float = 120) -> None:
        """Until so many answers were given."""
        until = time.monotonic() + seconds
        while len(self.told()) < answers:
            assert time.monotonic() < until, f"{len(self.told())} of {answers} answers after {seconds} s"
            time.sleep(0.01)

    def join(self) -> list[int]:
        """How they ended."""
        return [process.wait(timeout=240) for process in self.processes]


@contextmanager
def settlers(place: str, *, dim: int, count: int, settlers: int = 4) -> Iterator[Settlers]:
    """Processes that are ready to settle ``count`` ellipsoids among them; none is left behind."""
    with TemporaryDirectory() as folder:
        made = Settlers(place, dim=dim, count=count, settlers=settlers, folder=Path(folder))
        try:
            yield made
        finally:
            for process in made.processes:
                process.kill()
                process.communicate()


def contradictions(promises: Sequence[Promise]) -> int:
    """How many pairs of different labels meet; those whose enclosing balls are apart are not looked at."""
    found = 0
    centers = np.stack([np.ravel(promise.region.center) for promise in promises])
    reach = np.array([promise.region.radius * np.max(promise.region.scale) for promise in promises])
    labels = np.array([promise.label for promise in promises])
    for at in range(1, len(promises)):
        apart = np.linalg.norm(centers[:at] - centers[at], axis=1)
        near = np.flatnonzero((labels[:at] != labels[at]) & (apart <= reach[:at] + reach[at]))
        one = promises[at].region
        found += sum(not one.clearance(promises[int(other)].region) > one.radius for other in near)
    return found


if __name__ == "__main__":
    settle_all(*sys.argv[1:])
