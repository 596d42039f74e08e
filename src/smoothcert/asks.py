"""What is asked of a classifier, as data: any worker, on any machine, answers it with the same numbers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from smoothcert.maths import FloatArray, IntArray
from smoothcert.noise import Noise
from smoothcert.seeds import Stage
from smoothcert.sight import Sight

Placer = Callable[[Tensor, Tensor], Tensor]


class Scene(ABC):
    """What the classifier is shown, row by row; a value that pickles, whatever was prepared from it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one row."""

    @property
    def drawn_from(self) -> Noise | None:
        """The noise that is drawn for each block; None if nothing is."""
        return None

    @abstractmethod
    def place(self, start: int, drawn: Tensor, out: Tensor) -> Tensor:
        """The block that begins with row ``start``, from what was drawn for it; may be written to ``out``."""

    def tallies(self, start: int, logits: Tensor, block: int) -> list[IntArray]:
        """What the logits of these rows, from row ``start`` on, add to the total, block by block."""
        return tallies(logits, block)

    def fits(self, tally: IntArray, rows: int) -> bool:
        """Can a tally be that of so many rows?"""
        return tally.dtype == np.int64 and tally.size > 0 and tally.min() >= 0 and int(tally.sum()) == rows

    @property
    @abstractmethod
    def content(self) -> tuple[Tensor, Noise | None]:
        """What is shown, and under which noise."""

    @cached_property
    def digest(self) -> str:
        """A hash of the content: equal where the same is shown under the same noise."""
        shown, noise = self.content
        parts = [shown] if noise is None else [shown, noise.scale, noise.loc]
        words = [type(self).__name__, *([] if noise is None else [str(noise.named), noise.domain])]
        words += [f"{part.dtype} {tuple(part.shape)}" for part in parts]
        found = hashlib.sha256("\n".join(words).encode())
        for part in parts:
            found.update(part.detach().cpu().numpy().tobytes())
        return found.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what was prepared from it, and without the rest of the batch that it is a row of."""
        shown, noise = self.content
        return type(self), (shown.cpu().clone(), *([] if noise is None else [noise]))

    @abstractmethod
    def to(self, device: torch.device) -> Scene:
        """The same on a device."""


@dataclass(frozen=True, eq=False)
class Plain(Scene):
    """One input as it is, in every row."""

    x: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def content(self) -> tuple[Tensor, Noise | None]:
        return self.x, None

    def place(self, start: int, drawn: Tensor, out: Tensor) -> Tensor:
        return out.copy_(self.x)

    def to(self, device: torch.device) -> Plain:
        return Plain(self.x.to(device))


@dataclass(frozen=True, eq=False)
class Noisy(Scene):
    """One input under its noise."""

    x: Tensor
    noise: Noise

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def content(self) -> tuple[Tensor, Noise | None]:
        return self.x, self.noise

    @property
    def drawn_from(self) -> Noise:
        return self.noise

    @cached_property
    def _placer(self) -> Placer:
        return self.noise.placer(self.x)

    def place(self, start: int, drawn: Tensor, out: Tensor) -> Tensor:
        return self._placer(drawn, out)

    def to(self, device: torch.device) -> Self:
        return type(self)(self.x.to(device), self.noise)


@dataclass(frozen=True, eq=False)
class Measured(Noisy):
    """One input under its noise, asked for a number: the second logit of each row."""

    def tallies(self, start: int, logits: Tensor, block: int) -> list[FloatArray]:  # type: ignore[override]
        """The numbers themselves, in order; nothing is added up."""
        return [part.numpy() for part in torch.split(logits[:, 1].double().cpu(), block)]

    def fits(self, tally: IntArray, rows: int) -> bool:
        return tally.dtype == np.float64 and tally.shape == (rows,)


@dataclass(frozen=True, eq=False)
class Viewed(Noisy):
    """Views of one input: where all are asked row i is view i, beginning again after the last; else they are drawn."""

    @property
    def sight(self) -> Sight:
        """The views."""
        assert isinstance(self.noise, Sight)
        return self.noise

    @property
    def drawn_from(self) -> Noise | None:  # type: ignore[override]
        return None if self.sight.view.complete else self.noise

    def place(self, start: int, drawn: Tensor, out: Tensor) -> Tensor:
        lens = self.sight.numbered(start, len(out), self.shape, self.x.device) if self.sight.view.complete else drawn
        return self._placer(lens, out)

    def tallies(self, start: int, logits: Tensor, block: int) -> list[IntArray]:
        """Votes per class; a view that is not sure enough votes for nobody."""
        return tallies(logits, block, self.sight.view.confidence)


@dataclass(frozen=True, eq=False)
class Turns(Scene):
    """Several inputs under one noise, by turns: row i is of the input i modulo their number.

    Rows of different inputs share a block, since the classifier is a fixed function of its row.
    """

    inputs: Tensor  # (inputs, *event)
    noise: Noise

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inputs.shape[1:])

    @property
    def content(self) -> tuple[Tensor, Noise | None]:
        return self.inputs, self.noise

    @property
    def drawn_from(self) -> Noise:
        return self.noise

    @cached_property
    def _placers(self) -> list[Placer]:
        return [self.noise.placer(x) for x in self.inputs]

    def _rows_of(self, position: int, start: int) -> slice:
        """The rows of a block that are of one input."""
        return slice((position - start) % len(self.inputs), None, len(self.inputs))

    def place(self, start: int, drawn: Tensor, out: Tensor) -> Tensor:
        for position, place in enumerate(self._placers):
            rows = self._rows_of(position, start)
            place(drawn[rows], out[rows])
        return out

    def tallies(self, start: int, logits: Tensor, block: int) -> list[IntArray]:
        """The votes on each input, (inputs, classes + 1)."""
        every = range(len(self.inputs))
        return [
            np.stack([tally(part[self._rows_of(position, start + at * block)]) for position in every])
            for at, part in enumerate(torch.split(logits, block))
        ]

    def to(self, device: torch.device) -> Turns:
        return Turns(self.inputs.to(device), self.noise)


@dataclass(frozen=True, eq=False)
class Ask:
    """The votes of ``number`` blocks of a scene, from block ``first`` on; index and stage key what is drawn for them.

    votes: how many rows of the scene count, over all its blocks: surplus rows of the last one do not. shared: the draws
    are those that all inputs share, and the index keys none.
    """

    index: int
    stage: Stage
    scene: Scene
    first: int
    number: int
    votes: int
    shared: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """All that it says, as few words."""
        return self.index, self.stage, self.first, self.number, self.votes, self.shared, self.scene.digest


@dataclass(frozen=True, eq=False)
class Cast:
    """The tally of each block, and the key of the ask as it arrived where they were cast."""

    key: tuple[object, ...]
    tallies: list[IntArray]

    def fault(self, ask: Ask, block: int) -> str:
        """What tells that this does not answer the ask; empty if nothing does."""
        if self.key != ask.key:
            return f"the votes were cast for {self.key}"
        rows = [min(block, ask.votes - block * at) for at in range(ask.first, ask.first + ask.number)]
        if len(self.tallies) != ask.number:
            return f"it holds the tallies of {len(self.tallies)} blocks instead of {ask.number}"
        wrong = [at for at, tally in enumerate(self.tallies) if not ask.scene.fits(tally, rows[at])]
        return f"block {ask.first + wrong[0]} is no tally of {rows[wrong[0]]} votes" if wrong else ""


@dataclass(frozen=True, eq=False)
class Tuning:
    """The noise of one input is to be chosen, from the one it starts with."""

    index: int
    x: Tensor
    start: Noise


Task = Ask | Tuning


def tally(logits: Tensor, confidence: float = 0.0) -> IntArray:
    """Votes per class, and in the last place the rows with a NaN, which is the largest of its row, or not sure enough.

    >>> tally(torch.tensor([[3.0, 0.0], [0.1, 0.0], [0.0, torch.nan]]), 0.9)
    array([1, 0, 2])
    """
    return tallies(logits, max(1, len(logits)), confidence)[0]


def tallies(logits: Tensor, block: int, confidence: float = 0.0) -> list[IntArray]:
    """The tally of each block of rows, the last one of what is left: by one count for all.

    >>> tallies(torch.eye(3), 2)
    [array([1, 1, 0, 0]), array([0, 0, 1, 0])]
    """
    won, places = winners(logits, confidence), logits.shape[1] + 1
    blocks = max(1, -(-len(won) // block))
    if blocks > 1:
        won.add_(torch.arange(len(won), device=won.device).div_(block, rounding_mode="floor").mul_(places))
    return list(torch.bincount(won, minlength=blocks * places).view(blocks, places).cpu().numpy())


def winners(logits: Tensor, confidence: float = 0.0) -> Tensor:
    """The class of each row, and the number of classes where there is a NaN or its softmax is below ``confidence``."""
    largest, found = logits.max(dim=1)
    if confidence > 0:
        found = found.masked_fill(~(logits.double().softmax(dim=1).amax(dim=1) >= confidence), logits.shape[1])
    return found.masked_fill_(largest.isnan(), logits.shape[1])
