"""Which recipe is worth its time: python benchmarks/recipes.py --root DATA --out DIR prints clean and certified accuracy and ACR.

Every recipe trains a CNN (--model) for the same time on one core (counted as processor time, which is wall time on a free
machine and does not suffer on a busy one): the time of its step is measured first, all recipes in turn, and decides how
many examples it sees, in several epochs. Then test inputs, evenly spaced, are certified with a fixed number of votes. Models
and finished lines are kept in DIR, so the same command goes on.
A recipe that ends in +ds is trained with one sigma per input.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.optimization import fuse

import smoothcert as sc
from smoothcert import data
from smoothcert.models import load_model
from smoothcert.training import BatchReport, TrainSettings, new_model, train

BATCH, RATE, TIMED = 128, 0.003, 16  # inputs per step, learning rate, steps timed in each of ROUNDS
ROUNDS = 3
SETUPS: dict[str, dict[str, Any]] = {
    "mnist": {"sigma": 0.5, "seeds": "0,1,2", "radii": (0.0, 0.5, 1.0, 1.5)},
    "cifar10": {"sigma": 0.25, "seeds": "0", "radii": (0.0, 0.25, 0.5, 0.75)},
}
RECIPES = "gaussian,stability,consistency,smoothadv,macer"


def settings_of(spec: str, epochs: int, seed: int) -> TrainSettings:
    recipe, _, extra = spec.partition("+")
    return TrainSettings(
        recipe, epochs=epochs, seed=seed, batch=BATCH, learning_rate=RATE, data_dependent=extra == "ds"
    )


def step_seconds(
    specs: list[str], inputs: np.ndarray, labels: np.ndarray, shared: dict[str, Any], out: Path
) -> dict[str, float]:
    """The median time of a step of each recipe, rounds of all recipes in turn."""
    path = out / f"steps-{shared['architecture']['name']}.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    times: dict[str, list[float]] = {spec: [] for spec in specs if spec not in known}
    for number in range(ROUNDS):
        for spec, found in times.items():
            stamps: list[float] = []

            def stamp(report: BatchReport, stamps: list[float] = stamps) -> None:
                stamps.append(time.process_time())

            settings = settings_of(spec, 2, number)
            few = slice(0, TIMED * BATCH // 2)
            folder = out / "timing" / f"{spec}-{number}-{time.time_ns()}"
            model = new_model(shared["architecture"], 0)
            train(
                model,
                inputs[few],
                labels[few],
                settings,
                noise=shared["noise"],
                out=folder,
                architecture=shared["architecture"],
                batch_progress=stamp,
            )
            # The second half of the steps: past the warm-up, and without the pause between the epochs.
            found += np.diff(stamps[TIMED // 2 :]).tolist()
    known |= {spec: statistics.median(found) for spec, found in times.items()}
    path.write_text(json.dumps(known))
    return known


def line_of(
    spec: str,
    seed: int,
    step: float,
    name: str,
    args: argparse.Namespace,
    arrays: dict[str, Any],
    shared: dict[str, Any],
) -> dict[str, Any]:
    """Train and certify once."""
    wanted = max(BATCH, int(args.seconds / step * BATCH))  # examples to be seen
    epochs = max(2, math.ceil(wanted / len(arrays["labels"])))
    size = min(len(arrays["labels"]), wanted // epochs)
    folder = args.out / name / f"{args.model}-{args.seconds:g}s-{spec}-{seed}"
    began = time.process_time()
    path = train(
        new_model(shared["architecture"], seed),
        arrays["inputs"][:size],
        arrays["labels"][:size],
        settings_of(spec, epochs, seed),
        noise=shared["noise"],
        out=folder,
        architecture=shared["architecture"],
    )
    seconds = time.process_time() - began
    # Batch norm folded into the convolutions before it: the same function, and a vote takes two thirds of the time.
    model = fuse(load_model(path, shape=shared["architecture"]["shape"]))
    smoother = sc.Smoother(
        model,
        shared["noise"],
        norm=2,
        estimate=args.votes,
        estimator="fixed",
        engine=sc.Engine(shared_noise=True, workers=os.cpu_count(), runtime="torch:channels_last=true"),
        seed=1,
    )
    radii, clean = [], 0
    for start in range(0, len(arrays["truths"]), 50):
        part = slice(start, start + 50)
        found = smoother.certify(arrays["tests"][part], first_index=start)
        truths = arrays["truths"][part]
        radii += [c.radius if c.label == truth else -1.0 for c, truth in zip(found, truths, strict=True)]
        with torch.no_grad():
            clean += int((model(arrays["tests"][part]).argmax(1).numpy() == truths).sum())
        print(f"\r{name} {spec} seed {seed}: trained {seconds:.0f} s, certified {len(radii)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    right = np.array(radii)
    return {
        "data": name, "recipe": spec, "seed": seed, "seconds": seconds, "epochs": epochs, "examples": size,
        "clean": clean / len(right),
        "certified": {str(r): float((right >= r).mean()) for r in shared["radii"]},
        "acr": float(right.clip(0).mean()), "inputs": len(right), "votes": args.votes,
    }  # fmt: skip


def run(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    setup = SETUPS[name]
    train_data, test_data = (
        data.load(name, root=args.root, split=split, download=False) for split in ("train", "test")
    )
    every = list(range(len(train_data)))
    order = np.random.default_rng(0).permutation(len(every))  # a part of the data must hold all classes
    inputs, labels = np.asarray(train_data.inputs(every))[order], np.array(train_data.truths(every))[order]
    chosen = np.linspace(0, len(test_data), args.inputs, endpoint=False).astype(int).tolist()
    tests = torch.from_numpy(np.asarray(test_data.inputs(chosen)))
    tests = tests.float() / 255 if tests.dtype == torch.uint8 else tests
    arrays = {"inputs": inputs, "labels": labels, "tests": tests, "truths": np.array(test_data.truths(chosen))}
    shared = {
        "radii": setup["radii"],
        "noise": sc.Noise.isotropic("gaussian", setup["sigma"], grid=test_data.grid),
        "architecture": {"name": args.model, "shape": train_data.shape, "classes": train_data.classes},
    }
    out = args.out / name
    out.mkdir(parents=True, exist_ok=True)
    done_path = out / f"lines-{args.model}-{args.seconds:g}s-{args.inputs}-{args.votes}.jsonl"
    done = [json.loads(line) for line in done_path.read_text().splitlines()] if done_path.exists() else []
    specs = args.recipes.split(";" if ";" in args.recipes else ",")
    steps = step_seconds(specs, inputs, labels, shared, out)
    for seed in map(int, (args.seeds or setup["seeds"]).split(",")):
        for spec in specs:
            if not any((line["recipe"], line["seed"]) == (spec, seed) for line in done):
                line = line_of(spec, seed, steps[spec], name, args, arrays, shared)
                done.append(line)
                with done_path.open("a") as stream:
                    stream.write(json.dumps(line) + "\n")
    return done


def show(lines: list[dict[str, Any]]) -> None:
    """A line per model, and the mean ratio of ACR to gaussian of the same seed."""
    first = lines[0]
    radii = list(first["certified"])
    print(f"\n{first['data']}: {first['inputs']} test inputs, {first['votes']} votes, alpha 0.001")
    print(f"{'recipe':34s} seed  train  examples  clean  " + "  ".join(f"r>={r:4s}" for r in radii) + "    ACR")
    for line in lines:
        numbers = "  ".join(f"{100 * line['certified'][r]:6.1f}" for r in radii)
        seen = line["epochs"] * line["examples"]
        print(
            f"{line['recipe']:34s} {line['seed']:4d} {line['seconds']:5.0f}s {seen:9d} {100 * line['clean']:6.1f}  {numbers}  {line['acr']:.4f}"
        )
    base = {line["seed"]: line["acr"] for line in lines if line["recipe"] == "gaussian"}
    for spec in dict.fromkeys(line["recipe"] for line in lines):
        own = [line["acr"] / base[line["seed"]] for line in lines if line["recipe"] == spec and line["seed"] in base]
        if own:
            print(f"ACR of {spec} / gaussian: {statistics.mean(own):.3f} (seeds: {', '.join(f'{r:.3f}' for r in own)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where models and results are kept")
    parser.add_argument("--root", help="where the data sets are; else SMOOTHCERT_DATA")
    parser.add_argument("--model", default="lenet", help="default: %(default)s")
    parser.add_argument("--data", default="mnist,cifar10", help="default: %(default)s")
    parser.add_argument(
        "--recipes", default=RECIPES, help="with ; between if they have parameters; default: %(default)s"
    )
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="training time of each on one core; default: %(default)s"
    )
    parser.add_argument("--seeds", help="with commas; default: 0,1,2 for mnist, 0 for cifar10")
    parser.add_argument("--inputs", type=int, default=500, help="test inputs; default: %(default)s")
    parser.add_argument("--votes", type=int, default=10_000, help="votes per input; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.data.split(","):
        show(run(name, args))


if __name__ == "__main__":
    main()
