"""Step 2: the only file that runs the classifier for a certificate."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from smoothcert.errors import ModelError
from smoothcert.maths import IntArray
from smoothcert.models.adapters import Classifier, unfixed
from smoothcert.noise import Noise
from smoothcert.runtimes import Runtime
from smoothcert.seeds import Stage, draws_for
from smoothcert.votes import Votes


def make_fixed(classifier: Classifier) -> None:
    """Put the model into evaluation mode, and say so; refuse one that is no fixed function even so."""
    if any(module.training for module in classifier.modules()):
        classifier.eval()
        warnings.warn(
            "the model was in train mode, where dropout and batch statistics make it no fixed function; "
            "it was switched to eval mode",
            stacklevel=3,
        )
    layers = unfixed(classifier)
    if layers:
        raise ModelError(
            f"the layers {layers[:5]} use batch statistics or dropout even in eval mode, so an answer depends on the rest of the "
            "batch or on chance; give batch norms track_running_stats=True and their statistics, and export models in eval mode"
        )


@dataclass(eq=False)
class Count:
    """The votes of one input at one stage, block by block: what is out, what is back, what the looks have seen.

    Blocks may come back in any order; they are counted in order, so the table does not depend on who was faster.
    """

    index: int
    stage: Stage
    place: Callable[[Tensor, Tensor], Tensor]  # from drawn noise to noisy copies of the input, into a buffer
    noise: Noise
    shape: tuple[int, ...]
    looks: IntArray
    block: int
    stops: Callable[[Votes], bool] = lambda votes: False
    confidence: float = 0.0  # a row whose softmax stays below it votes for nobody, as one that is no number
    then: Callable[[Count], Count | None] | None = None  # what to count next for this input, once this is done
    issued: int = 0
    back: dict[int, IntArray] = field(default_factory=dict)
    counted: int = 0
    total: IntArray | int = 0
    seen: list[IntArray] = field(default_factory=list)
    done: bool = False
    seconds: float = 0.0
    due: int = field(init=False)  # votes that the next look needs
    last: int = field(init=False)  # votes that the last look needs

    def __post_init__(self) -> None:
        self.due, self.last = int(self.looks[0]), int(self.looks[-1])

    @property
    def wanted(self) -> bool:
        """Is there a block that the next look needs for sure and nobody has taken?"""
        return self.issued * self.block < self.due and not self.done

    @property
    def left(self) -> bool:
        """Is there any block that nobody has taken? Beyond the next look it may turn out to be wasted."""
        return self.issued * self.block < self.last and not self.done

    def rows(self, number: int) -> int:
        """How many rows of a block count: all, but for the last block."""
        return min(self.block, self.last - number * self.block)

    def copies(self, number: int, drawn: Tensor, out: Tensor) -> Tensor:
        """The noisy copies of one block."""
        return self.place(drawn, out)

    def tally(self, number: int, logits: Tensor) -> IntArray:
        """What the logits of one block's rows add to the total."""
        return tally(logits, self.confidence)

    def add(self, number: int, tally: IntArray, seconds: float) -> None:
        """A block came back: count what is next in order, and look where a look is due."""
        self.back[number] = tally
        self.seconds += seconds
        while not self.done and self.counted in self.back:
            self.total = self.total + self.back.pop(self.counted)
            self.counted += 1
            if min(self.counted * self.block, self.last) == self.due:
                self.seen.append(np.asarray(self.total))
                self.done = self.due == self.last or self.stops(self.votes())
                self.due = int(self.looks[min(len(self.seen), len(self.looks) - 1)])

    def votes(self) -> Votes:
        """The table of the looks so far."""
        table = np.stack(self.seen)
        return Votes(table[None, :, :-1], table[None, :, -1])


@dataclass(eq=False)
class Errand:
    """What comes before the votes on an input, such as choosing its noise: a worker runs it, and its count takes its place."""

    run: Callable[[], Count]
    issued: int = 0
    done: ClassVar[bool] = False

    @property
    def wanted(self) -> bool:
        """Has nobody taken it?"""
        return self.issued == 0

    left = wanted


Job = Count | Errand


@dataclass(eq=False)
class Mixed(Count):
    """Votes on several inputs under one noise, by turns: row i of all is the input i modulo their number.

    Rows of different inputs share a block, since the classifier is a fixed function of its row.
    """

    places: Sequence[Callable[[Tensor, Tensor], Tensor]] = ()

    def rows_of(self, position: int, number: int) -> slice:
        """The rows of a block that are of one input."""
        return slice((position - number * self.block) % len(self.places), None, len(self.places))

    def copies(self, number: int, drawn: Tensor, out: Tensor) -> Tensor:
        for position, place in enumerate(self.places):
            rows = self.rows_of(position, number)
            place(drawn[rows], out[rows])
        return out

    def tally(self, number: int, logits: Tensor) -> IntArray:
        return np.stack([tally(logits[self.rows_of(position, number)]) for position in range(len(self.places))])

    @property
    def table(self) -> IntArray:
        """The votes on each input, (inputs, classes + 1); in the last place those that are not a number."""
        return self.seen[-1]

    def share(self, label: int) -> float:
        """How much of the votes on all of them is for a class."""
        return float(self.table[:, label].sum() / self.table.sum())


@dataclass(frozen=True, eq=False)
class Pollster:
    """Casts votes, block by block, in constant memory, with every core busy.

    The network always sees blocks of one shape, (block, *event), the last one padded and its surplus not counted: a
    network's rounding depends on the batch shape. On the CPU each worker runs whole blocks on one thread, drawing and
    classifying, so that drawing for one block overlaps the network on another, and the rounding does not depend on the
    number of cores. Blocks that no look needs yet are taken only when there is nothing better to do.
    """

    classifier: Classifier
    runtime: Runtime
    classify: Callable[[Tensor], Tensor]  # from copies to the classifier's logits, as the runtime computes them
    seed: int
    block: int
    device: torch.device
    workers: int
    shared_noise: bool = False  # every input gets the same draws: faster, each certificate valid, not independent
    _drawn: OrderedDict[tuple[object, ...], tuple[Tensor, Tensor, Tensor]] = field(default_factory=OrderedDict)
    _drawing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def window(self) -> int:
        """How many inputs are under way at once: enough to keep the workers busy, and many to share draws among."""
        return 64 if self.shared_noise else self.workers + 1

    def run(self, jobs: Iterable[Job], at_most: int | None = None) -> Iterator[Count]:
        """Every count, finished, in the order given; new ones are taken in as others finish.

        at_most: no more inputs than this are begun and not yet handed out, so that a kill loses no more work than theirs.
        """
        yield from Race(self, jobs, at_most).finished()

    @torch.inference_mode()
    def vote(self, count: Count, number: int) -> IntArray:
        """The tally of one block."""
        return count.tally(number, self.classify(self.copies(count, number))[: count.rows(number)])

    @contextmanager
    def pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads that compute as the workers do: on the CPU one core for each."""
        on_cpu, before = self.device.type == "cpu", torch.get_num_threads()
        pool = ThreadPoolExecutor(self.workers, initializer=partial(torch.set_num_threads, 1) if on_cpu else None)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(before)

    def copies(self, count: Count, number: int) -> Tensor:
        """The block's noisy copies; with shared noise the draws are keyed by block alone and the latest few are kept."""
        if not self.shared_noise:
            drawn = self._fresh(count, number, count.index)
            return count.copies(number, drawn, drawn)
        scale, loc = count.noise.scale, count.noise.loc
        key = (count.noise.named, id(scale), id(loc), count.noise.grid, count.shape, count.stage, number)
        with self._drawing:
            if key not in self._drawn:
                # The scale and loc are kept with the draws, so that their identities stay theirs.
                self._drawn[key] = (self._fresh(count, number, 0), scale, loc)
                if len(self._drawn) > 4 * self.workers:
                    self._drawn.popitem(last=False)
            drawn = self._drawn[key][0]
        return count.copies(number, drawn, torch.empty_like(drawn))

    def _fresh(self, count: Count, number: int, index: int) -> Tensor:
        draws = draws_for(self.seed, index, count.stage, number, dtype=count.noise.sampling_dtype, device=self.device)
        return count.noise.lot(number, self.block, count.shape, draws)


class Race:
    """The workers of one poll: each takes the next best block until nothing is left."""

    def __init__(self, pollster: Pollster, jobs: Iterable[Job], at_most: int | None) -> None:
        self.pollster, self.source, self.at_most = pollster, iter(jobs), at_most
        self.running: deque[Job] = deque()  # taken in and not yet handed out, in order
        self.changed = threading.Condition()
        self.exhausted = self.over = False
        self.room = 0  # how many more counts may join those under way
        self.problem: BaseException | None = None

    def finished(self) -> Iterator[Count]:
        """The counts in order, each when it is done."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.pollster.workers)]
        before = torch.get_num_threads()
        try:
            for thread in threads:
                thread.start()
            while self.running or not self.exhausted:
                taken = self._take_in()
                yield from self._hand_out(wait=not taken)
        finally:
            with self.changed:
                self.over = True
                self.changed.notify_all()
            for thread in threads:
                thread.join()
            torch.set_num_threads(before)

    def _take_in(self) -> bool:
        """Take in one more count, if not enough of them are under way; was one taken?

        Counts that share draws come in waves: one that joined late would need the first draws again, alone.
        """
        window = self.pollster.window
        with self.changed:
            under_way = sum(not job.done for job in self.running)
        if self.at_most is not None and len(self.running) >= self.at_most:
            return False
        if not self.pollster.shared_noise or under_way <= window // 4:
            self.room = window - under_way
        if self.room <= 0 or self.exhausted:
            return False
        self.room -= 1
        job = next(self.source, None)
        with self.changed:
            self.exhausted = job is None
            if job is not None:
                self.running.append(job)
                self.changed.notify_all()
        return job is not None

    def _hand_out(self, *, wait: bool) -> list[Count]:
        """The first counts that are done; if there is nothing else to do, waits for something to happen."""
        ready = []
        with self.changed:
            if wait and self.running and not self.running[0].done and self.problem is None:
                self.changed.wait(timeout=0.5)
            if self.problem is not None:
                raise self.problem
            while self.running and isinstance(count := self.running[0], Count) and count.done:
                ready.append(count)
                self.running.popleft()
        return ready

    def _next(self) -> tuple[Job, int] | None:
        """The block to do next: one that a look needs, of the earliest input; else a speculative one."""
        wanted = (job for job in self.running if job.wanted)
        # With shared noise in step, so that a draw serves all inputs.
        in_step = self.pollster.shared_noise
        job = min(wanted, key=attrgetter("issued"), default=None) if in_step else next(wanted, None)
        job = job or next((job for job in self.running if job.left), None)
        if job is None:
            return None
        job.issued += 1
        return job, job.issued - 1

    def _work(self) -> None:
        if self.pollster.device.type == "cpu":
            torch.set_num_threads(1)
        while (taken := self._wait_for_job()) is not None:
            try:
                self._do(*taken)
            except BaseException as problem:  # handed to the caller's thread
                with self.changed:
                    self.problem, self.over = problem, True
                    self.changed.notify_all()

    def _do(self, job: Job, number: int) -> None:
        """Run an errand, or vote and count a block; what is done makes room, or is replaced by what follows from it."""
        if isinstance(job, Errand):
            found = job.run()
            with self.changed:
                self._replace(job, found)
            return
        began = time.perf_counter()
        counted = self.pollster.vote(job, number)
        with self.changed:
            was_done = job.done
            job.add(number, counted, time.perf_counter() - began)
            if job.done and not was_done:
                following = None if job.then is None else job.then(job)
                self._replace(job, following or job)

    def _replace(self, job: Job, following: Count) -> None:
        self.running[self.running.index(job)] = following
        self.changed.notify_all()

    def _wait_for_job(self) -> tuple[Job, int] | None:
        with self.changed:
            while not self.over:
                job = self._next()
                if job is not None:
                    return job
                self.changed.wait(timeout=0.2)
        return None


def default_block(shape: tuple[int, ...]) -> int:
    """Noisy copies per call of the network: 200, fewer for inputs of more than 8192 numbers, so that memory stays bounded.

    EfficientNet-Lite0 at 224 pixels: 90 s and 7.2 GB with 200 copies, 27 s and 0.9 GB with 10.

    >>> default_block((1, 28, 28)), default_block((3, 32, 32)), default_block((3, 224, 224)), default_block((3, 4096, 4096))
    (200, 200, 10, 1)
    """
    return max(1, min(200, 200 * 8192 // max(1, math.prod(shape))))


def rows_per_call(rows: int, block: int) -> int:
    """A block, or a quarter of one where gradients flow through more than half: they keep what every layer gives.

    >>> rows_per_call(400, 10), rows_per_call(5, 10), rows_per_call(64, 200)
    (2, 10, 200)
    """
    return max(1, block // 4) if torch.is_grad_enabled() and rows > block // 2 else block


def in_blocks(classify: Callable[..., Tensor], blocks: Iterable[tuple[Tensor, ...]]) -> Tensor:
    """The answers to all blocks, in the memory of one: where gradients flow, a block is computed once more for its own."""
    if not torch.is_grad_enabled():
        return torch.cat([classify(*block) for block in blocks])
    every = list(blocks)
    if len(every) == 1:
        return classify(*every[0])
    again = partial(checkpoint, classify, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([again(*block) for block in every])


def tally(logits: Tensor, confidence: float = 0.0) -> IntArray:
    """Votes per class, and in the last place the rows with a NaN, which is the largest of its row, or not sure enough.

    >>> tally(torch.tensor([[3.0, 0.0], [0.1, 0.0], [0.0, torch.nan]]), 0.9)
    array([1, 0, 2])
    """
    found = winners(logits)
    if confidence > 0:
        found = found.masked_fill(~(logits.double().softmax(dim=1).amax(dim=1) >= confidence), logits.shape[1])
    return torch.bincount(found, minlength=logits.shape[1] + 1).cpu().numpy()


def winners(logits: Tensor) -> Tensor:
    """The class of each row, and the number of classes where there is a NaN."""
    largest, found = logits.max(dim=1)
    return found.masked_fill_(largest.isnan(), logits.shape[1])
