"""How fast votes are cast: python benchmarks/votes.py prints a table of ratios measured in one interleaved run.

For each network: votes per second of

- bare:      the network alone on 16 ready-made noisy batches in turn, on all threads in one call, or on one thread in as
             many calls side by side; the faster of the two is t, the network's time per vote
- limit:     the bare network when drawing (u core-seconds per vote, measured here) shares the same cores
- certify:   smoothcert, fixed n, its own noise for each input
- shared:    smoothcert, fixed n, the same noise for all inputs
- loop:      the plain loop of Cohen et al. (2019), written out below
- toolbox:   certify of the adversarial-robustness-toolbox, in an environment of its own (--toolbox DIR, made on first use)

Rounds of all contestants follow each other, so that a noisy machine slows them alike; each number is the median.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from scipy.stats import beta, norm
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.models import mlp, resnet18, small_cnn
from smoothcert.seeds import Stage, draws_for

SIGMA, BLOCK = 0.25, 200
# Each with its input shape, the votes of one round, and the inputs that share their noise in one.
NETWORKS: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...], int, int]] = {
    "mlp": (mlp, (1, 28, 28), 40_000, 64),
    "small_cnn": (small_cnn, (3, 32, 32), 8_000, 32),
    "resnet18": (resnet18, (3, 32, 32), 400, 4),
}


def plain_loop(model: nn.Module, x: Tensor, votes: int, batch: int = 400, alpha: float = 0.001) -> float:
    """Certify one input as a user would write it from the paper."""
    counts = np.zeros(10, dtype=int)
    with torch.no_grad():
        left = votes
        while left > 0:
            size = min(batch, left)
            left -= size
            copies = x.repeat((size, 1, 1, 1))
            predictions = model(copies + torch.randn_like(copies) * SIGMA).argmax(1)
            for label in predictions.tolist():
                counts[label] += 1
    top = counts.argmax()
    lower = beta.ppf(alpha, counts[top], votes - counts[top] + 1)
    return SIGMA * float(norm.ppf(lower)) if lower > 0.5 else 0.0


def bare_together(model: nn.Module, batches: Tensor, votes: int) -> None:
    with torch.inference_mode():
        for number in range(votes // BLOCK):
            model(batches[number % len(batches)]).argmax(1)


def bare_side_by_side(model: nn.Module, batches: Tensor, votes: int, workers: int) -> None:
    def work() -> None:
        torch.set_num_threads(1)
        bare_together(model, batches, votes // workers)

    with ThreadPoolExecutor(workers) as pool:
        for task in [pool.submit(work) for _ in range(workers)]:
            task.result()
    torch.set_num_threads(workers)


def drawing(noise: sc.Noise, x: Tensor, votes: int) -> None:
    """Draw and place noise on one thread."""
    torch.set_num_threads(1)
    for number in range(votes // BLOCK):
        draws = draws_for(0, 0, Stage.ESTIMATE, number, dtype=noise.sampling_dtype)
        noise.copies(x, BLOCK, draws)


class Toolbox:
    """The toolbox in its own process, asked by lines of JSON."""

    PROGRAM = """
import json, sys, time
import numpy as np, torch
from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing
from smoothcert.models import MODELS
networks = {}
for line in sys.stdin:
    name, shape, votes, batch = json.loads(line)
    if name not in networks:
        torch.manual_seed(0)
        networks[name] = PyTorchRandomizedSmoothing(
            model=MODELS[name](shape, 10).eval(), loss=torch.nn.CrossEntropyLoss(), input_shape=tuple(shape), nb_classes=10,
            sample_size=100, scale=0.25, alpha=0.001)
    x = np.zeros((1, *shape), dtype=np.float32)
    began = time.perf_counter()
    networks[name].certify(x, n=votes, batch_size=batch)
    print(json.dumps(time.perf_counter() - began), flush=True)
"""

    def __init__(self, home: Path) -> None:
        if not (home / "bin/python").exists():
            print(f"installing the adversarial-robustness-toolbox into {home}", file=sys.stderr)
            venv.create(home, with_pip=True)
        root = Path(__file__).parent.parent
        pip = [home / "bin/python", "-m", "pip", "install", "--quiet", "-c", root / "constraints.txt"]
        subprocess.run([*pip, "torch", "adversarial-robustness-toolbox", "statsmodels", root], check=True)
        command = [home / "bin/python", "-W", "ignore", "-c", self.PROGRAM]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def certify(self, name: str, shape: tuple[int, ...], votes: int, batch: int) -> float:
        """Seconds to certify one input."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, shape, votes, batch]) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def contestants(name: str, votes: int, grid: float | None, toolbox: Toolbox | None) -> dict[str, Callable[[], float]]:
    """Seconds per vote of each, one round at a time."""
    make, shape, _, many = NETWORKS[name]
    torch.manual_seed(0)
    model, workers = make(shape, 10).eval(), torch.get_num_threads()
    x = torch.zeros(shape)
    batches = torch.randn(16, BLOCK, *shape) * SIGMA
    noise = sc.Noise.isotropic("gaussian", SIGMA, grid)

    def timed(job: Callable[[], object], cast: int = votes) -> Callable[[], float]:
        def round_() -> float:
            torch.set_num_threads(workers)
            began = time.perf_counter()
            job()
            return (time.perf_counter() - began) / cast

        return round_

    def certifying(inputs: int, each: int, shared: bool) -> Callable[[], float]:
        smoothed = sc.Smoother(model, noise, estimator="fixed", select=BLOCK, estimate=each, shared_noise=shared)
        return timed(lambda: smoothed.certify(x.expand(inputs, *shape)), inputs * (each + BLOCK))

    result = {
        "together": timed(lambda: bare_together(model, batches, votes)),
        "side": timed(lambda: bare_side_by_side(model, batches, votes, workers)),
        "draw": timed(lambda: drawing(noise, x, votes)),
        "certify": certifying(1, votes, shared=False),
        "shared": certifying(many, max(2 * BLOCK, 2 * votes // many // BLOCK * BLOCK), shared=True),
        "loop": timed(lambda: plain_loop(model, x, votes)),
    }
    if toolbox is not None:
        result["toolbox"] = lambda: toolbox.certify(name, shape, votes, 32) / (votes + 100)
        result["toolbox, batch 200"] = lambda: toolbox.certify(name, shape, votes, BLOCK) / (votes + 100)
    return result


def measure(name: str, votes: int, grid: float | None, rounds: int, toolbox: Toolbox | None) -> dict[str, float]:
    """Median seconds per vote, over interleaved rounds after one to warm up."""
    runners = contestants(name, votes, grid, toolbox)
    times: dict[str, list[float]] = {key: [] for key in runners}
    for number in range(rounds + 1):
        for key, runner in runners.items():
            spent = runner()
            if number:
                times[key].append(spent)
    return {key: statistics.median(values) for key, values in times.items()}


def row(name: str, grid: float | None, seconds: dict[str, float]) -> str:
    """One line of the table."""
    t = min(seconds["together"], seconds["side"])
    cores = torch.get_num_threads()
    limit = (cores * t + seconds["draw"]) / cores
    cells = [
        f"{name}, {'grid 1/255' if grid else 'float'}",
        f"{1e6 * seconds['together']:.1f}",
        f"{1e6 * seconds['side']:.1f}",
        f"{1e6 * seconds['draw']:.1f}",
        f"{1e6 * seconds['certify']:.1f}",
        f"{t / seconds['certify']:.2f}",
        f"{limit / seconds['certify']:.2f}",
        f"{t / seconds['shared']:.2f}",
        f"{seconds['loop'] / seconds['certify']:.2f}",
    ]
    cells += [f"{seconds[key] / seconds['certify']:.2f}" for key in ("toolbox", "toolbox, batch 200") if key in seconds]
    return "| " + " | ".join(cells) + " |"


def growth() -> None:
    """How the cost grows with the dimension and with the number of votes."""
    print("\nSeconds per certificate of a linear classifier, fixed n, float noise:\n")
    print("| d \\ n | 1 000 | 10 000 | 100 000 |\n|---|---|---|---|")
    for dim in (10, 100, 1_000, 10_000):
        cells = []
        for votes in (1_000, 10_000, 100_000):
            if dim * votes > 2e8:
                cells.append("–")
                continue
            smoothed = sc.Smoother(
                nn.Linear(dim, 10).eval(), sc.Noise.isotropic("gaussian", SIGMA), estimator="fixed", estimate=votes
            )
            began = time.perf_counter()
            smoothed.certify(torch.zeros(1, dim))
            cells.append(f"{time.perf_counter() - began:.3f}")
        print(f"| {dim} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--toolbox", type=Path, help="an environment for the toolbox; left out if not given")
    arguments = parser.parse_args()
    toolbox = Toolbox(arguments.toolbox) if arguments.toolbox else None
    head = [
        "network, noise",
        "bare, together (µs)",
        "bare, side by side (µs)",
        "draw (core-µs)",
        "certify (µs)",
        "certify/bare",
    ]
    head += ["certify/limit", "shared/bare", "over loop"] + (
        ["over toolbox", "over toolbox, batch 200"] if toolbox else []
    )
    print(f"{torch.get_num_threads()} threads; µs per vote; ratios above 1 mean that certify is faster\n")
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name in arguments.networks:
        votes = NETWORKS[name][2]
        for grid in (None, 1 / 255):
            print(row(name, grid, measure(name, votes, grid, arguments.rounds, toolbox)), flush=True)
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    growth()


if __name__ == "__main__":
    main()
