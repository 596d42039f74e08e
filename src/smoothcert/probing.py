"""Is the classifier one fixed function of its row? Asked before its first vote counts, and again at the end.

Every theorem is about f: row -> class, the same in every batch and at every call. A callable may be something else, so it
is tried, on the very path that votes take. This is a test and no proof: what is made to pass it can still lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from smoothcert.answers import differences, same_bits, seen
from smoothcert.asks import Ask, Noisy, winners
from smoothcert.errors import NotFixed
from smoothcert.maths import FloatArray
from smoothcert.noise import Noise
from smoothcert.polling import Pollster
from smoothcert.seeds import Stage, generator_for

ROUNDING = 1e-4  # of a logit's size: float32 networks stay below it, whatever else is in the batch
STEPS = 8  # the same for coarser formats, in steps of the format
CLEAR = 10  # a margin of so many roundings is no matter of rounding
MOVED = 0.05  # and no more than this share of the votes is, however small their margins
FAR = 8.0  # times the input and its noise: what replaces rows, so that batch statistics move
CHANCE = 1e-6  # of a sound random classifier to fail one of its tests

ADVICE = (
    "Certificates hold for a fixed function of the row only: repair the model (give workers=1 if several threads must not call it at "
    "once), or give check=False (--no-check) for certificates that are labelled estimate"
)


@dataclass(frozen=True)
class Check:
    """One way to catch a classifier: what was done, and what usually answers otherwise then."""

    deed: str
    cause: str

    def refuse(self, seen: str) -> NotFixed:
        """The error that says what was done, what was seen and where it usually comes from."""
        return NotFixed(
            f"the classifier is not one fixed function of its row: {self.deed}, {seen}. Usual cause: {self.cause}. {ADVICE}"
        )


TWICE = Check(
    "asked twice about the same block",
    "dropout or another random layer in train mode (own_randomness=True, --set votes.own_randomness=true, if it is meant and "
    "every row draws its own), or state that changes from call to call",
)
ORDER = Check(
    "asked with the rows in another order",
    "answers by the place in the batch, or a cache that does not look at what the batch holds",
)
COMPANY = Check(
    "asked with half of the block's rows replaced by others",
    "batch norm in train mode, or centring, ranking, sorting or quantising over the batch",
)
REPEATS = Check("asked about rows that occur twice in a block", "answers that depend on the other rows of the batch")
END = Check(
    "asked about its first block again at the end",
    "state: a counter, a cache, a clock, or weights or noise that were changed (a model that was trained on needs a new Smoother)",
)
WRITES = Check("asked about a block", "operations in place on the input; give lambda x: model(x.clone())")
REUSE = Check("asked about another block", "an output buffer that is used again; return a copy of it")
FORM = Check("asked about several blocks", "state that changes from call to call")
SHARED = Check(
    "asked four times about one row, twice among copies of itself and twice among other rows",
    "randomness that the rows of a call share, or batch statistics: votes must be independent",
)
PLACE = Check(
    "asked about one row in many places of a block", "randomness or answers that belong to a place in the batch"
)


@dataclass(frozen=True, eq=False)
class Answer:
    """The logits for one block: as the model gave them, and as they were at that moment."""

    block: Tensor
    given: Tensor
    logits: Tensor


class Probe:
    """The checks of one classifier on inputs of one shape: four blocks to begin with, and one at the end."""

    def __init__(self, pollster: Pollster, x: Tensor, noise: Noise, index: int, *, shared: bool = False) -> None:
        self.pollster = pollster
        self.calls, self.seconds, self.rounding = 0, 0.0, 0.0
        self._forms: set[str] = set()
        scene = Noisy(x.to(pollster.device), noise)
        self._asked = Ask(index, Stage.PROBE, scene, 0, 1, pollster.block, shared)

    @property
    def facts(self) -> dict[str, float]:
        """What the checks cost, and the rounding they found, in units of a logit's size."""
        return {"calls": self.calls, "seconds": round(self.seconds, 3), "rounding": self.rounding}

    def begin(self) -> None:
        """Refuse a classifier whose answer for a row depends on the call, the row's place or the other rows."""
        with self._timed():
            self._begin()

    def again(self) -> None:
        """Refuse a classifier that has changed since ``begin``."""
        with self._timed():
            self._again()

    def _begin(self) -> None:
        first, order, kept, rest = self._drawn(0), *self._places()
        mixed = self._mixed(first, rest)
        asked = self._ask_all([first, first[order], mixed, first])
        self.first, permuted, companied, same = (answer.logits for answer in asked)
        self._compare_bits(TWICE, same)
        limit, step = self._allowed()
        measured = _compare(ORDER, self.first[order], permuted, limit)
        self.rounding = max(measured, step)
        _compare(COMPANY, self.first[kept], companied[kept], limit, self.rounding)
        pairs = len(rest) // 2 * 2
        _compare(REPEATS, companied[rest[0:pairs:2]], companied[rest[1:pairs:2]], limit, self.rounding)

    def _again(self) -> None:
        [same] = self._ask_all([self._drawn(0)])
        self._compare_bits(END, same.logits)

    def _compare_bits(self, check: Check, same: Tensor) -> None:
        if not same_bits(self.first, same):
            off, _, moved = differences(self.first, same)
            raise check.refuse(seen(off, moved, off > 0))

    @torch.inference_mode()
    def _drawn(self, number: int) -> Tensor:
        """A block of noisy copies of the input."""
        return self.pollster.copies(self._asked, number)

    def _places(self) -> tuple[Tensor, Tensor, Tensor]:
        """Another order in which no row keeps its place; and the places of a block in two halves."""
        block = self.pollster.block
        ring = torch.randperm(block, generator=generator_for(self.pollster.seed, self._asked.index, Stage.PROBE, 2))
        order = torch.empty_like(ring)
        order[ring] = ring.roll(1)
        half = max(1, block // 2)
        return order, ring[:half], ring[half:]

    def _mixed(self, rows: Tensor, rest: Tensor) -> Tensor:
        """The block with the rows at ``rest`` replaced by copies of another input, each of them twice.

        It lies far on the other side of zero, under more noise: the mean of every coordinate changes its sign, and its
        spread grows.
        """
        mixed = rows.clone()
        mixed[rest] = self._drawn(1)[torch.arange(len(rest)) // 2].add(rows.mean(dim=0).sign()).mul(-FAR)
        return mixed

    def _ask_all(self, blocks: Sequence[Tensor]) -> list[Answer]:
        """The answers; the second block comes in the memory of the first, and later ones side by side, as votes do."""
        spare = [torch.empty_like(block) for block in blocks[1:]]
        with self.pollster.pool() as pool:
            early = list(pool.map(self._ask, blocks[:1], spare[:1] or [torch.empty_like(blocks[0])]))
            answers = early + list(pool.map(self._ask, blocks[1:], spare))
        self.calls += len(blocks)
        self._forms |= {f"{answer.logits.shape[1]} of {answer.logits.dtype}" for answer in answers}
        if len(self._forms) > 1:
            raise FORM.refuse(f"it gave logits of different forms: {', '.join(sorted(self._forms))}")
        for answer in answers:
            # A view of the block is as good as a copy: it is counted before the block goes.
            view = answer.given.untyped_storage().data_ptr() == answer.block.untyped_storage().data_ptr()
            if not view and not same_bits(answer.given, answer.logits):
                raise REUSE.refuse("the logits of an earlier block changed")
        return answers

    @torch.inference_mode()
    def _ask(self, rows: Tensor, block: Tensor) -> Answer:
        block.copy_(rows)
        given = self.pollster.classify(block)
        if not torch.equal(block, rows):
            raise WRITES.refuse("it wrote into it")
        return Answer(block, given, given.clone())

    def _allowed(self) -> tuple[float, float]:
        """How far rounding may move a logit, and one step of the coarsest format in use, in units of a logit's size."""
        model = self.pollster.classifier
        formats = {torch.float32, self.first.dtype, self.pollster.runtime.dtype}
        formats |= {value.dtype for value in chain(model.parameters(), model.buffers())}
        step = max(torch.finfo(kind).eps for kind in formats if kind.is_floating_point)
        return max(ROUNDING, STEPS * step), step

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds += perf_counter() - began


class RandomProbe(Probe):
    """The checks of a classifier that draws numbers of its own: they must be independent per row and call.

    Nothing can be repeated, so one row is asked about many times, and rank tests (Kruskal and Wallis 1952) compare calls,
    company and places. Rows that share randomness in pairs only would not be noticed.
    """

    def _begin(self) -> None:
        rows, (_, kept, rest) = self._copies_of_one(), self._places()
        mixed = self._mixed(rows, rest)
        asked = [answer.logits for answer in self._ask_all([rows, mixed, rows, mixed])]
        self.first = asked[0]
        self.label = int(winners(self.first).mode().values) % self.first.shape[1]
        table = np.stack([self._scores(logits)[kept.numpy()] for logits in asked])
        self._compare_groups(SHARED, table)
        self._compare_groups(PLACE, table.T)

    def _again(self) -> None:
        [same] = self._ask_all([self._copies_of_one()])
        self._compare_groups(END, np.stack([self._scores(self.first), self._scores(same.logits)]))

    def _copies_of_one(self) -> Tensor:
        return self._drawn(0)[:1].expand(self.pollster.block, *self._asked.scene.shape)

    def _scores(self, logits: Tensor) -> FloatArray:
        """By how much the label leads, per row."""
        exact = logits.cpu().double().nan_to_num(nan=-torch.inf)
        others = exact.clone()
        others[:, self.label] = -torch.inf
        return (exact[:, self.label] - others.amax(dim=1)).nan_to_num(nan=0.0).numpy()

    def _compare_groups(self, check: Check, groups: FloatArray) -> None:
        from scipy.stats import kruskal

        limit, _ = self._allowed()
        if len(groups) < 2 or np.ptp(groups) <= limit * np.abs(groups).max():  # nothing random to see, up to rounding
            return
        chance = float(kruskal(*groups).pvalue)
        if chance < CHANCE:
            raise check.refuse(f"its answers differ more than independent draws do (p = {chance:.1g})")


def _compare(check: Check, expected: Tensor, got: Tensor, limit: float, rounding: float | None = None) -> float:
    """How far rounding moved the logits, in units of their size; more than rounding is refused.

    Without a ``rounding`` it is measured here: then no vote within the limit can move by more.
    """
    if not len(expected):
        return 0.0
    off, margin, moved = differences(expected, got)
    wrong = off > limit
    if rounding is not None:
        wrong |= moved & (margin > CLEAR * rounding)
    if int(moved.sum()) > max(1, MOVED * len(moved)):
        wrong |= moved
    if bool(wrong.any()):
        raise check.refuse(seen(off, moved, wrong))
    return float(off.max())
