"""What noise costs in training: python benchmarks/training.py prints each recipe's time as a ratio to the same loop without noise.

Epochs of all recipes follow each other, round after round, so that a noisy machine slows them alike; the ratio is taken
within each round and the median printed. Times are processor time on one core, or wall time on all with --wall. The targets
are 1.15 for gaussian and 2.3 for consistency.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import smoothcert as sc
from smoothcert.training import RECIPES, Batch, BatchReport, Recipe, TrainSettings, new_model, train

SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


@dataclass(frozen=True)
class Plain(Recipe):
    """No noise at all."""

    name = "plain"

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return functional.cross_entropy(model(batch.x), batch.y)


def epoch_seconds(recipe: str, shape: tuple[int, ...], size: int, wall: bool) -> float:
    """The time of the steps of one epoch, without the measuring and saving that follow."""
    generator = np.random.default_rng(0)
    inputs = generator.integers(0, 256, (size, *shape)).astype(np.uint8)
    labels = np.arange(size) % 10
    clock, stamps = time.perf_counter if wall else time.process_time, []

    def stamp(report: BatchReport) -> None:
        stamps.append(clock())

    architecture = {"name": "small_cnn", "shape": shape, "classes": 10}
    settings = TrainSettings(recipe, epochs=1, warmup=0.0)
    with tempfile.TemporaryDirectory() as folder:
        train(
            new_model(architecture, 0),
            inputs,
            labels,
            settings,
            noise=sc.Noise.isotropic("gaussian", 0.25),
            out=Path(folder),
            architecture=architecture,
            batch_progress=stamp,
        )
    return stamps[-1] - stamps[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=3840, help="inputs of an epoch; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--recipes", default="gaussian,stability,consistency", help="default: %(default)s")
    parser.add_argument("--wall", action="store_true", help="wall time on all cores")
    args = parser.parse_args()
    if not args.wall:
        torch.set_num_threads(1)
    RECIPES["plain"] = Plain
    names = ["plain", *args.recipes.split(",")]
    for data, shape in SHAPES.items():
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(args.rounds):
            for name in names:
                times[name].append(epoch_seconds(name, shape, args.size, args.wall))
        print(
            f"small_cnn, inputs as {data}: {1e6 * statistics.median(times['plain']) / args.size:.0f} µs per input without noise"
        )
        for name in names[1:]:
            ratios = [own / plain for own, plain in zip(times[name], times["plain"], strict=True)]
            print(
                f"  {name:12s} {statistics.median(ratios):.3f} of it (rounds: {min(ratios):.3f} to {max(ratios):.3f})"
            )


if __name__ == "__main__":
    main()
