"""Which runtime, block size and number of workers cast votes fastest here: tried in seconds, before a long run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from operator import attrgetter

import torch
from torch import Tensor

from smoothcert.answers import Loaded
from smoothcert.asks import Ask, Noisy, Viewed
from smoothcert.engine import Engine, device_named
from smoothcert.errors import SmoothcertError
from smoothcert.execution.threads import blocks_for
from smoothcert.models.adapters import Classifier, as_classifier
from smoothcert.noise import Noise
from smoothcert.polling import TOGETHER, Pollster, default_block, make_fixed
from smoothcert.runtimes import runtime_named
from smoothcert.seeds import Stage
from smoothcert.sight import Sight

# Compiling takes tens of seconds, and on a CPU gives less than the libraries below.
CANDIDATES = {"cpu": ("torch", "onnxruntime", "openvino", "folded"), "cuda": ("torch", "folded", "compiled")}
SECONDS = 0.04  # of each measurement, at least
NEAR = 1.6  # times the fastest: what is slower is not tried in other blocks, and not measured again
SAME = 1.1  # of two measurements: what is near is measured by turns until its smallest two are so near to each other
LONGEST = 8.0  # seconds, after which nothing more is tried; for a slow network the less of the next two
TIMES = 20  # what the first trial took
SHARE = 0.1  # of what torch would take for all votes
GAIN = 0.95  # of the time: less is noise, and what is simpler is kept
WORTH = 20.0  # seconds of votes below which nothing is gained: to export a network takes a few
SMALL = 1024  # numbers of an input up to which large blocks are tried: a call's own cost counts there
HEAVY = 0.1  # seconds of the smallest block above which no larger one is tried: a call's own cost is nothing there


@dataclass(frozen=True)
class Trial:
    """Measurements, in microseconds per vote, drawing included, with all workers; or why there are none."""

    runtime: str
    block: int
    workers: int
    times: tuple[float, ...] = ()
    problem: str = ""

    @property
    def micros(self) -> float:
        """The smallest: other programs only slow one."""
        return min(self.times, default=math.inf)

    @property
    def settled(self) -> bool:
        """Has it been as fast twice?"""
        return sum(time <= SAME * self.micros for time in self.times) > 1


@dataclass(frozen=True)
class Calibration:
    """What was chosen, and what it was chosen from."""

    engine: Engine
    seconds: float
    trials: tuple[Trial, ...]

    @property
    def words(self) -> str:
        """What was found, for people."""
        engine = self.engine
        if len(self.trials) == 1:
            return f"{engine.runtime}, {self.trials[0].micros:.3g} µs a vote: too few votes to try other runtimes"
        best: dict[str, Trial] = {}
        for trial in sorted(self.trials, key=attrgetter("micros")):
            best.setdefault(trial.runtime, trial)
        told = ", ".join(
            f"{name} {f'{trial.micros:.3g} µs' if trial.times else trial.problem}" for name, trial in best.items()
        )
        return (
            f"calibrated in {self.seconds:.1f} s: {engine.runtime}, blocks of {engine.block}, {engine.workers} workers "
            f"(per vote at best: {told})"
        )


def calibrate(
    model: Callable[[Tensor], object],
    noise: Noise,
    x: Tensor,
    engine: Engine | None = None,
    votes: float = math.inf,
) -> Calibration:
    """The engine with which votes on inputs such as x, (*event), are cast fastest here.

    What the engine says of block, workers and shared noise is kept; all views of an input are asked in blocks that divide
    them evenly. votes: of all inputs together; where torch casts them in the time that a calibration takes, nothing else is
    tried, nor after eight seconds (or a tenth of what torch would take for all, for slow networks). A runtime that is not
    installed, cannot take the network or does not answer as torch does is left out, and the trials say why. ``engine`` is
    what a Smoother takes.
    """
    began, given = time.perf_counter(), engine or Engine()
    bench = Bench(as_classifier(model), noise, x.to(device_named(given.device)), shared=given.shared_noise)
    make_fixed(bench.classifier)
    views = noise.view.count(tuple(x.shape)) if isinstance(noise, Sight) and noise.view.complete else None
    usual, workers = given.block or default_block(tuple(x.shape), views), given.workers or bench.workers
    sizes = [usual] if given.block is not None or views is not None else [usual, *others(usual, x)]
    names = CANDIDATES[bench.x.device.type]
    first = bench.tried(names[0], min(sizes), workers)
    by_torch = votes * 1e-6 * first.micros
    if by_torch < WORTH:
        return Calibration(replace(given, runtime=first.runtime), time.perf_counter() - began, (first,))
    if 1e-6 * first.micros * first.block * workers > HEAVY:
        sizes = [first.block]
    most = max(LONGEST, min(SHARE * by_torch, TIMES * (time.perf_counter() - began)))
    race = Race(bench, [first], began + most)
    for size in sizes:
        race.enter(names, size, workers)
    race.run()
    order = {(name, size): place for place, (name, size) in enumerate((n, s) for n in names for s in sizes)}
    best = _fastest(sorted(race.trials, key=lambda trial: order[trial.runtime, trial.block]))
    if given.workers is None and workers > 1 and race.time_left:
        race.trials.append(bench.tried(best.runtime, best.block, workers // 2))
        best = _fastest([best, race.trials[-1]])
    chosen = replace(given, runtime=best.runtime, block=best.block, workers=best.workers)
    return Calibration(chosen, time.perf_counter() - began, tuple(race.trials))


def others(block: int, x: Tensor) -> list[int]:
    """Block sizes to try beside the usual one.

    >>> others(200, torch.zeros(784)), others(200, torch.zeros(3072)), others(1, torch.zeros(784))
    ([50, 1000], [50], [5])
    """
    return [size for size in (max(1, block // 4), *([5 * block] if x.numel() <= SMALL else [])) if size != block]


def _fastest(trials: list[Trial]) -> Trial:
    """The first of them, unless another is clearly faster."""
    best = trials[0]
    for trial in trials[1:]:
        if trial.micros < GAIN * best.micros:
            best = trial
    return best


@dataclass
class Race:
    """Trials against each other, while there is time."""

    bench: Bench
    trials: list[Trial]
    ends: float

    @property
    def time_left(self) -> bool:
        """May more be tried?"""
        return time.perf_counter() < self.ends

    @property
    def near(self) -> list[Trial]:
        """Those that may be the fastest."""
        limit = NEAR * min(trial.micros for trial in self.trials)
        return [trial for trial in self.trials if trial.micros <= limit]

    def enter(self, names: tuple[str, ...], block: int, workers: int) -> None:
        """Try these runtimes with a block size, but for those that are far behind with another."""
        behind = {trial.runtime for trial in self.trials} - {trial.runtime for trial in self.near}
        for name in names:
            known = any((trial.runtime, trial.block) == (name, block) for trial in self.trials)
            if not known and name not in behind and self.time_left:
                self.trials.append(self.bench.tried(name, block, workers))

    def run(self) -> None:
        """Measure those in front by turns."""
        while open_ := [trial for trial in self.near if not trial.settled]:
            for trial in open_:
                if not self.time_left:
                    return
                self.trials[self.trials.index(trial)] = self.bench.again(trial)


class Bench:
    """Casts votes on one input as a run does, to see how long they take."""

    def __init__(self, classifier: Classifier, noise: Noise, x: Tensor, *, shared: bool = False) -> None:
        self.classifier, self.x, self.shared = classifier.to(x.device), x, shared
        noise = noise.row(0, tuple(x.shape), 1)
        self.scene = (Viewed if isinstance(noise, Sight) else Noisy)(x, noise)
        self.workers = torch.get_num_threads() if x.device.type == "cpu" else 1
        self._loaded: dict[tuple[str, int], Loaded] = {}

    def tried(self, name: str, block: int, workers: int) -> Trial:
        """One measurement, after a first block that loads the network and compares it with torch."""
        try:
            return self.again(Trial(name, block, workers))
        except SmoothcertError as problem:
            if name == "torch":  # what torch cannot do nobody can
                raise
            return Trial(name, block, workers, problem=str(problem))

    def again(self, trial: Trial) -> Trial:
        """The trial with one more measurement."""
        pollster = self._pollster(trial)
        with pollster.pool() as pool:
            speeds = [task.result() for task in [pool.submit(self._speed, pollster) for _ in range(trial.workers)]]
        return replace(trial, times=(*trial.times, 1e6 / sum(speeds)))

    def _pollster(self, trial: Trial) -> Pollster:
        runtime, key = runtime_named(trial.runtime), (trial.runtime, trial.block)
        known = key in self._loaded
        if not known:
            runtime.check(self.x.device)
            self._loaded[key] = Loaded(runtime, self.classifier)
        pollster = Pollster(
            self.classifier, runtime, self._loaded[key], 0, trial.block, self.x.device, workers=trial.workers
        )
        if not known:
            pollster.cast(self._ask(0, 1))
        return pollster

    def _ask(self, first: int, number: int) -> Ask:
        return Ask(0, Stage.PROBE, self.scene, first, number, sys.maxsize, self.shared)

    def _speed(self, pollster: Pollster) -> float:
        """Votes per second of one worker, in tasks as threads take them; shared draws are drawn once."""
        done, number, began, seconds = 0, 1, time.perf_counter(), 0.0
        for task in count():
            ask = self._ask(0 if self.shared else task * TOGETHER, number)
            pollster.cast(ask)
            done, before, seconds = done + number, seconds, time.perf_counter() - began
            if seconds >= SECONDS:
                break
            number = blocks_for(ask, seconds - before)
        return done * pollster.block / seconds
