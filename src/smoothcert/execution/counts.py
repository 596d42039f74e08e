"""What is under way: the votes of one input at one stage, or the choice of its noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from smoothcert.asks import Ask, Scene, Tuning
from smoothcert.maths import FloatArray, IntArray
from smoothcert.noise import Noise
from smoothcert.seeds import Stage
from smoothcert.votes import Votes


@dataclass(eq=False)
class Count:
    """The votes of one input at one stage, block by block: what is out, what is back, what the looks have seen.

    Blocks may come back in any order, and more than once; each is counted once, in order, so the table does not depend on
    who was faster.
    """

    index: int
    stage: Stage
    scene: Scene
    looks: IntArray
    block: int
    stops: Callable[[Votes], bool] = lambda votes: False
    then: Callable[[Count], Count | None] | None = None  # what to count next for this input, once this is done
    issued: int = 0
    returned: list[Ask] = field(default_factory=list)  # taken, and lost with who took them
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
        return (self.issued * self.block < self.due or bool(self.returned)) and not self.done

    @property
    def left(self) -> bool:
        """Is there any block that nobody has taken? Beyond the next look it may turn out to be wasted."""
        return (self.issued * self.block < self.last or bool(self.returned)) and not self.done

    def blocks_to(self, votes: int) -> int:
        """How many blocks nobody has taken so far up to this many votes."""
        return -(-votes // self.block) - self.issued

    def take(self, most: int, *, shared: bool) -> Ask:
        """The next blocks: what was lost, else at most so many of those that the next look needs, else beyond it."""
        if self.returned:
            return self.returned.pop()
        needed = self.blocks_to(self.due)
        number = min(most, needed if needed > 0 else self.blocks_to(self.last))
        self.issued += number
        return Ask(self.index, self.stage, self.scene, self.issued - number, number, self.last, shared)

    def add(self, first: int, tallies: list[IntArray], seconds: float) -> None:
        """Blocks came back: count what is next in order, and look where a look is due; what came before is ignored."""
        self.seconds += seconds
        self.back |= {first + at: tally for at, tally in enumerate(tallies) if first + at >= self.counted}
        while not self.done and self.counted in self.back:
            self.total = self._with(self.back.pop(self.counted))
            self.counted += 1
            if min(self.counted * self.block, self.last) == self.due:
                self.seen.append(np.asarray(self.total))
                self.done = self.due == self.last or self.stops(self.votes())
                self.due = int(self.looks[min(len(self.seen), len(self.looks) - 1)])

    def _with(self, tally: IntArray) -> IntArray:
        """The total with the next block."""
        return self.total + tally

    def lose(self, ask: Ask) -> None:
        """These blocks will not come back from who took them: they are given out again."""
        known = [number for number in range(ask.first, ask.first + ask.number) if self._is_known(number)]
        if len(known) < ask.number:
            self.returned.append(ask)

    def _is_known(self, number: int) -> bool:
        return number < self.counted or number in self.back

    def votes(self) -> Votes:
        """The table of the looks so far."""
        table = np.stack(self.seen)
        return Votes(table[None, :, :-1], table[None, :, -1])


@dataclass(eq=False)
class Gathered(Count):
    """The numbers that were answered about one input, in order: as many floats as there are votes."""

    def _with(self, tally: IntArray) -> IntArray:
        return np.append(self.total if self.counted else [], tally)

    @property
    def numbers(self) -> FloatArray:
        """All that were asked for; what is no number stays so."""
        return np.asarray(self.seen[-1], dtype=float)


@dataclass(eq=False)
class Mixed(Count):
    """The votes on several inputs by turns."""

    @property
    def table(self) -> IntArray:
        """The votes on each input, (inputs, classes + 1); in the last place those that are not a number."""
        return self.seen[-1]

    def share(self, label: int) -> float:
        """How much of the votes on all of them is for a class."""
        return float(self.table[:, label].sum() / self.table.sum())


@dataclass(eq=False)
class Errand:
    """The choice of an input's noise, which comes before its votes; once it is known, the count takes its place."""

    tuning: Tuning
    then: Callable[[Noise, float], Count]  # from the noise and the seconds that it took
    issued: int = 0
    done: ClassVar[bool] = False

    @property
    def wanted(self) -> bool:
        """Has nobody taken it?"""
        return self.issued == 0

    left = wanted


Job = Count | Errand
