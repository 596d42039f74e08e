"""Steps 1-6 in one call: the smoothed classifier, its predictions and its certificates."""

from __future__ import annotations

import hashlib
import platform
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy
import torch
from torch import Tensor, nn

import smoothcert
from smoothcert.answers import Loaded
from smoothcert.asks import Ask, Noisy, Tuning, Viewed
from smoothcert.certificates import Ballot, Certificate, Soundness, conclude, target_of, weakest
from smoothcert.data.base import Dataset
from smoothcert.data.guests import as_dataset, is_batch
from smoothcert.echo import NUMBER, VOTES, References, beside, mixed
from smoothcert.engine import AUTO, Engine, device_named
from smoothcert.errors import InputError, SettingError
from smoothcert.estimators import Estimator, Judge, Target, estimator_named, estimator_of
from smoothcert.estimators.bounds import Bound, leads, random_answers
from smoothcert.execution import executor_named
from smoothcert.execution.counts import Count, Errand, Job, Mixed
from smoothcert.execution.driver import Driver
from smoothcert.fronts import Front
from smoothcert.identity import described, identity
from smoothcert.maths import FloatArray, IntArray
from smoothcert.maths.boxed import Box
from smoothcert.memory.memory import Memory
from smoothcert.memory.of_run import keeper_at
from smoothcert.models.adapters import as_classifier
from smoothcert.noise import Noise, nearest_on_grid
from smoothcert.plan import Plan, Voting
from smoothcert.polling import Pollster, default_block, make_fixed
from smoothcert.probing import Probe, RandomProbe
from smoothcert.radius import proved_radius
from smoothcert.records.record import Parameter
from smoothcert.regions import Region
from smoothcert.registry import Plugin, name_of, written
from smoothcert.runtimes import runtime_named
from smoothcert.sections import facts
from smoothcert.seeds import Stage, draws_for
from smoothcert.sight import Aim, Sight
from smoothcert.threats import Threat
from smoothcert.views import View
from smoothcert.votes import Votes

Kind = TypeVar("Kind")
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


class Tuner(Plugin, ABC):
    """Chooses the noise for a batch, from draws that are never the certifying draws.

    A frozen dataclass whose fields are its parameters; they are part of every run that it serves.
    """

    reads_input: ClassVar[bool]  # True: certificates are FROZEN until a memory settles them
    costly: ClassVar[bool] = True  # reading inputs takes work: they are taken one by one, and each is voted on at once

    @abstractmethod
    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        """The noise for each input of x, from the noise the user gave; draws are keyed by index and stage TUNE."""

    def chosen_by(self, noise: Noise, x: Tensor) -> bool:
        """Was this noise, which all inputs share, chosen with this very input? Its certificate is frozen, then."""
        return False

    def check(self, facts: Mapping[str, Any]) -> None:
        """Refuse a run that this tuner cannot serve; facts is the run's configuration."""


@dataclass(frozen=True)
class FixedNoise(Tuner):
    """Keeps the noise the user gave: the same for every input, as in Cohen et al. (2019)."""

    name = "fixed"
    reads_input = False

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return start


class _Brief(type):
    """A class that lists its own names: help shows what a smoothed classifier adds to the sixty methods of every module."""

    def __dir__(cls) -> list[str]:
        return sorted(vars(cls))


class Smoother(nn.Module, metaclass=_Brief):
    """The classifier that answers what the base classifier most often answers under noise, or of finite views.

    Views take the place of noise, with a norm or a threat that they have a certificate against, such as
    Smoother(model, Bands(width=4), threat="patch:5"). Where all of them are asked nothing is left to chance: what is about
    votes (select, estimate, alpha, estimator, radii) is not used, certificates are exact and predict never abstains.

    estimator: sequential (stops when the radii, or the radius within its tolerance, are decided), fixed (all the votes),
    group_sequential, union, betting or randomized, with parameters ("sequential:rivals=rest" bounds the class alone, without
    its strongest rival), or an Estimator. engine: how votes are cast, such as Engine(workers=1) for a callable that must not be called twice
    at once. front: noise is laid on numbers U(x − μ) of the input, which the model then gets; certificates are about the input.
    tuner: a Tuner, or "ancer:steps=60". memory: keeps what was promised, for noise that is chosen per input; it then
    belongs to this classifier; a path opens its file, or that of a run.
    identity: your own name for a classifier that cannot be known by its value; a new one is due whenever it changes.

    check: before its first vote on inputs of a shape the model is probed for being one fixed function of its row, and after
    every call of certify asked again; it is refused with NotFixed if it is not. The probe is a test, not a proof: a model
    made to pass it can still lie. check=False leaves it out, and certificates are labelled estimate. own_randomness: the
    model draws numbers of its own, independent per row and call; its votes cannot be repeated, so neither can a run.

    >>> _ = torch.manual_seed(0)
    >>> smoothed = Smoother(nn.Linear(4, 3).eval(), Noise.isotropic("gaussian", sigma=0.1), estimator="fixed", estimate=2_000)
    >>> certificate, = smoothed.certify(torch.ones(1, 4))
    >>> certificate.soundness.value, certificate.bound.trials
    ('global', 2000)
    """

    is_plain: ClassVar[bool] = True  # one classifier, whose answers are classes: nothing else has a memory or is served

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        noise: Noise | View,
        norm: float | str = Voting.norm,
        *,
        threat: str | Threat | None = Voting.threat,
        select: int = Voting.select,
        estimate: int = Voting.trials,
        alpha: float = Voting.alpha,
        estimator: str | Estimator = Voting.estimator,
        radii: float | Sequence[float] = Voting.radii,
        seed: int = Voting.seed,
        front: Front | None = None,
        tuner: Tuner | str | None = None,
        memory: Memory | Path | str | None = None,
        engine: Engine | None = None,
        forward_draws: int = 16,
        identity: str | None = None,
        check: bool = Voting.check,
        own_randomness: bool = Voting.own_randomness,
    ) -> None:
        super().__init__()
        given = Sight(noise) if isinstance(noise, View) else noise
        self.noise = _of_type(given, Noise, 'sc.Noise.isotropic("gaussian", sigma=0.25)')
        self.front = None if front is None else _of_type(front, Front, 'sc.Front.load("front.npz")')
        if front is not None:
            self.noise = behind(front, self.noise)
        self.aim, chooser = Aim.of(self.noise, norm, threat), _tuner_named(tuner)
        self.aim.check(
            tunes="" if isinstance(chooser, FixedNoise) else name_of(type(chooser)), own_randomness=own_randomness
        )
        asked = Voting(str(estimator_named(estimator)), estimate, alpha, radii, select=select, seed=seed)  # type: ignore[arg-type]
        if forward_draws < 1:
            raise SettingError(f"forward_draws={forward_draws} must be at least 1")
        self.engine = engine = _of_type(engine or Engine(), Engine, 'sc.Engine(device="cuda")')
        # Without a block the first input decides; see suit.
        self.plan = Plan(
            asked.estimator, asked.trials, asked.alpha, tuple(sorted(asked.radii)), engine.block or Plan.block
        )
        if front is not None and self.plan.radii:
            raise SettingError(
                f"radii={written(self.plan.radii)} are of inputs, and votes behind a front are judged by its numbers; leave them out: "
                "votes then stop when the radius is known within a tolerance"
            )
        self.estimator = estimator_of(self.plan)
        if self.estimator.bounds_rivals and self.aim.view is None:
            # refuses a law without such a theorem
            proved_radius(self.noise.law, self.aim.norm, 1, Bound(0.9, asked.alpha, 1, 0.05))
        self.model, self.norm = as_classifier(model), self.aim.norm
        self.select, self.seed, self.tuner = asked.select, asked.seed, chooser
        self.device, self.forward_draws, self.given_identity = device_named(engine.device), forward_draws, identity
        self.to(self.device)
        if engine.runtime == AUTO:
            raise SettingError(
                "the runtime auto is chosen before a smoother is made; give engine=sc.calibrate(model, noise, x[0]).engine, or a name"
            )
        self.runtime = runtime_named(engine.runtime)
        self.runtime.check(self.device)
        self.loaded = Loaded(self.runtime, self.model)
        self.pollster = Pollster(
            self.model,
            self.runtime,
            self.loaded,
            seed=asked.seed,
            block=self.plan.block,
            device=self.device,
            workers=engine.workers or (torch.get_num_threads() if self.device.type == "cpu" else 1),
        )
        self.driver = Driver(self, executor_named(engine.executor), engine.shared_noise)
        self.check, self.own_randomness = check, own_randomness
        self.probes: dict[tuple[int, ...], Probe] = {}  # by the shape of one input
        self.references: References | None = None  # what certificates are compared with, of the data set they are of
        self.memory = Memory.open(keeper_at(memory)) if isinstance(memory, str | Path) else memory
        if self.memory is not None:
            self.memory.bind(norm=self.norm, owner=self.identity)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._modules]

    def extra_repr(self) -> str:
        """What its text says beside the model."""
        return f"{self.noise!r}, norm={self.norm:g}, tuner={self.tuner}"

    def suit(self, shape: Sequence[int]) -> None:
        """Fit the block size to inputs of this shape, unless one was given: the memory of a call follows it.

        All views of an input are asked in blocks of about one size. A shape that the views or the threat do not fit is refused.
        """
        views = self.aim.views(tuple(shape))
        block = self.engine.block or default_block(tuple(shape), views)
        if self.engine.block is not None:
            # More copies than there are votes would be classified and not counted.
            block = min(block, views or max(self.plan.trials, self.select))
        if block != self.plan.block:
            self.plan, self.pollster = replace(self.plan, block=block), replace(self.pollster, block=block)

    @property
    def identity(self) -> dict[str, Any]:
        """All that the deployed classifier depends on, its inputs and the votes aside."""
        return {
            **facts(self.runtime),
            **self.runtime.versions,
            "model": identity(self.model.model, self.given_identity),
            "law": described(self.noise.named),
            "scale": _parameter_fact(self.noise.scale),
            "loc": _parameter_fact(self.noise.loc),
            "domain": self.domain,
            **({} if self.front is None else {"front": self.front.told}),
            "tuner": described(self.tuner),
            "seed": self.seed,
            "runtime": described(self.runtime),
            "device": self.device.type,
            "own_randomness": self.own_randomness,
        }

    @property
    def domain(self) -> str:
        """Where the perturbations of a certificate live."""
        return self.noise.domain if self.front is None else self.front.domain

    @property
    def points_lie(self) -> tuple[int | None, Box | None]:
        """Steps in one unit of the grid that inputs lie on, if they do, and the box that matters to them, if one does."""
        if self.front is not None:
            return self.front.pixels, self.front.box
        return None if self.noise.grid is None else self.noise.levels, self.noise.box

    def behind(self, dataset: Dataset) -> Dataset:
        """What the noise is laid on, for every input of a data set: the inputs themselves, or their numbers behind the front."""
        return dataset if self.front is None else self.front.over(dataset)

    def encoded(self, x: Tensor) -> Tensor:
        """The same for a batch, (batch, *seen); where x asks for gradients they pass, as if nothing were rounded."""
        if self.front is None:
            return x
        if not x.requires_grad:
            return torch.from_numpy(self.front.encode(x.cpu().numpy())).to(x.device)
        matrix, offset = (
            torch.as_tensor(each, dtype=x.dtype, device=x.device) for each in (self.front.matrix, self.front.offset)
        )
        return nearest_on_grid((x.flatten(1) - offset) @ matrix.T, self.front.levels).reshape(-1, *self.front.seen)

    def center_of(self, x: Tensor) -> FloatArray:
        """The input as a certificate means it."""
        return self.noise.center_of(x) if self.front is None else self.front.center_of(x.detach().cpu().numpy())

    def about_input(self, certificate: Certificate, x: Tensor) -> Certificate:
        """What a certificate about the numbers of x behind the front says of x; without a front, the certificate.

        It is frozen if the front was chosen by this very input.
        """
        if self.front is None:
            return certificate
        given, region = x.detach().cpu().numpy(), certificate.region
        worth = weakest([certificate.soundness, *([Soundness.FROZEN] if self.front.chosen_by(given) else [])])
        if isinstance(region, Region):
            return replace(certificate, region=self.front.pulled_back(region, given), soundness=worth)
        return replace(certificate, soundness=worth)

    def refer_to(self, dataset: Dataset) -> None:
        """Take references from a data set: they tell a certificate of its inputs from one that any input would get."""
        if isinstance(self.noise, Sight):
            return  # nobody chooses views for an input
        dataset = self.behind(dataset)
        self.suit(dataset.shape)
        make_fixed(self.model)
        self.references = References.of(dataset, self.driver, self.noise)

    def forward(self, x: Tensor) -> Tensor:
        """Class probabilities averaged over ``forward_draws`` noisy copies, differentiable in x: (batch, classes).

        The noise comes from torch's global generator, anew at every call, for code that attacks or trains the
        smoothed classifier; certificates never use it.
        """
        seen = self.encoded(x)
        draws = (self.model(self.noise.noisy(seen)).softmax(dim=-1) for _ in range(self.forward_draws))
        return torch.stack(list(draws)).mean(dim=0)

    def predict(self, x: Tensor, first_index: int = 0, *, votes: int | None = None) -> list[int | None]:
        """The smoothed classifier's answer per input, or None where the votes (``select`` by default) cannot tell.

        Each answer is wrong with probability at most alpha (Cohen et al. 2019, Predict). With a memory, what it promised
        is answered without asking the model, and every other answer becomes a promise for this input.
        """
        x = self.encoded(checked(x))
        if self.memory is None:
            return self._vote(Batch(x, range(first_index, first_index + len(x))), votes)
        centers = [self.noise.center_of(row) for row in x]
        answers = [self.memory.answer(center) for center in centers]
        # A row of noise per input belongs to the whole batch.
        whole = self.noise.per_input(x.ndim - 1)
        asked = [i for i, answer in enumerate(answers) if whole or answer is None]
        if not asked:
            return answers
        for i, label in zip(asked, self._vote(Batch(x[asked], [first_index + i for i in asked]), votes), strict=True):
            answers[i] = (
                self.memory.answer(centers[i]) if label is None else self.memory.settle_answer(centers[i], label)
            )
        return answers

    def _vote(self, batch: Batch, votes: int | None) -> list[int | None]:
        """The model's answer per input, or None where the votes cannot tell."""
        if self.aim.complete:
            self._refuse_fewer(votes, tuple(batch.x.shape[1:]))
            return [self.conclude(poll).label for poll in self.polls([batch])]
        looks = np.array([votes or self.select])
        counts = self.driver.run(self._count(item, Stage.PREDICT, looks) for item in self._prepared(batch))
        tables = [count.votes() for count in counts]
        return [int(table.leaders()[0]) if leads(table, self.plan.alpha)[0] else None for table in tables]

    def _refuse_fewer(self, votes: int | None, shape: tuple[int, ...]) -> None:
        """Complete views are asked all, or the answer would not be the one that was certified."""
        views = self.aim.views(shape)
        if votes not in (None, views):
            raise SettingError(
                f"votes={votes}: {self.noise.named} has {views} views, all of which are asked; leave it out"
            )

    def certify(self, x: Any, first_index: int = 0) -> list[Certificate]:
        """One Certificate per input, each wrong with probability at most alpha.

        x is a batch, or any data that ``sc.as_dataset`` takes, such as a DataLoader. The input's index keys its noise: its
        position in the batch or the data set, from ``first_index`` on. Give separate calls separate ranges, or they share
        draws. A memory settles the certificates in the order of the inputs.
        """
        given: list[Tensor] = []
        batches = (self._behind(batch, given) for batch in self._batches(x, first_index))
        polls = list(self.polls(batches))  # all, before any is settled
        found = ((self.conclude(poll), poll.noise.center_of(poll.x)) for poll in polls)
        kept = [c if self.memory is None else self.memory.settle(c, center=center) for c, center in found]
        return [self.about_input(c, x) for c, x in zip(kept, given, strict=True)]

    def _behind(self, batch: Batch, given: list[Tensor]) -> Batch:
        """The batch as the noise is laid on it; the inputs are kept."""
        x = checked(batch.x)
        given.extend(x)
        return replace(batch, x=self.encoded(x))

    def _batches(self, x: Any, first_index: int) -> Iterator[Batch]:
        """The inputs with their indices; those of a data set a few at a time, with their truths."""
        if is_batch(x):
            yield Batch(x, range(first_index, first_index + len(x)))
            return
        dataset = as_dataset(x)
        for start in range(0, len(dataset), self.engine.rows):
            chosen = range(start, min(start + self.engine.rows, len(dataset)))
            inputs = torch.from_numpy(dataset.inputs(chosen))
            yield Batch(inputs, [first_index + index for index in chosen], self.truths_of(dataset, chosen))

    def truths_of(self, dataset: Dataset, indices: Sequence[int]) -> list[int | None]:
        """The true classes of these inputs."""
        return dataset.truths(indices)

    def count_classes(self, x: Tensor) -> int | None:
        """How many classes there are, by the answer to one input, (1, \\*event); None where answers are numbers."""
        make_fixed(self.model)
        rows = x.to(self.device).repeat(self.plan.block, *[1] * (x.ndim - 1))
        with torch.inference_mode():
            return self.pollster.classify(rows).shape[1]

    def own_facts(self, poll: Poll, dataset: Dataset) -> dict[str, Any]:
        """What a record says otherwise than that of one classifier under noise would."""
        return {}

    def polls(self, batches: Iterable[Batch]) -> Iterator[Poll]:
        """The votes on each input, in order; new inputs are taken in while hard ones are still being decided.

        Where choosing an input's noise takes work, a worker does it just before the votes, and no more inputs than there
        are workers are under way: what is killed loses the work on these alone.
        """
        asked: dict[int, _Item] = {}  # by index
        batches = map(self._held, batches)
        own = self.tuner.reads_input and self.tuner.costly
        ways = self._asking_all if self.aim.complete else self._choosing if own else self._chosen
        jobs = ways(batches, asked)
        early: list[_Item] = []
        for count in self.driver.run(jobs, self.driver.places if own else None):
            item = asked.pop(count.index)
            if own and len(early) < FIRST_INPUTS:
                early.append(item)
                self._warn_of_guessing(early)
            yield self._poll(item)
        for probe in self.probes.values():
            probe.again()
        self.loaded.confirm()

    def begin(self, x: Tensor, index: int, votes: int | None = None) -> tuple[Job, Callable[[Votes | None], Poll]]:
        """One input as a job for a desk that outlives a call, and what its estimation votes, by default all, amount to.

        votes: only predict, from so many. The model is not asked again at the end: who keeps a desk does so now and then.
        """
        batch, asked = self._held(Batch(x[None], [index])), dict[int, _Item]()
        if votes is None and (self.aim.complete or (self.tuner.reads_input and self.tuner.costly)):
            [job] = (self._asking_all if self.aim.complete else self._choosing)([batch], asked)
        else:
            [item] = self._prepared(batch)
            asked[index] = item
            looks = np.array([votes])
            job = self._selection(item) if votes is None else self._count(item, Stage.PREDICT, looks)
        return job, lambda estimation: self._poll(asked[index], estimation)

    def _held(self, batch: Batch) -> Batch:
        """The batch, if its inputs lie in the noise's box."""
        self.noise.check_inside(torch.as_tensor(batch.x))
        return batch

    def _choosing(self, batches: Iterable[Batch], asked: dict[int, _Item]) -> Iterator[Job]:
        """Each input, its noise still to be chosen."""

        def chosen(tuning: Tuning, truth: int | None, noise: Noise, seconds: float) -> Count:
            item = _Item(tuning.index, tuning.x, noise, truth, self._worth(own=True), seconds)
            asked[item.index] = item
            return self._selection(item)

        for batch in batches:
            x, truths = self.probe(batch), batch.truths or [None] * len(batch.x)
            for at, index in enumerate(batch.indices):
                tuning = Tuning(index, x[at], self.noise.row(at, tuple(x.shape[1:]), len(x)))
                yield Errand(tuning, partial(chosen, tuning, truths[at]))

    def _asking_all(self, batches: Iterable[Batch], asked: dict[int, _Item]) -> Iterator[Job]:
        """Each input with all its views: there is no class to select and nothing to stop for."""
        early: list[_Item] = []

        def look(item: _Item, count: Count) -> None:
            if len(early) < FIRST_INPUTS:
                early.append(item)
                self._warn_of_guessing(early)

        for item in (item for batch in batches for item in self._prepared(batch)):
            asked[item.index] = item
            looks = np.array([self.aim.views(tuple(item.x.shape))])
            item.counts[Stage.ESTIMATE] = self._count(item, Stage.ESTIMATE, looks, then=partial(look, item))
            yield item.counts[Stage.ESTIMATE]

    def _chosen(self, batches: Iterable[Batch], asked: dict[int, _Item]) -> Iterator[Job]:
        """Each input with its noise; the class of the first few is selected before the rest."""
        prepared = (item for batch in batches for item in self._prepared(batch))
        first = list(islice(prepared, FIRST_INPUTS))
        early = self.driver.run(self._count(item, Stage.SELECT, np.array([self.select])) for item in first)
        for item, count in zip(first, early, strict=True):
            item.counts[Stage.SELECT] = count
        self._warn_of_guessing(first)
        for item in chain(first, prepared):
            asked[item.index] = item
            done = item.counts.get(Stage.SELECT)
            yield self._selection(item) if done is None else self._estimation(item, done)

    def _poll(self, item: _Item, estimation: Votes | None = None) -> Poll:
        """What was asked about one input, once all of it is counted, or by this look."""
        echo = item.echo if estimation is None else None
        estimation = estimation or item.votes(Stage.ESTIMATE)
        none = Votes(0 * estimation.counts[:, -1:], 0 * estimation.invalid[:, -1:])
        ballot = Ballot(none if self.aim.complete else item.votes(Stage.SELECT), estimation)
        counts = list(item.counts.values())  # at once: a worker may add the next while an earlier look is judged
        seconds = (item.seconds + sum(count.seconds for count in counts)) / self.driver.places
        return Poll(item.index, item.x, item.noise, ballot, item.soundness, seconds, echo)

    def conclude(self, poll: Poll) -> Certificate:
        """The certificate that the votes on one input support."""
        return conclude(
            poll.ballot,
            plan=self.plan,
            law=self.aim.named(poll.noise),
            center=poll.noise.center_of(poll.x),
            scale=poll.noise.scale.cpu().numpy(),
            norm=self.aim.against,
            soundness=poll.soundness,
            uniform=self.uniform_for(poll.index),
            box=poll.noise.box,
        )

    def target(self, noise: Noise, x: Tensor) -> Target:
        """What the votes on an input aim at: the radius, or the size of a threat, under its noise."""
        named, scale = self.aim.named(noise), noise.scale.detach().cpu().numpy()
        return target_of(named, self.aim.against, tuple(x.shape), scale, noise.box)

    def uniform_for(self, index: int) -> float:
        """The one random number of randomized Clopper–Pearson, keyed by the input; 1 for every other estimator."""
        if not self.estimator.randomized:
            return 1.0
        return float(draws_for(self.seed, index, Stage.RANDOMIZE, 0, dtype=torch.float64).uniform((1,)))

    def _count(
        self,
        item: _Item,
        stage: Stage,
        looks: IntArray,
        stops: Callable[[Votes], bool] | None = None,
        then: Callable[[Count], Count | None] | None = None,
    ) -> Count:
        decided = stops or (lambda votes: False)
        kind = Viewed if isinstance(item.noise, Sight) else Noisy
        return Count(item.index, stage, kind(item.x.to(self.device), item.noise), looks, self.plan.block, decided, then)

    def _selection(self, item: _Item) -> Count:
        """The count that chooses the class."""
        return self._count(item, Stage.SELECT, np.array([self.select]), then=partial(self._estimation, item))

    def _estimation(self, item: _Item, selection: Count) -> Count:
        """The count that bounds the class which the selection chose."""
        item.counts[Stage.SELECT] = selection
        label = item.leader
        judge = self.estimator.judge(self.plan, self.target(item.noise, item.x), self.uniform_for(item.index))
        stops = partial(judge.stops, label=label)
        return self._count(item, Stage.ESTIMATE, self.plan.looks, stops, then=partial(self._echo, item, judge))

    def _echo(self, item: _Item, judge: Judge, estimation: Count) -> Count | None:
        """The count that tells whether references get the same label, unless there is none or nobody to ask."""
        item.counts[Stage.ESTIMATE] = estimation
        bound = judge.bound(estimation.votes(), item.leader)
        if self.references is None or not bound.lower > bound.rival:
            return None
        others = beside(self.references, item.x.to(self.device), item.noise, item.index, item.leader, tuning=False)
        count = mixed(item.noise, others, item.index, NUMBER * VOTES, self.plan.block)
        item.counts[Stage.ECHO] = count
        return count

    def _prepared(self, batch: Batch) -> Iterator[_Item]:
        """Each input with its index and its noise, chosen from the user's noise, after all checks."""
        x = self.probe(batch)
        began = perf_counter()
        noise = self.tuner.choose(self, x, self.noise, batch.indices)
        each = (perf_counter() - began) / max(len(x), 1)
        own = self.tuner.reads_input or noise.per_input(x.ndim - 1)
        for position, index in enumerate(batch.indices):
            truth = None if batch.truths is None else batch.truths[position]
            row = noise.row(position, tuple(x.shape[1:]), len(x))
            soundness = self._worth(own=own or self.tuner.chosen_by(row, x[position]))
            yield _Item(index, x[position], row, truth, soundness, each)

    def _worth(self, *, own: bool) -> Soundness:
        """The label of certificates under noise of the input's own, or under the same for all."""
        worth = Soundness.FROZEN if own else Soundness.GLOBAL
        return worth if self.check else weakest([worth, Soundness.ESTIMATE])

    def cast(self, ask: Ask) -> list[IntArray]:
        """The tally of each block that is asked for."""
        return self.pollster.cast(ask)

    def tune(self, tuning: Tuning) -> Noise:
        """The noise that the tuner chooses for one input."""
        noise = self.tuner.choose(self, tuning.x[None], tuning.start, [tuning.index])
        return noise.row(0, tuple(tuning.x.shape), 1)

    def prove(self, ask: Ask) -> dict[str, str]:
        """Who computes here, and hashes of what is drawn and computed for a block: equal where all numbers are."""
        with torch.inference_mode():
            copies = self.pollster.copies(ask, ask.first)
            # What draws numbers of its own answers otherwise at every call.
            found = (
                {"noise": copies}
                if self.own_randomness
                else {"noise": copies, "logits": self.pollster.classify(copies)}
            )
        hashes = {f"{name} bits": _hash(value) for name, value in found.items()}
        return {name: str(value) for name, value in self.identity.items()} | machine_facts() | hashes

    def elsewhere(self) -> Callable[[], Smoother]:
        """What makes the same classifier, without its memory, in a process that this is sent to."""
        return partial(
            Smoother,
            self.model,
            self.noise,
            self.norm,
            select=self.select,
            estimate=self.plan.trials,
            alpha=self.plan.alpha,
            estimator=self.estimator,
            radii=self.plan.radii,
            seed=self.seed,
            front=self.front,
            tuner=self.tuner,
            engine=replace(self.engine, executor="threads", workers=1, block=self.plan.block, device=self.device.type),
            identity=self.given_identity,
            check=False,
            own_randomness=self.own_randomness,
        )

    def close(self) -> None:
        """Let go of the workers that an executor keeps for this classifier."""
        self.driver.executor.close(self)

    def probe(self, batch: Batch) -> Tensor:
        """The inputs, checked; a model that is no fixed function of its row is refused, once per shape of input."""
        x = checked(batch.x)
        shape = tuple(x.shape[1:])
        self.suit(shape)
        make_fixed(self.model)
        if self.check and len(x) and shape not in self.probes:
            kind = RandomProbe if self.own_randomness else Probe
            probe = kind(
                self.pollster, x[0], self.noise.row(0, shape, len(x)), batch.indices[0], shared=self.driver.shared_noise
            )
            probe.begin()
            self.probes[shape] = probe
        return x

    def _warn_of_guessing(self, early: list[_Item]) -> None:
        """Say, once the first few inputs have their selection votes, if these look like guesses."""
        stage = Stage.ESTIMATE if self.aim.complete else Stage.SELECT
        selection, truths = [item.votes(stage) for item in early], [item.truth for item in early]
        if early and not self.aim.complete and not any(votes.counts.any() for votes in selection):
            warnings.warn(
                "the network answered NaN to every noisy copy of the first inputs, and a NaN is a vote for nobody: all "
                "will be abstentions; look at its weights, its precision and the range of its inputs",
                stacklevel=3,
            )
            return
        half = 0.0 if self.aim.complete else 0.5
        reason = random_answers(selection, truths, half) if len(early) == FIRST_INPUTS else None
        if reason:
            warnings.warn(
                f"the network seems to answer at random under this noise ({self.noise.named}): {reason}. Most certificates will be "
                "abstentions or wrong; train it with this noise (smoothcert train), or use a smaller sigma",
                stacklevel=3,
            )


@dataclass(frozen=True, eq=False)
class _Item:
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


def behind(front: Front, noise: Noise) -> Noise:
    """The noise as it is laid on the numbers of a front: on their grid, which is another one than that of the inputs."""
    if isinstance(noise, Sight):
        raise SettingError(
            f"a front gives numbers for noise to be laid on, and {noise.view.name} views have none; give noise"
        )
    if noise.box is not None:
        raise SettingError(
            f"the noise clips inputs to {noise.box}, and behind a front there are numbers of another range; leave the box out"
        )
    return Noise(noise.law, noise.scale, noise.loc, 1 / front.levels)


def machine_facts() -> dict[str, str]:
    """The libraries and the processor that numbers depend on."""
    versions = {"smoothcert": smoothcert.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return {**versions, "scipy": scipy.__version__, "processor": platform.machine()}


def _hash(value: Tensor) -> str:
    return hashlib.sha256(value.contiguous().cpu().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def _of_type(value: Any, kind: type[Kind], example: str) -> Kind:
    """The value, if it is of this type."""
    if not isinstance(value, kind):
        raise SettingError(f"{value!r} is no {kind.__name__}; give one, such as {example}")
    return value


def _tuner_named(tuner: Tuner | str | None) -> Tuner:
    """The tuner; a text names it as on the command line."""
    if tuner is None or isinstance(tuner, Tuner):
        return tuner or FixedNoise()
    # The tuners are built on this file, so they are imported only when one is asked for.
    named: Tuner = import_module("smoothcert.tuners").tuner_named(tuner)
    return named


def _parameter_fact(value: Tensor) -> Parameter:
    return float(value) if value.ndim == 0 else identity(value)


def checked(x: Tensor | FloatArray) -> Tensor:
    """The batch as a float32 tensor (batch, *event), refused when it is empty of axes, not numbers, or not finite."""
    tensor = torch.as_tensor(x)
    if tensor.ndim < 2:
        raise InputError(
            f"the input has shape {tuple(tensor.shape)}; give a batch, (inputs, …), even of one input: x[None]"
        )
    if tensor.dtype == torch.uint8:
        raise InputError("the input has dtype uint8; give pixels as floats in [0, 1]: x / 255")
    tensor = tensor.float()
    bad = (~tensor.flatten(1).isfinite()).any(dim=1).nonzero().flatten().tolist()
    if bad:
        raise InputError(
            f"inputs at positions {bad[:5]} hold NaN or infinite values; every coordinate must be a finite number"
        )
    return tensor
