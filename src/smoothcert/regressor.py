"""Numbers instead of classes: the median of a model's answers under noise, and between which two numbers it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.asks import Measured
from smoothcert.certificates import Ballot, target_of
from smoothcert.data.base import Dataset
from smoothcert.engine import Engine
from smoothcert.errors import SettingError
from smoothcert.estimators import Target
from smoothcert.estimators.bounds import Bound
from smoothcert.execution.counts import Gathered
from smoothcert.intervals import IntervalCertificate, check_reach, enclosed
from smoothcert.maths import FloatArray
from smoothcert.models.adapters import as_regressor
from smoothcert.noise import Noise
from smoothcert.plan import Voting
from smoothcert.regions import Region
from smoothcert.seeds import Stage
from smoothcert.smoother import Batch, Poll, Smoother
from smoothcert.votes import Votes

RULE = "median of the answers (Chiang et al. 2020), ranks by exact binomials"
SHARES = (0.25, 0.5, 1.0)  # of the least scale: the radii if none are given


@dataclass(frozen=True, eq=False)
class Sample(Poll):
    """All that the model answered about one input."""

    numbers: FloatArray = field(default_factory=lambda: np.zeros(0))


class SmoothedRegressor(Smoother):
    """The median of what the model answers under noise, one number per input, with a certified interval for each radius.

    Any law serves that has a radius for one class, in any norm. radii: plain ones, in the units of the input; by default a
    quarter, half and one times the least scale. The intervals of one input hold together, each with its share of alpha. bounds:
    the model's answers are clipped to these, so that intervals end there; without them a radius that needs more votes is
    refused. An answer that is no number counts against both ends.

    >>> smoothed = SmoothedRegressor(lambda x: x.sum(dim=1), Noise.isotropic("gaussian", 0.1), radii=[0.1], estimate=1_000)
    >>> certificate, = smoothed.certify(torch.ones(1, 4))
    >>> interval, = certificate.intervals
    >>> interval.contains(3.8) and interval.contains(4.2), certificate.soundness.value  # the sum moves by 0.1·√4
    (True, 'global')
    """

    is_plain = False

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        noise: Noise,
        norm: float | str = Voting.norm,
        *,
        radii: float | Sequence[float] = (),
        bounds: tuple[float, float] | None = None,
        estimate: int = Voting.trials,
        alpha: float = Voting.alpha,
        seed: int = Voting.seed,
        engine: Engine | None = None,
        identity: str | None = None,
        check: bool = Voting.check,
        own_randomness: bool = Voting.own_randomness,
    ) -> None:
        if not isinstance(noise, Noise):
            raise SettingError(f"{noise!r} is no Noise; intervals of numbers are certified under noise, not by views")
        clipped = _checked_bounds(bounds)
        given = np.atleast_1d(np.asarray(radii, dtype=float))
        chosen = given.tolist() if given.size else [share * float(noise.scale.min()) for share in SHARES]
        super().__init__(
            as_regressor(model, clipped),
            noise,
            norm,
            estimate=estimate,
            alpha=alpha,
            estimator="fixed:rivals=rest",
            radii=chosen,
            seed=seed,
            engine=engine,
            identity=identity,
            check=check,
            own_randomness=own_randomness,
        )
        self.bounds = clipped

    @property
    def identity(self) -> dict[str, Any]:
        """All that the deployed regressor depends on, its inputs and the votes aside."""
        return {**super().identity, "task": "regression", "bounds": None if self.bounds is None else list(self.bounds)}

    def suit(self, shape: Sequence[int]) -> None:
        """Fit the block size to inputs of this shape; noise that is not one for all inputs is refused."""
        if self.noise.per_input(len(shape)):
            raise SettingError(
                "noise with a row per input is frozen at these inputs, and says nothing of the number that is deployed; give one scale for "
                "all inputs"
            )
        super().suit(shape)

    def reach(self, shape: Sequence[int]) -> None:
        """Refuse radii at which no number of votes like these gives an interval."""
        if self.bounds is None:
            check_reach(self._target(shape), self.plan.radii, self.plan.trials, self.share)

    @property
    def share(self) -> float:
        """Of alpha: what one end of one interval may spend."""
        return self.plan.alpha / (2 * len(self.plan.radii))

    def truths_of(self, dataset: Dataset, indices: Sequence[int]) -> list[int | None]:
        """None: numbers have no classes."""
        return [None] * len(indices)

    def count_classes(self, x: Tensor) -> None:
        """None: numbers have no classes."""

    def own_facts(self, poll: Poll, dataset: Dataset) -> dict[str, Any]:
        """The number that is to be compared with."""
        return {"target": dataset.targets([poll.index])[0]}

    def forward(self, x: Tensor) -> Tensor:
        """The median over ``forward_draws`` noisy copies, differentiable in x: (batch,)."""
        draws = [self.model(self.noise.noisy(x))[:, 1] for _ in range(self.forward_draws)]
        return torch.stack(draws).median(dim=0).values

    def certify(self, x: Any, first_index: int = 0) -> list[IntervalCertificate]:  # type: ignore[override]
        """One certificate per input, whose intervals hold together except with probability alpha."""
        return [self.conclude(poll) for poll in self.polls(self._batches(x, first_index))]

    def predict(self, x: Tensor, first_index: int = 0, *, votes: int | None = None) -> list[IntervalCertificate]:  # type: ignore[override]
        """The smoothed number of each input, as a certificate whose one interval, of radius 0, holds it but with probability alpha."""
        batch = Batch(x, range(first_index, first_index + len(x)))
        return [self._concluded(poll, (0.0,)) for poll in self._asked([batch], Stage.PREDICT, votes or self.select)]

    def polls(self, batches: Iterable[Batch]) -> Iterator[Sample]:
        """The answers about each input, in order."""
        yield from self._asked(map(self._reached, batches), Stage.ESTIMATE, self.plan.trials)
        self.confirm()

    def _reached(self, batch: Batch) -> Batch:
        self.reach(batch.x.shape[1:])
        return batch

    def _asked(self, batches: Iterable[Batch], stage: Stage, votes: int) -> Iterator[Sample]:
        asked = {}

        def counts() -> Iterator[Gathered]:
            for batch in map(self.inquiry.held, batches):
                for item in self.inquiry.prepared(batch):
                    asked[item.index] = item
                    scene = Measured(item.x.to(self.device), item.noise)
                    yield Gathered(item.index, stage, scene, np.array([votes]), self.plan.block)

        for count in self.driver.run(counts()):
            assert isinstance(count, Gathered)
            item, numbers = asked.pop(count.index), count.numbers
            lost = int(np.isnan(numbers).sum())
            votes_cast = Votes(np.array([[[len(numbers) - lost]]]), np.array([[lost]]))
            ballot = Ballot(Votes(0 * votes_cast.counts, 0 * votes_cast.invalid), votes_cast)
            seconds = count.seconds / self.driver.places
            yield Sample(item.index, item.x, item.noise, ballot, item.soundness, seconds, numbers=numbers)

    def conclude(self, poll: Poll) -> IntervalCertificate:
        """The intervals that the answers about one input support."""
        assert isinstance(poll, Sample)
        return self._concluded(poll, self.plan.radii)

    def _concluded(self, poll: Sample, radii: Sequence[float]) -> IntervalCertificate:
        target, numbers = self._target(poll.x.shape), poll.numbers
        intervals = enclosed(numbers, target, radii, self.plan.alpha, self.bounds)
        scale, known = self.noise.scale.cpu().numpy().copy(), numbers[~np.isnan(numbers)]
        region = Region(poll.noise.center_of(poll.x), scale, max(radii) / float(scale.min()), self.norm)
        value = float(np.median(known)) if len(known) else float("nan")
        bound = Bound(0.0, self.plan.alpha, len(numbers))
        return IntervalCertificate(None, bound, region, poll.soundness, RULE, value, intervals)

    def _target(self, shape: Sequence[int]) -> Target:
        scale = self.noise.scale.cpu().numpy()
        return target_of(self.noise.law, self.norm, tuple(shape), scale, self.noise.box)

    def elsewhere(self) -> Callable[[], Smoother]:
        """What makes the same regressor in a process that this is sent to."""
        shared = self._shared_elsewhere
        return partial(SmoothedRegressor, self.model.model, self.noise, self.norm, bounds=self.bounds, **shared)


def _checked_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = map(float, bounds)
    if not -np.inf < low < high < np.inf:
        raise SettingError(f"bounds={bounds} must be two finite numbers, the lower first; try bounds=(0, 1)")
    return low, high
