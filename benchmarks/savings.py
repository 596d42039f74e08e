r"""Votes saved at equal certified accuracy: python benchmarks/savings.py RUN… replays the looks of stored votes.

Each RUN was certified with --estimator fixed, so that its records hold the counts at every look. For each way of stopping
the same votes are read again up to the look where it would have stopped, and its certificates are compared with those of
all the votes. The runs of docs/results/votes.md are made by

    smoothcert train --model mlp --data mnist --sigma 0.5 --epochs 8 --learning-rate 0.001 --out mnist-mlp
    smoothcert certify --model mnist-mlp/model.safetensors --data mnist --sigma 0.5 --skip 20 --estimator fixed \
        --shared-noise --out mnist
    smoothcert train --model mlp --data cifar10 --sigma 0.25 --epochs 12 --learning-rate 0.001 --augment --flip \
        --out cifar-mlp
    smoothcert certify --model cifar-mlp/model.safetensors --data cifar10 --sigma 0.25 --skip 33 --estimator fixed \
        --shared-noise --out cifar
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from smoothcert.estimators import Judge, Plan, estimator_of
from smoothcert.estimators.bounds import Bound
from smoothcert.laws import law_named
from smoothcert.radius import RadiusTarget
from smoothcert.records.record import Record
from smoothcert.store import open_run
from smoothcert.votes import Votes

GRID = (0.25, 0.5, 0.75, 1.0)


def replay(judge: Judge, record: Record) -> tuple[Bound, int]:
    """The bound at the look where the estimator would have stopped, and the votes cast by then."""
    counts, invalid = np.array([record.estimation]), np.array([record.estimation_invalid])
    for seen in range(1, counts.shape[1] + 1):
        votes = Votes(counts[:, :seen], invalid[:, :seen])
        if seen == counts.shape[1] or judge.stops(votes, record.leader):
            return judge.bound(votes, record.leader), int(votes.trials[0, -1])
    raise AssertionError


def judged(records: list[Record], plan: Plan, dim: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """The certified radius of each right answer (minus one if not certified or wrong), and the votes."""
    radii, votes = [], []
    for record in records:
        assert isinstance(record.scale, float)
        target = RadiusTarget(law_named(record.law), record.norm, dim, record.scale)
        bound, cast = replay(estimator_of(plan).judge(plan, target), record)
        right = record.leader == record.truth and bound.lower > bound.rival
        radii.append(target.radius(bound.lower, bound.upper) if right else -1.0)
        votes.append(cast)
    return np.array(radii), np.array(votes)


def report(run: str) -> None:
    """The table of one run."""
    with open_run(run) as store:
        records, facts = list(store.records()), store.facts()
    configuration, dim = facts["configuration"], int(np.prod(facts["shape"]))
    fixed = Plan("fixed", configuration["trials"], configuration["alpha"], block=configuration["block"])
    whole, _ = judged(records, fixed, dim)
    print(f"\n{run}: {len(records)} inputs, N = {fixed.trials}, alpha = {fixed.alpha}\n")
    print(
        "| stops when | votes per input | fewer votes | largest loss of certified accuracy (points) | at | mean radius kept |"
    )
    print("|---|---|---|---|---|---|")
    ways = {
        f"radius {radius} is decided": (replace(fixed, estimator="sequential", radii=(radius,)), (radius,))
        for radius in GRID
    }
    ways["the grid is decided"] = (replace(fixed, estimator="sequential", radii=GRID), GRID)
    ways["the grid is decided, group-sequential"] = (replace(fixed, estimator="group_sequential", radii=GRID), GRID)
    every = tuple(np.linspace(0.05, 2.0, 40))
    ways["the radius is known to 2 %"] = (replace(fixed, estimator="sequential:tolerance=0.02"), every)
    ways["the grid is decided, betting"] = (replace(fixed, estimator="betting", radii=GRID), GRID)
    ways["the grid is decided, union"] = (replace(fixed, estimator="union", radii=GRID), GRID)
    for name, (plan, radii) in ways.items():
        stopped, votes = judged(records, plan, dim)
        losses = [100 * float(np.mean(whole >= radius) - np.mean(stopped >= radius)) for radius in radii]
        worst = int(np.argmax(losses))
        kept = float(np.maximum(stopped, 0).sum() / np.maximum(whole, 0).sum()) if plan.radii == () else float("nan")
        cells = [
            name,
            f"{votes.mean():.0f}",
            f"{fixed.trials / votes.mean():.1f}×",
            f"{losses[worst]:.2f}",
            f"{radii[worst]:.2f}",
        ]
        print("| " + " | ".join([*cells, "–" if np.isnan(kept) else f"{kept:.3f}"]) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for directory in sys.argv[1:]:
        report(directory)
