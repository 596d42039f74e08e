r"""What tuning the noise per input buys and costs: python benchmarks/tuners.py RUN… compares runs, the first by itself.

For each RUN: the average certified radius (wrong or abstaining counts 0) and the average proxy radius, each also with
certificates that echo counted as 0 ("quiet"), how many echo, and on which share of the inputs its radius is at least that
of every run before it ("best"). All runs hold the same inputs. With --cost it certifies
nothing, but times tuning against voting on a network:

    for method in fixed data_dependent ancer data_dependent:echo=1 ancer:echo=1; do
        smoothcert certify --model mnist-0.5/model.safetensors --data mnist --sigma 0.5 --skip 50 --method $method \
            --estimator fixed -n 10000 --out mnist-$method
    done
    python benchmarks/tuners.py mnist-fixed mnist-data_dependent mnist-ancer
    python benchmarks/tuners.py --cost --model mnist-0.5/model.safetensors --data mnist --sigma 0.5
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from smoothcert import data
from smoothcert.engine import Engine
from smoothcert.metrics.curves import (
    average_certified_proxy_radius,
    average_certified_radius,
    echoing,
    without_echoes,
)
from smoothcert.models import load_model
from smoothcert.noise import Noise
from smoothcert.smoother import Batch, Smoother
from smoothcert.store import open_run
from smoothcert.tuners import TUNERS


def compare(runs: list[str]) -> None:
    """One line per run: the means with and without certificates that echo, and how many do."""
    tables = []
    for run in runs:
        with open_run(run) as store:
            tables.append({record.index: record for record in store.records()})
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    print(
        f"{len(shared)} inputs\n{'run':32} {'ACR':>7} {'quiet':>7} {'proxy':>7} {'quiet':>7} {'echo':>8} {'correct':>8}  best"
    )
    before: list[np.ndarray] = []
    for run, table in zip(runs, tables, strict=True):
        rows = [table[index] for index in shared]
        means = [
            mean(kept)
            for mean in (average_certified_radius, average_certified_proxy_radius)
            for kept in (rows, without_echoes(rows))
        ]
        radius = np.array([row.radius if row.correct else 0.0 for row in rows])
        share = f"{np.mean([all(radius[at] >= other[at] for other in before) for at in range(len(shared))]):.1%}"
        echo = f"{echoing(rows)}/{sum(row.label is not None for row in rows)}"
        correct = np.mean([row.correct for row in rows])
        print(
            f"{run:32} {' '.join(f'{mean:7.4f}' for mean in means)} {echo:>8} {correct:8.1%}  {share if before else '-'}"
        )
        before.append(radius)


def cost(model: str, source: str, root: str | None, sigma: float, inputs: int, block: int) -> None:
    """Processor seconds per input of each tuner, and as a share of 100 000 votes under fixed noise.

    Then all of it with sequential voting: at most 100 000 votes, until four radii are decided.
    """
    dataset = data.load(source, root=root)
    chosen = list(range(0, len(dataset), len(dataset) // inputs))[:inputs]
    x = torch.from_numpy(dataset.inputs(chosen))
    noise = Noise.isotropic("gaussian", sigma, dataset.grid)
    network = load_model(model, shape=dataset.shape, classes=dataset.classes)
    votes = 10_000
    voting = Smoother(network, noise, estimate=votes, estimator="fixed", engine=Engine(block=block, workers=1))
    began = time.process_time()
    list(voting.polls([Batch(x, chosen)]))
    whole = (time.process_time() - began) / inputs * 100_000 / votes
    print(f"100 000 votes: {whole:.2f} s per input")
    for name in ("data_dependent", "ancer", "data_dependent_published", "ancer_published"):
        began = time.process_time()
        TUNERS[name]().choose(voting, x, noise, chosen)
        seconds = (time.process_time() - began) / inputs
        print(f"{name:26} {seconds:.2f} s per input, {seconds / whole:.3f} of 100 000 votes")
    radii = [0.5 * sigma, sigma, 1.5 * sigma, 2 * sigma]
    for name in ("fixed", "ancer"):
        sequential = Smoother(network, noise, tuner=TUNERS[name](), radii=radii, engine=Engine(block=block, workers=1))
        began = time.process_time()
        list(sequential.polls([Batch(x, chosen)]))
        seconds = (time.process_time() - began) / inputs
        print(f"{name}, tuned and voted sequentially at radii {radii}: {seconds:.2f} s, {seconds / whole:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--root")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--inputs", type=int, default=5)
    parser.add_argument("--block", type=int, default=200)
    given = parser.parse_args()
    if given.cost:
        cost(given.model, given.data, given.root, given.sigma, given.inputs, given.block)
    else:
        compare(given.runs)
