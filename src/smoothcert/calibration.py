"""Which runtime, block size and number of workers cast votes fastest here: tried in seconds, before a long run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import torch
from torch import Tensor

from smoothcert.answers import Loaded
from smoothcert.asks import winners
from smoothcert.engine import Engine, device_named
from smoothcert.errors import SmoothcertError
from smoothcert.models.adapters import Classifier, as_classifier
from smoothcert.noise import Noise
from smoothcert.polling import default_block, make_fixed, on_one_core
from smoothcert.runtimes import runtime_named
from smoothcert.seeds import Stage, draws_for
from smoothcert.sight import Sight

# Compiling takes tens of seconds, and on a CPU gives less than the libraries below.
CANDIDATES = {"cpu": ("torch", "onnxruntime", "openvino", "folded"), "cuda": ("torch", "folded", "compiled")}
SECONDS = 0.15  # of each measurement, at least
LONGEST, TIMES = 5.0, 10  # seconds, or times that of the first trial, after which nothing more is tried
GAIN = 0.95  # of the time: less is noise, and what is simpler is kept
WORTH = 20.0  # seconds of votes below which nothing is gained: to export a network takes a few
SMALL = 1024  # numbers of an input up to which large blocks are tried: a call's own cost counts there


@dataclass(frozen=True)
class Trial:
    """One measurement: microseconds per vote, drawing included, with all workers; or why there is none."""

    runtime: str
    block: int
    workers: int
    micros: float | None
    problem: str = ""


@dataclass(frozen=True)
class Calibration:
    """What was chosen, and what it was chosen from."""

    engine: Engine
    seconds: float
    trials: tuple[Trial, ...]

    @property
    def words(self) -> str:
        """What was found, for people."""
        engine, best = self.engine, {trial.runtime: trial for trial in reversed(self.trials)}
        if len(self.trials) == 1:
            return f"{engine.runtime}, {self.trials[0].micros:.3g} µs a vote: too few votes to try other runtimes"
        told = ", ".join(
            f"{name} {trial.problem if trial.micros is None else f'{trial.micros:.3g} µs'}"
            for name, trial in sorted(best.items(), key=lambda each: each[1].micros or 1e9)
        )
        return (
            f"calibrated in {self.seconds:.1f} s: {engine.runtime}, blocks of {engine.block}, {engine.workers} workers "
            f"(per vote at the first block size: {told})"
        )


def calibrate(
    model: Callable[[Tensor], object],
    noise: Noise,
    x: Tensor,
    engine: Engine | None = None,
    votes: float = math.inf,
) -> Calibration:
    """The engine with which votes on inputs such as x, (*event), are cast fastest here.

    What the engine says of block and workers is kept; all views of an input are asked in blocks that divide them evenly. votes: of all inputs together; where torch casts them in the time that a
    calibration takes, nothing else is tried, nor after five seconds (or ten times what it takes to time torch). A runtime that is not
    installed, cannot take the network or does not answer as torch does is left out, and the trials say why. ``engine`` is what a Smoother takes.
    """
    began, given = time.perf_counter(), engine or Engine()
    bench = Bench(as_classifier(model), noise, x.to(device_named(given.device)))
    make_fixed(bench.classifier)
    views = noise.view.count(tuple(x.shape)) if isinstance(noise, Sight) and noise.view.complete else None
    block, workers = given.block or default_block(tuple(x.shape), views), given.workers or bench.workers
    first, *rest = CANDIDATES[bench.x.device.type]
    trials = [bench.tried(first, block, workers)]
    if votes * 1e-6 * (trials[0].micros or 0.0) < WORTH:
        return Calibration(replace(given, runtime=first), time.perf_counter() - began, tuple(trials))
    ends = began + max(LONGEST, TIMES * (time.perf_counter() - began))

    def try_more(settings: Iterable[tuple[str, int, int]]) -> Trial:
        """The best of these and of what was best before, while there is time."""
        found = [best]
        for setting in settings:
            if time.perf_counter() < ends:
                found.append(bench.tried(*setting))
        trials.extend(found[1:])
        return _fastest(found)

    best = trials[0]
    best = try_more((name, block, workers) for name in rest)
    if given.block is None and views is None:
        best = try_more((best.runtime, other, workers) for other in others(block, x))
    if given.workers is None and workers > 1:
        best = try_more([(best.runtime, best.block, workers // 2)])
    chosen = replace(given, runtime=best.runtime, block=best.block, workers=best.workers)
    return Calibration(chosen, time.perf_counter() - began, tuple(trials))


def others(block: int, x: Tensor) -> list[int]:
    """Block sizes to try beside the usual one.

    >>> others(200, torch.zeros(784)), others(200, torch.zeros(3072))
    ([50, 1000], [50])
    """
    return [max(1, block // 4), *([5 * block] if x.numel() <= SMALL else [])]


def _fastest(trials: list[Trial]) -> Trial:
    """The first of them, unless another is clearly faster."""
    best = trials[0]
    for trial in trials[1:]:
        if trial.micros is not None and (best.micros is None or trial.micros < GAIN * best.micros):
            best = trial
    return best


class Bench:
    """Casts votes on one input, to see how long they take."""

    def __init__(self, classifier: Classifier, noise: Noise, x: Tensor) -> None:
        self.classifier, self.x = classifier.to(x.device), x
        self.noise = noise.row(0, tuple(x.shape), 1)
        self.workers = torch.get_num_threads() if x.device.type == "cpu" else 1
        self._loaded: dict[str, Loaded] = {}

    def tried(self, name: str, block: int, workers: int) -> Trial:
        """One measurement, after a first block that loads the network and compares it with torch."""
        try:
            runtime = runtime_named(name)
            runtime.check(self.x.device)
            loaded = self._loaded.setdefault(f"{name} {block}", Loaded(runtime, self.classifier))
            self._vote(loaded, block, 0)
            return Trial(name, block, workers, self._micros(partial(self._vote, loaded, block), block, workers))
        except SmoothcertError as problem:
            if name == "torch":  # what torch cannot do nobody can
                raise
            return Trial(name, block, workers, None, str(problem))

    @torch.inference_mode()
    def _vote(self, loaded: Loaded, block: int, number: int) -> None:
        draws = draws_for(0, 0, Stage.PROBE, number, dtype=self.noise.sampling_dtype, device=self.x.device)
        winners(loaded(self.noise.copies(self.x, block, draws))).cpu()

    def _micros(self, vote: Callable[[int], None], block: int, workers: int) -> float:
        """Microseconds per vote with so many threads at once, each of which casts a block or more."""
        before, numbers = torch.get_num_threads(), count(1)

        def work() -> int:
            if self.x.device.type == "cpu":
                on_one_core()
            done, began = 0, time.perf_counter()
            while done == 0 or time.perf_counter() - began < SECONDS:
                vote(next(numbers))
                done += block
            return done

        began = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            votes = sum(task.result() for task in [pool.submit(work) for _ in range(workers)])
        seconds = time.perf_counter() - began
        torch.set_num_threads(before)
        return 1e6 * seconds / votes
