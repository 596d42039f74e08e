"""How fast votes are cast: python benchmarks/votes.py prints a table of ratios measured in one interleaved run.

For each network: votes per second of

- bare:      the network alone on 16 ready-made noisy batches in turn, on all threads in one call, or on one thread in as
             many calls side by side; the faster of the two is t, the network's time per vote
- limit:     the bare network when drawing shares the same cores: t + u/cores, with u the time of drawing for one vote on
             one core while the others idle; "limit, busy" has u measured while the other cores draw as well, as they do
- certify:   smoothcert, fixed n, its own noise for each input
- shared:    smoothcert, fixed n, the same noise for all inputs
- loop:      the plain loop of Cohen et al. (2019), written out below
- toolbox:   certify of the adversarial-robustness-toolbox, in an environment of its own (--toolbox DIR, made on first use)

Rounds of all contestants follow each other, so that a noisy machine slows them alike. A time is the median over the rounds,
a ratio the median of the ratios within each round.
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
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from scipy.stats import beta, norm
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.models import mlp, resnet18, small_cnn
from smoothcert.seeds import Stage, draws_for

SIGMA = 0.25


@dataclass(frozen=True)
class Case:
    """A network, its input's shape, copies per call, votes of one round, and the inputs that share their noise in one."""

    make: Callable[..., nn.Module]
    shape: tuple[int, ...]
    block: int
    votes: int
    inputs: int


# An MLP answers 200 copies within 2 ms, of which a call's Python is a noticeable part: it gets larger blocks.
NETWORKS = {
    "mlp": Case(mlp, (1, 28, 28), 1_000, 40_000, 32),
    "small_cnn": Case(small_cnn, (3, 32, 32), 200, 8_000, 32),
    "resnet18": Case(resnet18, (3, 32, 32), 50, 400, 4),
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
        for number in range(votes // batches.shape[1]):
            model(batches[number % len(batches)]).argmax(1)


def drawing(noise: sc.Noise, x: Tensor, votes: int, block: int) -> None:
    """Draw and place noise."""
    for number in range(votes // block):
        draws = draws_for(0, 0, Stage.ESTIMATE, number, dtype=noise.sampling_dtype)
        noise.copies(x, block, draws)


def side_by_side(job: Callable[[], None], workers: int) -> None:
    """Do a job once in each of several threads, each with one core for torch."""
    before = torch.get_num_threads()

    def work() -> None:
        torch.set_num_threads(1)
        job()

    with ThreadPoolExecutor(workers) as pool:
        for task in [pool.submit(work) for _ in range(workers)]:
            task.result()
    torch.set_num_threads(before)


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
            model=MODELS[name]().build(shape, 10).eval(), loss=torch.nn.CrossEntropyLoss(), input_shape=tuple(shape), nb_classes=10,
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


def contestants(name: str, grid: float | None, toolbox: Toolbox | None) -> dict[str, Callable[[], float]]:
    """Seconds per vote of each, one round at a time."""
    case = NETWORKS[name]
    shape, block, votes = case.shape, case.block, case.votes
    torch.manual_seed(0)
    model, workers = case.make(shape, 10).eval(), torch.get_num_threads()
    x = torch.zeros(shape)
    batches = torch.randn(16, block, *shape) * SIGMA
    noise = sc.Noise.isotropic("gaussian", SIGMA, grid)

    def timed(job: Callable[[], object], cast: int = votes) -> Callable[[], float]:
        def round_() -> float:
            torch.set_num_threads(workers)
            began = time.perf_counter()
            job()
            return (time.perf_counter() - began) / cast

        return round_

    def certifying(inputs: int, each: int, shared: bool) -> Callable[[], float]:
        smoothed = sc.Smoother(
            model,
            noise,
            estimator="fixed",
            select=block,
            estimate=each,
            engine=sc.Engine(shared_noise=shared, block=block),
        )
        return timed(lambda: smoothed.certify(x.expand(inputs, *shape)), inputs * (each + block))

    result = {
        "together": timed(lambda: bare_together(model, batches, votes)),
        "side": timed(lambda: side_by_side(lambda: bare_together(model, batches, votes // workers), workers)),
        "draw": timed(lambda: side_by_side(lambda: drawing(noise, x, votes, block), 1)),
        "draw, busy": timed(lambda: side_by_side(lambda: drawing(noise, x, votes // workers, block), workers)),
        "certify": certifying(4, votes // 4, shared=False),
        "shared": certifying(case.inputs, 3 * block, shared=True),
        "loop": timed(lambda: plain_loop(model, x, votes)),
    }
    if toolbox is not None:
        result["toolbox"] = lambda: toolbox.certify(name, shape, votes, 32) / (votes + 100)
        result["toolbox, batch 200"] = lambda: toolbox.certify(name, shape, votes, 200) / (votes + 100)
    return result


def measure(name: str, grid: float | None, rounds: int, toolbox: Toolbox | None) -> list[dict[str, float]]:
    """Seconds per vote in each round, after one to warm up."""
    runners = contestants(name, grid, toolbox)
    return [{key: runner() for key, runner in runners.items()} for _ in range(rounds + 1)][1:]


def row(name: str, grid: float | None, rounds: list[dict[str, float]]) -> str:
    """One line of the table."""

    def median(value: Callable[[dict[str, float]], float]) -> float:
        return statistics.median(value(seconds) for seconds in rounds)

    def bare(seconds: dict[str, float]) -> float:
        return min(seconds["together"], seconds["side"])

    cores = torch.get_num_threads()
    ratios: list[Callable[[dict[str, float]], float]] = [
        lambda s: bare(s) / s["certify"],
        lambda s: (bare(s) + s["draw"] / cores) / s["certify"],
        lambda s: (bare(s) + s["draw, busy"]) / s["certify"],
        lambda s: bare(s) / s["shared"],
        lambda s: s["loop"] / s["certify"],
    ]
    if "toolbox" in rounds[0]:
        ratios += [lambda s: s["toolbox"] / s["certify"], lambda s: s["toolbox, batch 200"] / s["certify"]]
    times = [f"{1e6 * median(itemgetter(key)):.1f}" for key in ("together", "side", "draw", "certify", "shared")]
    cells = [f"{name}, {'grid 1/255' if grid else 'float'}", *times, *(f"{median(ratio):.2f}" for ratio in ratios)]
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
        "shared (µs)",
        "certify/bare",
    ]
    head += ["certify/limit", "certify/limit, busy", "shared/bare", "over loop"] + (
        ["over toolbox", "over toolbox, batch 200"] if toolbox else []
    )
    print(f"{torch.get_num_threads()} threads; µs per vote; ratios above 1 mean that certify is faster\n")
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name in arguments.networks:
        for grid in (None, 1 / 255):
            print(row(name, grid, measure(name, grid, arguments.rounds, toolbox)), flush=True)
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    growth()


if __name__ == "__main__":
    main()
