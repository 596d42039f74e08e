"""Several smoothed classifiers in turn, the most noise first: each answers or passes on, and the whole is certified.

The noise that an input is answered under depends on the input, and yet nothing is frozen: who answers is itself smoothed, and
certified with the answer. See ``maths.cascade`` for the theorem.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.certificates import Ballot, Certificate, Soundness, weakest
from smoothcert.data.base import Dataset
from smoothcert.data.guests import as_dataset, is_batch
from smoothcert.errors import InputError, ModelError, SettingError
from smoothcert.estimators.bounds import Bound
from smoothcert.fronts.front import fingerprint_of, known_among
from smoothcert.laws import Law
from smoothcert.maths import FloatArray
from smoothcert.maths.cascade import NO_PASS, Reach, StageScores, margin_reach, possible_answers
from smoothcert.maths.intervals import lower_bound, upper_bound
from smoothcert.noise import Noise
from smoothcert.plan import Voting
from smoothcert.polling import make_fixed
from smoothcert.regions import Region
from smoothcert.seeds import Stage
from smoothcert.sight import Sight
from smoothcert.smoother import Batch, FixedNoise, Poll, Smoother, checked
from smoothcert.votes import Votes

SHARE = 0.9  # of a stage's alpha: for the label, where nobody can pass; else a third each for label, rivals and passing


@dataclass(frozen=True, eq=False)
class StagePoll(Poll):
    """The votes on one input at every stage that was asked, and the class that the selection votes chose."""

    label: int = 0
    asked: tuple[Votes, ...] = ()


class Cascade(Smoother):
    """Stage after stage is asked, the one with most noise first, until one accepts a class; the last answers in any case.

    stages: Smoothers with fixed noise, of one norm and one domain: Gaussian noise in l2, or log-concave noise in l1. Each has
    its own model, noise and number of votes (select, estimate); of a stage that has one class more than the others, as
    ``train --recipe gambler`` makes it, the last class is "pass". margins: stage j accepts a class whose score
    scale·F⁻¹(p) leads every other, pass among them, by more than twice its margin; 0 for the last. alpha is shared among the
    stages, half for the first, and votes are cast at a stage only while it can still prove more, or decide ``radii``. Certificates
    are ``global``, and ``frozen`` at inputs that the margins were chosen with (chosen_on).

    >>> _ = torch.manual_seed(0)
    >>> from smoothcert.noise import Noise
    >>> stages = [Smoother(nn.Linear(4, 3).eval(), Noise.isotropic("gaussian", s), estimate=1_000) for s in (0.5, 0.25)]
    >>> certificate, = Cascade(stages).certify(torch.ones(1, 4))
    >>> certificate.soundness.value, certificate.bound.alpha
    ('global', 0.001)
    """

    is_plain = False

    def __init__(
        self,
        stages: Sequence[Smoother],
        margins: Sequence[float] | None = None,
        *,
        alpha: float = Voting.alpha,
        radii: float | Sequence[float] = Voting.radii,
        chosen_on: Any = None,
    ) -> None:
        _check_stages(stages)
        first = stages[0]
        super().__init__(
            first.model,
            first.noise,
            first.norm,
            select=first.select,
            estimate=first.plan.trials,
            alpha=alpha,
            estimator="fixed",
            radii=radii,
            seed=first.seed,
            engine=first.engine,
            identity=first.given_identity,
            check=all(stage.check for stage in stages),
            own_randomness=any(stage.own_randomness for stage in stages),
        )
        self.stages = nn.ModuleList(stages)
        self.margins = tuple(map(float, [0.0] * len(stages) if margins is None else margins))
        margin_reach(np.zeros(len(stages)), np.zeros(len(stages)), self.margins)  # refuses margins that do not fit
        self.seen = frozenset() if chosen_on is None else frozenset(_fingerprints(chosen_on, first.noise))
        self.classes = 0  # known once the networks were asked

    def __iter__(self) -> Iterator[Smoother]:
        return iter(self.stages)  # type: ignore[arg-type]

    @property
    def words(self) -> str:
        """What a table says of its noise."""
        return f"cascade {' → '.join(map(_words, self))}"

    @property
    def alphas(self) -> tuple[float, ...]:
        """What each stage may spend: half of alpha the first, the rest evenly."""
        later = len(self.stages) - 1
        first = self.plan.alpha / 2 if later else self.plan.alpha
        return (first, *[(self.plan.alpha - first) / max(later, 1)] * later)

    @property
    def identity(self) -> dict[str, Any]:
        """All that the deployed cascade depends on, its inputs aside; of votes those that the plan of the whole does not tell."""
        stages = [f"{_words(stage)} {_short(json.dumps(_decides(stage, self), sort_keys=True))}" for stage in self]
        chosen = _short(" ".join(map(str, sorted(self.seen)))) if self.seen else None
        return {**super().identity, "stages": stages, "margins": list(self.margins), "margins_chosen_on": chosen}

    def refer_to(self, dataset: Dataset) -> None:
        """Nothing: no noise is chosen for an input, so that no other one is compared with it."""

    def suit(self, shape: Sequence[int]) -> None:
        """Fit the block sizes of all stages to inputs of this shape; noise that is not one for all inputs is refused."""
        if any(stage.noise.per_input(len(shape)) for stage in self):
            raise SettingError("noise with a row per input is frozen at these inputs; give one scale for all inputs")
        super().suit(shape)
        for stage in self:
            stage.suit(shape)

    def probe(self, batch: Batch) -> Tensor:
        """The inputs, checked; a model of any stage that is no fixed function of its row is refused."""
        x = checked(batch.x)
        self.suit(x.shape[1:])
        for at, stage in enumerate(self):
            stage.probe(batch)
            self.probes |= {(at, *shape): probe for shape, probe in stage.probes.items()}
        if not self.classes and len(x):
            self.classes = self.count_classes(x[:1])
        return x

    def count_classes(self, x: Tensor) -> int:
        """How many classes there are beside passing on; refused if the stages do not agree."""
        outputs: list[int] = []
        for stage in self:
            make_fixed(stage.model)
            with torch.inference_mode():
                outputs.append(stage.model(x.to(stage.device)).shape[1])
        if max(outputs) > min(outputs) + 1 or outputs[-1] != min(outputs):
            raise ModelError(
                f"the stages have {', '.join(map(str, outputs))} classes; all must have the same, or one more to pass on for any but "
                "the last: give networks of the same data"
            )
        return outputs[-1]

    def own_facts(self, poll: Poll, dataset: Dataset) -> dict[str, Any]:
        """The votes of every stage that was asked; no noise is that of the whole."""
        assert isinstance(poll, StagePoll)
        tables = tuple((*map(int, votes.counts[0, -1]), int(votes.invalid[0, -1])) for votes in poll.asked)
        return {"law": self.words, "scale": 1.0, "loc": 0.0, "stages": tables}

    def forward(self, x: Tensor) -> Tensor:
        """A cascade has no one table of probabilities to differentiate; ask its stages."""
        raise SettingError(
            "a cascade has no probabilities of its own to differentiate; ask its stages: cascade.stages[0](x)"
        )

    # Votes

    def _tables(self, at: int, batch: Batch, kind: Stage, votes: int) -> list[tuple[Votes, float]]:
        """The votes of one stage on each input of a batch, and the seconds that they took."""
        stage = list(self)[at]
        inquiry = stage.inquiry
        counts = stage.driver.run(inquiry.count(item, kind, np.array([votes])) for item in inquiry.prepared(batch))
        return [(count.votes(), count.seconds / stage.driver.places) for count in counts]

    def polls(self, batches: Iterable[Batch]) -> Iterator[StagePoll]:
        """The votes on each input, in order: of all stages that could matter, batch by batch."""
        for batch in map(self.inquiry.held, batches):
            x = self.probe(batch)
            yield from self._polled(Batch(x, batch.indices))
        for stage in self:
            stage.confirm()

    def _polled(self, batch: Batch) -> list[StagePoll]:
        """The class of each input by selection votes, stage by stage until one accepts; then what bounds it, while it may help."""
        number = len(batch.x)
        labels, seconds = [-1] * number, [0.0] * number
        chosen: list[Votes | None] = [None] * number
        for at, stage in enumerate(self):
            left = [i for i in range(number) if labels[i] < 0]
            tables = self._tables(at, _part(batch, left), Stage.SELECT, stage.select)
            for i, (votes, spent) in zip(left, tables, strict=True):
                labels[i], chosen[i] = self.chosen_class(at, votes), votes
                seconds[i] += spent
        asked: list[list[Votes]] = [[] for _ in range(number)]
        for at, stage in enumerate(self):
            left = [i for i in range(number) if len(asked[i]) == at and self._helps(labels[i], asked[i])]
            tables = self._tables(at, _part(batch, left), Stage.ESTIMATE, stage.plan.trials)
            for i, (votes, spent) in zip(left, tables, strict=True):
                asked[i].append(votes)
                seconds[i] += spent
        found = []
        for i, (index, x) in enumerate(zip(batch.indices, batch.x, strict=True)):
            ballot, worth = Ballot(_aligned(chosen[i], asked[i][0]), asked[i][0]), self._worth_of(x)
            poll = StagePoll(index, x, self.noise, ballot, worth, seconds[i], label=labels[i], asked=tuple(asked[i]))
            found.append(poll)
        return found

    def _worth_of(self, x: Tensor) -> Soundness:
        frozen = bool(self.seen) and known_among(self.seen, x.cpu().numpy(), self.noise.center_of(x))
        return weakest([stage.inquiry.worth(own=frozen) for stage in self])

    def chosen_class(self, at: int, votes: Votes) -> int:
        """The class that these votes would have the stage accept; -1 if it passes on."""
        counts, trials = votes.counts[0, -1], int(votes.trials[0, -1])
        scores = self._scores(at, np.clip(counts / trials, 0.5 / trials, 1 - 0.5 / trials))
        best = int(np.argmax(scores[: self.classes]))
        ahead = 0.5 * (scores[best] - np.delete(scores, best).max())
        return best if at == len(self.stages) - 1 or ahead > self.margins[at] else -1

    def _helps(self, label: int, asked: Sequence[Votes]) -> bool:
        """Could the next stage prove more, and of radii that were asked for one that is open?"""
        if not asked:
            return True
        reach = self.reach(label, asked)
        later = max((self._most(at) for at in range(len(asked), len(self.stages))), default=0.0)
        best, cap = float(reach.radius), min(later, float(np.min(reach.no_other[: len(asked)])))
        return cap > best and (not self.plan.radii or any(best < radius <= cap for radius in self.plan.radii))

    def _most(self, at: int) -> float:
        """How far a stage accepts whose votes all agree."""
        trials = list(self)[at].plan.trials
        counts = np.array([[[trials, *[0] * (self.classes - 1)]]])
        lower, upper, *_ = self._scores(at, np.array(self.bounds(at, 0, Votes(counts, np.zeros((1, 1), dtype=int)))))
        return float(0.5 * (lower - upper) - self.margins[at])

    # From votes to a certificate: numbers only

    def _scores(self, at: int, p: FloatArray) -> FloatArray:
        """scale·F⁻¹(p): what moves by at most the distance that the input moves."""
        noise = list(self)[at].noise
        with np.errstate(divide="ignore"):
            return np.asarray(float(noise.scale.min()) * np.asarray(noise.law.quantile(np.asarray(p, dtype=float))))

    def bounds(self, at: int, label: int, votes: Votes) -> tuple[float, float, float, float]:
        """Of a stage: the label from below, every rival from above, passing from below and from above: all but with its alpha.

        The strongest rival may be named by these votes; those that are no number count for it and for passing.
        """
        counts, trials, lost = votes.counts[0, -1], int(votes.trials[0, -1]), int(votes.invalid[0, -1])
        alpha, passes = self.alphas[at], len(counts) > self.classes
        shares = (alpha / 3, alpha / 3) if passes else (SHARE * alpha, alpha - SHARE * alpha)
        lower = float(lower_bound(counts[label], trials, shares[0]))
        most = int(np.delete(counts[: self.classes], label).max(initial=0))
        upper = float(upper_bound(most + lost, trials, shares[1]))
        low = float(lower_bound(counts[-1], trials, alpha / 6)) if passes else 0.0
        high = float(upper_bound(counts[-1] + lost, trials, alpha / 6)) if passes else 0.0
        return lower, min(upper, 1 - lower - low), low, min(high, 1 - lower)

    def reach(self, label: int, asked: Sequence[Votes]) -> Reach:
        """How far each stage's behaviour is known from these votes; nothing is known of a stage without any."""
        rows = np.tile([-np.inf, np.inf, NO_PASS, np.inf], (len(self.stages), 1))
        for at, votes in enumerate(asked):
            rows[at] = self._scores(at, np.array(self.bounds(at, label, votes)))
        return margin_reach(rows[:, 0], rows[:, 1], self.margins, rows[:, 2], rows[:, 3])

    def conclude(self, poll: Poll) -> Certificate:
        """The certificate that the votes on one input support."""
        assert isinstance(poll, StagePoll)
        reach = self.reach(poll.label, poll.asked)
        radius, best = float(reach.radius), int(np.argmax(reach.by_stage))
        lower, upper, *_ = self.bounds(best, poll.label, poll.asked[best])
        cast = sum(int(votes.trials[0, -1]) for votes in poll.asked)
        bound = Bound(lower, self.plan.alpha, cast, upper)
        if not radius > 0:
            return Certificate(None, bound, None, poll.soundness)
        region = Region(poll.noise.center_of(poll.x), np.array(1.0), radius, self.norm)
        rule = f"stage {best + 1} of {len(self.stages)} accepts, those before it accept the same or pass on (decisions compose)"
        return Certificate(poll.label, bound, region, poll.soundness, rule)

    def walk(self, votes_of: Callable[[int], Votes], alpha: float) -> frozenset[int]:
        """Every class that the cascade may answer, given fresh votes of the stages that can be reached: but with alpha."""

        def scores() -> Iterator[StageScores]:
            for at in range(len(self.stages)):
                votes = votes_of(at)
                counts, trials, lost = votes.counts[0, -1], votes.trials[0, -1], votes.invalid[0, -1]
                each = alpha / (2 * len(self.stages) * len(counts))
                low = self._scores(at, lower_bound(counts, trials, each))
                high = self._scores(at, upper_bound(counts + lost, trials, each))
                passing = (float(low[-1]), float(high[-1])) if len(counts) > self.classes else (NO_PASS, NO_PASS)
                yield StageScores(low[: self.classes], high[: self.classes], *passing)

        return possible_answers(scores(), self.margins)

    def _vote(self, batch: Batch, votes: int | None) -> list[int | None]:
        """The one class that the cascade can answer at each input; None where fresh votes leave several."""
        x = self.probe(batch)
        return [self._answer(Batch(x[at : at + 1], [index]), votes) for at, index in enumerate(batch.indices)]

    def _answer(self, one: Batch, votes: int | None) -> int | None:
        """The class of one input, None if several are possible."""

        def votes_of(at: int) -> Votes:
            return self._tables(at, one, Stage.PREDICT, votes or list(self)[at].select)[0][0]

        possible = self.walk(votes_of, self.plan.alpha)
        return next(iter(possible)) if len(possible) == 1 else None


def _aligned(votes: Votes | None, first: Votes) -> Votes:
    """The selection votes of the stage that chose the class, in the columns of the first stage."""
    assert votes is not None
    width = first.counts.shape[-1]
    counts = votes.counts[..., :width]
    counts = np.pad(counts, [(0, 0), (0, 0), (0, width - counts.shape[-1])])
    return Votes(counts, votes.trials - counts.sum(axis=-1))


def _words(stage: Smoother) -> str:
    return f"{stage.noise.law} {float(stage.noise.scale.min()):.3g}"


def _decides(stage: Smoother, whole: Smoother) -> list[Any]:
    # The block of the first stage is in the plan of the whole, fitted to the inputs or as a run that goes on is told it.
    block = "of the whole" if stage.engine.block == whole.engine.block else stage.engine.block
    return [stage.identity, stage.select, stage.plan.trials, block, stage.engine.shared_noise]


def _short(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _part(batch: Batch, chosen: Sequence[int]) -> Batch:
    return Batch(batch.x[list(chosen)], [batch.indices[i] for i in chosen])


def _fingerprints(data: Any, noise: Noise) -> Iterator[int]:
    """Every input of a batch or a data set, as it is given and as a certificate means it."""
    for x in _inputs_of(data):
        yield fingerprint_of(x.cpu().numpy())
        with suppress(InputError):  # off the grid, where nothing is certified
            yield fingerprint_of(noise.center_of(x))


def _inputs_of(data: Any) -> Iterable[Tensor]:
    if is_batch(data):
        return checked(data if isinstance(data, Tensor) else np.asarray(data))
    dataset = as_dataset(data)
    return (torch.from_numpy(dataset.inputs([index])[0]) for index in range(len(dataset)))


def _has_score(law: Law, norm: float) -> bool:
    """Does scale·F⁻¹(p) move by at most the distance, in this norm?"""
    return (law.title == "gaussian" and norm == 2) or (law.log_concave and norm == 1)


def _check_stages(stages: Sequence[Smoother]) -> None:
    """Refuse what is no cascade: too few stages, noise of an input's own, views, a front, another norm or domain, or the wrong order."""
    if len(stages) < 1 or any(type(stage) is not Smoother for stage in stages):
        raise SettingError("a cascade is a list of one or more sc.Smoother, the most noise first")
    first = stages[0]
    for at, stage in enumerate(stages, start=1):
        noise = stage.noise
        more = (isinstance(noise, Sight), not isinstance(stage.tuner, FixedNoise), stage.memory, stage.front)
        if any(each not in (False, None) for each in more):
            raise SettingError(
                f"stage {at} has views, a tuner, a memory or a front; a cascade is of fixed noise on inputs: give sc.Noise alone"
            )
        if not _has_score(noise.law, stage.norm):
            raise SettingError(
                f"stage {at} has {noise.law} noise in l{stage.norm:g}; scores are known for gaussian noise in l2 and log-concave noise "
                "(laplace, uniform, gaussian) in l1"
            )
        if (stage.norm, noise.domain) != (first.norm, first.noise.domain):
            raise SettingError(
                f"stage {at} is certified in l{stage.norm:g} on {noise.domain}, the first in l{first.norm:g} on {first.noise.domain}; "
                "give all stages one norm and one grid"
            )
        if stage.engine.executor != "threads":
            raise SettingError(
                f"stage {at} votes on {stage.engine.executor}; a cascade votes on threads: leave executor out"
            )
    scales = [float(stage.noise.scale.min()) for stage in stages]
    if scales != sorted(scales, reverse=True):
        raise SettingError(f"the scales are {scales}; put the stage with most noise first, and the least last")
