"""From inputs to votes: what is counted of each input, in which order, and when it is enough."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from smoothcert.asks import Noisy, Tuning, Viewed
from smoothcert.certificates import Ballot, Soundness, weakest
from smoothcert.echo import NUMBER, VOTES, beside, mixed
from smoothcert.errors import InputError, SettingError
from smoothcert.estimators import Judge
from smoothcert.estimators.bounds import random_answers
from smoothcert.execution.counts import Count, Errand, Job, Mixed
from smoothcert.maths import FloatArray, IntArray
from smoothcert.noise import Noise
from smoothcert.seeds import Stage
from smoothcert.sight import Sight
from smoothcert.votes import Votes

if TYPE_CHECKING:
    from smoothcert.smoother.smoother import Smoother

FIRST_INPUTS = 10  # as many selections are looked at before the budget of a batch is spent


@dataclass(frozen=True, eq=False)
class Poll:
    """What was asked about one input and what the model answered: all that its certificate depends on."""

    index: int
    x: Tensor
    noise: Noise
    ballot: Ballot
    soundness: Soundness
    seconds: float  # to choose the noise and to vote
    echo: float | None = None  # how often references get the label under this noise; None where nobody asked


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs to certify, the indices that key their noise, and their truths, which only serve to warn."""

    x: Tensor
    indices: Sequence[int]
    truths: Sequence[int | None] | None = None

    def __post_init__(self) -> None:
        if len(self.indices) and not min(self.indices) >= 0:
            raise InputError(f"the index {min(self.indices)} is below 0; indices key the noise: number inputs from 0")


@dataclass(frozen=True, eq=False)
class Item:
    """One input, ready to be voted on."""

    index: int
    x: Tensor
    noise: Noise
    truth: int | None
    soundness: Soundness
    seconds: float  # of a worker, to choose the noise
    counts: dict[Stage, Count] = field(default_factory=dict)  # by stage, those that were begun

    def votes(self, stage: Stage) -> Votes:
        """The votes of one stage."""
        return self.counts[stage].votes()

    @property
    def leader(self) -> int:
        """The class that the selection chose."""
        return int(self.votes(Stage.SELECT).leaders()[0])

    @property
    def echo(self) -> float | None:
        """The share of the votes on references that are for the class; None if there were none."""
        count = self.counts.get(Stage.ECHO)
        return count.share(self.leader) if isinstance(count, Mixed) else None


@dataclass(frozen=True, eq=False)
class Inquiry:
    """All that is asked of one smoothed classifier about inputs: votes that select, that estimate, and that compare."""

    smoother: Smoother

    def polls(self, batches: Iterable[Batch]) -> Iterator[Poll]:
        """The votes on each input, in order; new inputs are taken in while hard ones are still being decided.

        Where choosing an input's noise takes work, a worker does it just before the votes, and no more inputs than there
        are workers are under way: what is killed loses the work on these alone.
        """
        asked: dict[int, Item] = {}  # by index
        driver, early = self.smoother.driver, list[Item]()
        jobs = self._jobs(map(self.held, batches), asked)
        for count in driver.run(jobs, driver.places if self._chooses else None):
            item = asked.pop(count.index)
            if len(early) < FIRST_INPUTS and (self._chooses or self._complete):
                early.append(item)
                self._warn_of_guessing(early)
            yield self._poll(item)

    def begin(self, x: Tensor, index: int, votes: int | None = None) -> tuple[Job, Callable[[Votes | None], Poll]]:
        """One input as a job for a desk that outlives a call, and what its estimation votes, by default all, amount to.

        votes: only predict, from so many. The model is not asked again at the end: who keeps a desk does so now and then.
        """
        batch, asked = self.held(Batch(x[None], [index])), dict[int, Item]()
        if votes is None and (self._complete or self._chooses):
            [job] = self._jobs([batch], asked)
        else:
            [item] = self.prepared(batch)
            asked[index] = item
            job = self._selection(item) if votes is None else self.count(item, Stage.PREDICT, np.array([votes]))
        return job, lambda estimation: self._poll(asked[index], estimation)

    def held(self, batch: Batch) -> Batch:
        """The batch, if its inputs lie in the noise's box."""
        self.smoother.noise.check_inside(_tensor(batch.x))
        return batch

    def prepared(self, batch: Batch) -> Iterator[Item]:
        """Each input with its index and its noise, chosen from the user's noise, after all checks."""
        smoother, tuner = self.smoother, self.smoother.tuner
        x = smoother.probe(batch)
        began = perf_counter()
        noise = self._suiting(tuner.choose(smoother, x.clone(), smoother.noise, batch.indices))
        each = (perf_counter() - began) / max(len(x), 1)
        own = tuner.reads_input or noise.per_input(x.ndim - 1)
        for position, index in enumerate(batch.indices):
            truth = None if batch.truths is None else batch.truths[position]
            row = noise.row(position, tuple(x.shape[1:]), len(x))
            soundness = self.worth(own=own or tuner.chosen_by(row, x[position]))
            yield Item(index, x[position], row, truth, soundness, each)

    def _suiting(self, noise: Noise) -> Noise:
        """The noise that was chosen, if it lies on the grid and in the box of the user's: of these every record speaks."""
        given = self.smoother.noise
        if noise.domain != given.domain:
            raise SettingError(
                f"the method {self.smoother.tuner} chose noise for inputs in another domain ({noise.domain}) than it was given "
                f"({given.domain}); keep the grid and the box: start.shaped(scale, loc)"
            )
        return noise

    def worth(self, *, own: bool) -> Soundness:
        """The label of certificates under noise of the input's own, or under the same for all."""
        worth = Soundness.FROZEN if own else Soundness.GLOBAL
        return worth if self.smoother.check else weakest([worth, Soundness.ESTIMATE])

    def count(
        self,
        item: Item,
        stage: Stage,
        looks: IntArray,
        stops: Callable[[Votes], bool] | None = None,
        then: Callable[[Count], Count | None] | None = None,
    ) -> Count:
        """So many votes on an input, up to the look at which they stop; ``then`` says what is counted next."""
        kind = Viewed if isinstance(item.noise, Sight) else Noisy
        scene, block = kind(item.x.to(self.smoother.device), item.noise), self.smoother.plan.block
        return Count(item.index, stage, scene, looks, block, stops or (lambda votes: False), then)

    # Which jobs there are

    @property
    def _complete(self) -> bool:
        """Are all views of an input asked?"""
        return self.smoother.aim.complete

    @property
    def _chooses(self) -> bool:
        """Does a worker choose the noise of each input, just before its votes?"""
        return self.smoother.tuner.reads_input and self.smoother.tuner.costly

    def _jobs(self, batches: Iterable[Batch], asked: dict[int, Item]) -> Iterator[Job]:
        ways = self._asking_all if self._complete else self._choosing if self._chooses else self._chosen
        return ways(batches, asked)

    def _asking_all(self, batches: Iterable[Batch], asked: dict[int, Item]) -> Iterator[Job]:
        """Each input with all its views: there is no class to select and nothing to stop for."""
        for item in (item for batch in batches for item in self.prepared(batch)):
            asked[item.index] = item
            looks = np.array([self.smoother.aim.views(tuple(item.x.shape))])
            item.counts[Stage.ESTIMATE] = self.count(item, Stage.ESTIMATE, looks)
            yield item.counts[Stage.ESTIMATE]

    def _choosing(self, batches: Iterable[Batch], asked: dict[int, Item]) -> Iterator[Job]:
        """Each input, its noise still to be chosen."""

        def chosen(tuning: Tuning, truth: int | None, noise: Noise, seconds: float) -> Count:
            item = Item(tuning.index, tuning.x, self._suiting(noise), truth, self.worth(own=True), seconds)
            asked[item.index] = item
            return self._selection(item)

        for batch in batches:
            x, truths = self.smoother.probe(batch), batch.truths or [None] * len(batch.x)
            for at, index in enumerate(batch.indices):
                tuning = Tuning(index, x[at], self.smoother.noise.row(at, tuple(x.shape[1:]), len(x)))
                yield Errand(tuning, partial(chosen, tuning, truths[at]))

    def _chosen(self, batches: Iterable[Batch], asked: dict[int, Item]) -> Iterator[Job]:
        """Each input with its noise; the class of the first few is selected before the rest."""
        prepared = (item for batch in batches for item in self.prepared(batch))
        first, looks = list(islice(prepared, FIRST_INPUTS)), np.array([self.smoother.select])
        early = self.smoother.driver.run(self.count(item, Stage.SELECT, looks) for item in first)
        for item, count in zip(first, early, strict=True):
            item.counts[Stage.SELECT] = count
        self._warn_of_guessing(first)
        for item in chain(first, prepared):
            asked[item.index] = item
            done = item.counts.get(Stage.SELECT)
            yield self._selection(item) if done is None else self._estimation(item, done)

    # What is counted of one input: a class is selected, bounded, and compared with what others get

    def _selection(self, item: Item) -> Count:
        """The count that chooses the class."""
        return self.count(item, Stage.SELECT, np.array([self.smoother.select]), then=partial(self._estimation, item))

    def _estimation(self, item: Item, selection: Count) -> Count:
        """The count that bounds the class which the selection chose."""
        item.counts[Stage.SELECT] = selection
        smoother, target = self.smoother, self.smoother.target(item.noise, item.x)
        judge = smoother.estimator.judge(smoother.plan, target, smoother.uniform_for(item.index))
        stops = partial(judge.stops, label=item.leader)
        return self.count(item, Stage.ESTIMATE, smoother.plan.looks, stops, then=partial(self._echo, item, judge))

    def _echo(self, item: Item, judge: Judge, estimation: Count) -> Count | None:
        """The count that tells whether references get the same label, unless there is none or nobody to ask."""
        item.counts[Stage.ESTIMATE] = estimation
        smoother, bound = self.smoother, judge.bound(estimation.votes(), item.leader)
        if smoother.references is None or not bound.lower > bound.rival:
            return None
        x = item.x.to(smoother.device)
        others = beside(smoother.references, x, item.noise, item.index, item.leader, tuning=False)
        count = mixed(item.noise, others, item.index, NUMBER * VOTES, smoother.plan.block)
        item.counts[Stage.ECHO] = count
        return count

    def _poll(self, item: Item, estimation: Votes | None = None) -> Poll:
        """What was asked about one input, once all of it is counted, or by this look."""
        echo = item.echo if estimation is None else None
        estimation = estimation or item.votes(Stage.ESTIMATE)
        none = Votes(0 * estimation.counts[:, -1:], 0 * estimation.invalid[:, -1:])
        ballot = Ballot(none if self._complete else item.votes(Stage.SELECT), estimation)
        counts = list(item.counts.values())  # at once: a worker may add the next while an earlier look is judged
        seconds = (item.seconds + sum(count.seconds for count in counts)) / self.smoother.driver.places
        return Poll(item.index, item.x, item.noise, ballot, item.soundness, seconds, echo)

    def _warn_of_guessing(self, early: list[Item]) -> None:
        """Say, once the first few inputs have their selection votes, if these look like guesses."""
        stage, half = (Stage.ESTIMATE, 0.0) if self._complete else (Stage.SELECT, 0.5)
        selection, truths = [item.votes(stage) for item in early], [item.truth for item in early]
        if early and not self._complete and not any(votes.counts.any() for votes in selection):
            warnings.warn(
                "the network answered NaN to every noisy copy of the first inputs, and a NaN is a vote for nobody: all "
                "will be abstentions; look at its weights, its precision and the range of its inputs",
                stacklevel=3,
            )
            return
        reason = random_answers(selection, truths, half) if len(early) == FIRST_INPUTS else None
        if reason:
            warnings.warn(
                f"the network seems to answer at random under this noise ({self.smoother.noise.named}): {reason}. Most certificates will be "
                "abstentions or wrong; train it with this noise (smoothcert train), or use a smaller sigma",
                stacklevel=3,
            )


def _tensor(x: Tensor | FloatArray) -> Tensor:
    """The batch as a tensor; a copy of an array, since torch warns of the memory of one that must not be written."""
    return x if isinstance(x, Tensor) else torch.tensor(x)


def checked(x: Tensor | FloatArray) -> Tensor:
    """The batch as a float32 tensor (batch, *event) of its own, refused when it is empty of axes, not numbers, or not finite.

    A copy: whoever gave the batch may use its memory for the next one while votes are cast on this.
    """
    tensor = _tensor(x)
    if tensor.ndim < 2:
        raise InputError(
            f"the input has shape {tuple(tensor.shape)}; give a batch, (inputs, …), even of one input: x[None]"
        )
    if tensor.dtype == torch.uint8:
        raise InputError("the input has dtype uint8; give pixels as floats in [0, 1]: x / 255")
    if tensor.is_complex():
        raise InputError(f"the input has dtype {tensor.dtype}; give real numbers, such as torch.view_as_real(x)")
    tensor = tensor.detach().to(torch.float32, copy=True)
    bad = (~tensor.flatten(1).isfinite()).any(dim=1).nonzero().flatten().tolist()
    if bad:
        raise InputError(
            f"inputs at positions {bad[:5]} hold NaN or infinite values; every coordinate must be a finite number"
        )
    return tensor
