"""Step 2: the only file that runs the classifier for a certificate."""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from smoothcert.asks import Ask
from smoothcert.errors import ModelError
from smoothcert.maths import IntArray
from smoothcert.models.adapters import Classifier, unfixed
from smoothcert.noise import PART, Noise
from smoothcert.runtimes import Runtime
from smoothcert.seeds import TorchDraws, draws_for

TOGETHER = 16  # blocks whose answers are counted in one call: what it costs beside the numbers is that of one


def on_one_core() -> None:
    """What the calling thread computes from now on takes one core."""
    torch.get_num_threads()  # a thread takes the number of the process when it is first asked: by then another may have set it
    torch.set_num_threads(1)


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


@dataclass(frozen=True, eq=False)
class Pollster:
    """Casts votes, block by block, in constant memory.

    The network always sees blocks of one shape, (block, *event), the last one padded and its surplus not counted: a
    network's rounding depends on the batch shape. On the CPU each worker runs whole blocks on one thread, drawing and
    classifying, so that drawing for one block overlaps the network on another, and the rounding does not depend on the
    number of cores.
    """

    classifier: Classifier
    runtime: Runtime
    classify: Callable[[Tensor], Tensor]  # from copies to the classifier's logits, as the runtime computes them
    seed: int
    block: int
    device: torch.device
    workers: int  # threads that may call it at once
    _drawn: OrderedDict[tuple[object, ...], tuple[Tensor, Noise]] = field(default_factory=OrderedDict)
    _drawing: threading.Lock = field(default_factory=threading.Lock)

    @torch.inference_mode()
    def cast(self, ask: Ask) -> list[IntArray]:
        """The tally of each block that is asked for; a few at a time are counted together."""
        numbers = range(ask.first, ask.first + ask.number)
        parts = [numbers[at : at + TOGETHER] for at in range(0, ask.number, TOGETHER)]
        return [tally for part in parts for tally in self._counted(ask, part)]

    def _counted(self, ask: Ask, numbers: range) -> list[IntArray]:
        start = numbers[0] * self.block
        logits = [self.classify(rows) for rows in self._blocks(ask, numbers)]
        rows = logits[0] if len(logits) == 1 else torch.cat(logits)
        return ask.scene.tallies(start, rows[: ask.votes - start], self.block)

    @contextmanager
    def pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads that compute as the workers do: on the CPU one core for each."""
        on_cpu, before = self.device.type == "cpu", torch.get_num_threads()
        pool = ThreadPoolExecutor(self.workers, initializer=on_one_core if on_cpu else None)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(before)

    def _blocks(self, ask: Ask, numbers: range) -> Iterator[Tensor]:
        """The rows of each of these blocks."""
        noise = ask.scene.drawn_from
        if noise is None or ask.shared:
            return (self.copies(ask, number) for number in numbers)
        return self._drawn_blocks(ask, numbers, noise)

    def copies(self, ask: Ask, number: int) -> Tensor:
        """The rows of one block; draws that inputs share are keyed by block alone, and the latest few are kept."""
        scene, start = ask.scene, number * self.block
        noise = scene.drawn_from
        if noise is None:
            empty = torch.empty((self.block, *scene.shape), device=self.device)
            return scene.place(start, empty, empty)
        if not ask.shared:
            return next(self._drawn_blocks(ask, range(number, number + 1), noise))
        key = (noise.named, id(noise.scale), id(noise.loc), noise.edition, noise.grid, scene.shape, ask.stage, number)
        with self._drawing:
            if key not in self._drawn:
                # The noise is kept with its draws, so that the identities of its parts stay theirs.
                self._drawn[key] = (noise.draw(self.block, scene.shape, self._source(ask, number)), noise)
                if len(self._drawn) > 4 * self.workers:
                    self._drawn.popitem(last=False)
            drawn = self._drawn[key][0]
        return scene.place(start, drawn, torch.empty_like(drawn))

    def _drawn_blocks(self, ask: Ask, numbers: range, noise: Noise) -> Iterator[Tensor]:
        """The rows of these blocks, drawn for this input alone; those of small ones in one go."""
        size = self.block * max(1, math.prod(ask.scene.shape))
        together = max(1, PART // size)
        for first in range(numbers.start, numbers.stop, together):
            sources = [self._source(ask, number) for number in range(first, min(first + together, numbers.stop))]
            drawn = noise.draw_blocks(self.block, ask.scene.shape, sources)
            placed = ask.scene.place(first * self.block, drawn, drawn)
            # Each begins at a multiple of 64 bytes, as memory of its own does: a network's rounding may depend on it.
            yield from (rows if 4 * size % 64 == 0 else rows.clone() for rows in torch.split(placed, self.block))

    def _source(self, ask: Ask, number: int) -> TorchDraws:
        index = 0 if ask.shared else ask.index
        return draws_for(self.seed, index, ask.stage, number, dtype=Noise.sampling_dtype, device=self.device)


def default_block(shape: tuple[int, ...], views: int | None = None) -> int:
    """Noisy copies per call of the network: 200, fewer for inputs of more than 8192 numbers, so that memory stays bounded.

    views: how many are asked in all; they are divided evenly.

    EfficientNet-Lite0 at 224 pixels: 90 s and 7.2 GB with 200 copies, 27 s and 0.9 GB with 10.

    >>> default_block((1, 28, 28)), default_block((3, 32, 32)), default_block((3, 224, 224)), default_block((3, 4096, 4096))
    (200, 200, 10, 1)
    >>> default_block((1, 28, 28), views=28), default_block((1, 28, 28), views=1530)
    (28, 192)
    """
    block = max(1, min(200, 200 * 8192 // max(1, math.prod(shape))))
    return block if views is None else -(-views // -(-views // block))


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
