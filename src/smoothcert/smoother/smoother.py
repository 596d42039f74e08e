"""Steps 1-6 in one call: the smoothed classifier, its predictions and its certificates."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy
import torch
from torch import Tensor, nn

import smoothcert
from smoothcert.answers import Loaded
from smoothcert.asks import Ask, Cast, Tuning
from smoothcert.certificates import Certificate, Soundness, conclude, target_of, weakest
from smoothcert.data.base import Dataset
from smoothcert.data.guests import as_dataset, is_batch
from smoothcert.echo import References
from smoothcert.engine import AUTO, Engine, device_named
from smoothcert.errors import SettingError
from smoothcert.estimators import Estimator, Target, estimator_named, estimator_of
from smoothcert.estimators.bounds import Bound, leads
from smoothcert.execution import executor_named
from smoothcert.execution.driver import Driver
from smoothcert.fronts import Front
from smoothcert.identity import described, identity
from smoothcert.maths import FloatArray
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
from smoothcert.registry import name_of, written
from smoothcert.runtimes import runtime_named
from smoothcert.sections import facts
from smoothcert.seeds import Stage, draws_for
from smoothcert.sight import Aim, Sight
from smoothcert.smoother.inquiry import Batch, Inquiry, Poll, checked
from smoothcert.smoother.tuner import FixedNoise, Tuner, tuner_named
from smoothcert.threats import Threat
from smoothcert.views import View

Kind = TypeVar("Kind")


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
        self.aim, chooser = Aim.of(self.noise, norm, threat), tuner_named(tuner)
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
        self.inquiry = Inquiry(self)
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
                self.memory.answer(centers[i])
                if label is None
                else self.memory.settle_answer(centers[i], label, self.inquiry.worth(own=True))
            )
        return answers

    def _vote(self, batch: Batch, votes: int | None) -> list[int | None]:
        """The model's answer per input, or None where the votes cannot tell."""
        if self.aim.complete:
            self._refuse_fewer(votes, tuple(batch.x.shape[1:]))
            return [self.conclude(poll).label for poll in self.polls([batch])]
        looks = np.array([votes or self.select])
        inquiry = self.inquiry
        counts = self.driver.run(inquiry.count(item, Stage.PREDICT, looks) for item in inquiry.prepared(batch))
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
        """The votes on each input, in order; afterwards the classifier is asked whether it is still the same."""
        yield from self.inquiry.polls(batches)
        self.confirm()

    def confirm(self) -> None:
        """Ask the classifier again whether it is the function that was probed, and its runtime; NotFixed if it is not."""
        for probe in self.probes.values():
            probe.again()
        self.loaded.confirm()

    def conclude(self, poll: Poll) -> Certificate:
        """The certificate that the votes on one input support."""
        return conclude(
            poll.ballot,
            plan=self.plan,
            law=self.aim.named(poll.noise),
            center=poll.noise.center_of(poll.x),
            scale=poll.noise.scale.cpu().numpy().copy(),  # a copy: what is given out stays as it is
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

    def cast(self, ask: Ask) -> Cast:
        """The tally of each block that is asked for, with the key of the ask."""
        return Cast(ask.key, self.pollster.cast(ask))

    def tune(self, tuning: Tuning) -> Noise:
        """The noise that the tuner chooses for one input."""
        noise = self.tuner.choose(self, tuning.x[None].clone(), tuning.start, [tuning.index])
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
        own: dict[str, Any] = {"estimator": self.estimator, "front": self.front, "tuner": self.tuner}
        return partial(Smoother, self.model, self.noise, self.norm, select=self.select, **own, **self._shared_elsewhere)

    @property
    def _shared_elsewhere(self) -> dict[str, Any]:
        """What a copy of any kind is told in another process: it votes on one thread, and is probed here."""
        return {
            "estimate": self.plan.trials,
            "alpha": self.plan.alpha,
            "radii": self.plan.radii,
            "seed": self.seed,
            "engine": replace(
                self.engine, executor="threads", workers=1, block=self.plan.block, device=self.device.type
            ),
            "identity": self.given_identity,
            "check": False,
            "own_randomness": self.own_randomness,
        }

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


def _parameter_fact(value: Tensor) -> Parameter:
    return float(value) if value.ndim == 0 else identity(value)
