"""What the memory costs: python benchmarks/memory.py ROOT [--entries 1000 10000] prints a table in milliseconds.

ROOT holds CIFAR-10. Its images are the centers; scales are drawn from [0.1, 0.5] (per pixel for the ellipsoids), and
the regions' radii from [0.3, 1.0] in l2, twice that in l1 and 3 % of it in l∞. The column "crowded" asks for regions
ten times as large, which do meet stored ones.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.certificates import Certificate, Soundness
from smoothcert.data.cifar10 import load_cifar10
from smoothcert.estimators.bounds import Bound
from smoothcert.memory.memory import Memory
from smoothcert.regions import Region

SHAPES = {"ball": (2.0, 1.0), "ellipsoid": (2.0, 1.0), "cross-polytope": (1.0, 2.0), "box": (math.inf, 0.03)}
QUERIES = 50


def certificate(x: np.ndarray, label: int, shape: str, rng: np.random.Generator, factor: float = 1.0) -> Certificate:
    """A certificate like those of per-input noise."""
    norm, size = SHAPES[shape]
    scale = rng.uniform(0.1, 0.5)
    axes = np.asarray(scale) if shape in ("ball", "box") else (scale * np.exp(0.3 * rng.normal(size=x.shape)))
    radius = factor * size * rng.uniform(0.3, 1.0) / scale
    return Certificate(
        label, Bound(0.9, 0.001, 1000), Region(x, axes.astype(np.float32), radius, norm), Soundness.FROZEN
    )


def measure(shape: str, entries: int, images: np.ndarray, labels: list[int]) -> list[float]:
    """Milliseconds to settle (median, slowest), to answer, to settle in a crowd, and seconds to open the file."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.sqlite"
        with Memory.open(path) as memory:
            for index in range(entries):
                memory.settle(certificate(images[index], labels[index], shape, rng), index=index)
            last = range(entries, entries + QUERIES)
            plain = [timed(memory.settle, certificate(images[i], labels[i], shape, rng)) for i in last]
            answer = [timed(memory.answer, images[i]) for i in range(QUERIES)]
            crowd = [timed(memory.settle, certificate(images[i] * 0.9, labels[i], shape, rng, 10.0)) for i in last]
        began = time.perf_counter()
        Memory.open(path).close()
        opened = time.perf_counter() - began
    return [*(float(np.median(plain)), max(plain), float(np.median(answer)), float(np.median(crowd))), opened]


def timed(function, *arguments) -> float:  # type: ignore[no-untyped-def]
    """Milliseconds of one call."""
    began = time.perf_counter()
    function(*arguments)
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What the memory costs.")
    parser.add_argument("root", type=Path, help="the folder that holds CIFAR-10")
    parser.add_argument("--entries", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    arguments = parser.parse_args()
    split = "test" if max(arguments.entries) + QUERIES <= 10_000 else "train"
    dataset = load_cifar10(arguments.root, split)
    indices = list(range(min(len(dataset), max(arguments.entries) + QUERIES)))
    images, labels = dataset.inputs(indices), [int(truth or 0) for truth in dataset.truths(indices)]
    columns = ("settle", "slowest", "answer", "crowded", "open, s")
    print(f"{'shape':16}{'entries':>9}" + "".join(f"{name:>10}" for name in columns))
    for shape in arguments.shapes:
        for entries in arguments.entries:
            row = measure(shape, min(entries, len(indices) - QUERIES), images, labels)
            print(f"{shape:16}{entries:9d}" + "".join(f"{value:10.2f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
