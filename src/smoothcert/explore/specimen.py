"""One input of a run with all that was certified of it, and what the classifier says around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from smoothcert.asks import Noisy, Viewed, winners
from smoothcert.attacks.viewed import check_views
from smoothcert.errors import InputError
from smoothcert.estimators.bounds import leads
from smoothcert.execution.counts import Count
from smoothcert.laws import law_named
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.noise import Noise
from smoothcert.polling import make_fixed
from smoothcert.records.findings import Finding
from smoothcert.records.record import Arrays, Record, certificate_of, region_of, value_of
from smoothcert.seeds import Stage, draws_for
from smoothcert.sight import Sight
from smoothcert.smoother import Smoother
from smoothcert.threats import ReplacedRegion, Threat

SEARCHED, FRESH = (
    2_000,
    1_000,
)  # evaluations in the search for the worst places, and sampled views that judge what it found

BLIND = 100.0  # times the least: as far as a coordinate is said to go that a front does not see


@dataclass(frozen=True, eq=False)
class Answer:
    """What the smoothed classifier said at a point: label None where the votes cannot tell."""

    label: int | None
    counts: list[int]
    invalid: int


class Specimen:
    """An input, its record, the region that was certified and the noise or the views it was certified with.

    A point is asked with the draws that ``predict`` uses for this index, never with those of the certificate.
    """

    def __init__(
        self, record: Record, smoother: Smoother, x: Tensor, store: Arrays, worst: Finding | None = None
    ) -> None:
        make_fixed(smoother.model)
        self.record, self.smoother, self.x, self.worst = record, smoother, x, worst
        self.shape = tuple(x.shape)
        self.behind = tuple(smoother.encoded(x[None]).shape[1:])  # what the noise is laid on
        self.noise = smoother.noise
        if not isinstance(self.noise, Sight):
            scale, loc = (value_of(parameter, store) for parameter in (record.scale, record.loc))
            self.noise = self.noise.shaped(scale, loc, law_named(record.law))
        self.center = smoother.center_of(x)
        self.region = region_of(record, self.center, store)

    @property
    def index(self) -> int:
        """The number of the input in its data set."""
        return self.record.index

    def get(self, address: str) -> FloatArray:
        """The array of its own scale or of the front, which is all that judging its votes again asks for."""
        if address == self.record.front:
            assert self.smoother.front is not None
            return self.smoother.front.matrix
        assert address == self.record.scale
        return np.asarray(self.noise.scale.cpu().numpy())

    @cached_property
    def scale(self) -> FloatArray:
        """The noise's scale in every coordinate; behind a front, how far each alone may go in a region of radius 1."""
        scale = self.noise.scale.cpu().numpy()
        if self.smoother.front is None:
            return np.broadcast_to(scale, self.shape)
        matrix = self.smoother.front.matrix
        shaped = LinearRegion.behind(self.center, matrix, scale, 1.0, self.record.norm)
        reach = 1.0 / np.maximum(shaped.gauges(np.eye(self.center.size)), 1e-12)
        return np.asarray(np.minimum(reach, BLIND * reach.min()).reshape(self.shape))

    def point(self, offset: FloatArray) -> FloatArray:
        """The input moved by this much, as the classifier gets it: in float32, or on the nearest grid point."""
        if offset.size != self.center.size or not np.isfinite(offset).all():
            raise InputError(
                f"a perturbation of input {self.index} needs {self.center.size} finite numbers; got {offset.size}"
            )
        moved = self.center + offset.reshape(self.shape)
        levels, box = self.smoother.points_lie
        if levels is not None:
            return np.asarray(np.rint(moved * levels) / levels)
        # Inputs outside a front's box are refused; at its walls the nearest inside is shown.
        within = moved if box is None or self.smoother.front is None else np.clip(moved, box.low, box.high)
        return within.astype(np.float32).astype(float)

    def certified(self, point: FloatArray) -> FloatArray:
        """What a memory knows a point by: itself, or its numbers behind a front."""
        if self.smoother.front is None:
            return point
        return self.noise.center_of(self.smoother.encoded(torch.from_numpy(point.astype(np.float32))[None])[0])

    def copies(self, number: int) -> tuple[Tensor, list[int | None]]:
        """The first noisy copies that voted on the class, or some of all views, and the base classifier's answer to each."""
        pollster = self.smoother.pollster
        drawn = self.drawn(number if self.smoother.aim.complete else pollster.block, Stage.SELECT)
        copies = self.seen(self.x, drawn)
        with torch.inference_mode():
            votes = self.votes_of(pollster.classify(copies)[:number]).tolist()
        return copies[:number].cpu(), [None if vote < 0 else vote for vote in votes]

    def drawn(self, number: int, stage: Stage) -> Tensor:
        """What so many copies of any point are made from: the first draws of a stage, or views evenly spaced among all."""
        smoother = self.smoother
        if isinstance(self.noise, Sight) and smoother.aim.complete:
            return self.noise.spread(number, self.shape, smoother.device)
        key = 0 if smoother.driver.shared_noise else self.index
        draws = draws_for(smoother.seed, key, stage, 0, dtype=self.noise.sampling_dtype, device=smoother.device)
        return self.noise.draw(number, self.behind, draws)

    def seen(self, x: Tensor, drawn: Tensor) -> Tensor:
        """The copies of a point that such draws make."""
        behind = self.smoother.encoded(x[None])[0].to(self.smoother.device)
        return self.noise.placer(behind)(drawn, torch.empty_like(drawn))

    def votes_of(self, logits: Tensor) -> Tensor:
        """The class that each row votes for; -1 for nobody: no numbers, or a view that is not sure enough."""
        found = winners(logits, self.smoother.aim.confidence)
        return found.where(found < logits.shape[1], -1)

    def ask(self, point: FloatArray, votes: int, *, anew: bool = False) -> Answer:
        """The smoothed classifier's answer at a point, with this input's noise, or with the noise chosen anew there."""
        x = self.smoother.encoded(torch.from_numpy(point.astype(np.float32)).reshape(1, *self.shape))[0]
        noise = self._chosen(x) if anew else self.noise
        smoother = self.smoother
        scene = (Viewed if isinstance(noise, Sight) else Noisy)(x.to(smoother.device), noise)
        every = smoother.aim.views(self.shape)  # where all views are asked there is nothing to choose
        count = Count(self.index, Stage.PREDICT, scene, np.array([every or votes]), smoother.plan.block)
        [table] = [done.votes() for done in smoother.driver.run([count])]
        label = int(table.leaders()[0]) if every or leads(table, smoother.plan.alpha)[0] else None
        return Answer(label, table.counts[0, -1].tolist(), int(table.invalid[0, -1]))

    def worst_of_size(self, size: int) -> FloatArray:
        """The offset to the worst point that a search finds among those of a threat of this size."""
        record, against = self.record, self.smoother.aim.against
        assert isinstance(against, Threat)
        region = ReplacedRegion(self.center, against.resized(min(size, against.most(self.shape))))
        claim = replace(certificate_of(record, self.center, self), label=record.leader, region=region)
        alpha = self.smoother.plan.alpha
        return check_views(claim, self.smoother, self.x, self.index, SEARCHED, FRESH, alpha).offset

    def _chosen(self, x: Tensor) -> Noise:
        """The noise that the deployed classifier uses at a point, given as it sees it."""
        smoother = self.smoother
        return smoother.tuner.choose(smoother, x[None], smoother.noise, [self.index]).row(0, self.behind, 1)
