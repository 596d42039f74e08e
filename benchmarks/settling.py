"""What a memory on a server costs: python benchmarks/settling.py starts a Postgres of its own and prints a table.

Processes settle 600 ellipsoids of dimension 784 among them into one memory, each of which meets others: how many a second,
how long one takes (median, 99 of 100, slowest), and how many pairs of the promises contradict each other. The row "sqlite" is
the same with a file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.memory.memory import Memory

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from helpers.servers import PostgresServer
from helpers.settlers import contradictions, settlers


def measure(name: str, place: str, processes: int, count: int, dim: int) -> None:
    """One row of the table."""
    with settlers(place, dim=dim, count=count, settlers=processes) as group:
        began = time.perf_counter()
        group.go()
        assert group.join() == [0] * processes
        seconds = time.perf_counter() - began
        took = np.array([milliseconds for *_, milliseconds in group.told()])
    with Memory.open(place, create=False) as memory:
        promises = list(memory.promises())
    row = [len(took) / seconds, *np.percentile(took, [50, 99, 100])]
    print(f"{name:12}{processes:>10}" + "".join(f"{value:>10.1f}" for value in row), end="", flush=True)
    print(f"{contradictions(promises):>16}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What a memory on a server costs.")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--dim", type=int, default=784)
    arguments = parser.parse_args()
    columns = ("processes", "per s", "median", "p99", "slowest")
    print(f"{'memory':12}" + "".join(f"{name:>10}" for name in columns) + f"{'contradictions':>16}")
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        for processes in arguments.processes:
            for name, place in (("postgres", f"{server.url}#{processes}"), ("sqlite", f"{folder}/{processes}.sqlite")):
                measure(name, place, processes, arguments.count, arguments.dim)


if __name__ == "__main__":
    main()
