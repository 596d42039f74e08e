"""Try to break a certificate of views: all views are asked at the points that look worst, so the verdict is exact too."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from itertools import islice

import numpy as np
import torch

from smoothcert.asks import Viewed
from smoothcert.attacks.candidates import candidates
from smoothcert.attacks.verdict import broken
from smoothcert.certificates import Certificate
from smoothcert.errors import SettingError
from smoothcert.execution.counts import Count
from smoothcert.laws import NumpyDraws
from smoothcert.maths import FloatArray, IntArray
from smoothcert.records.findings import Attempt, Finding, worst_of
from smoothcert.regions import Region
from smoothcert.seeds import Stage, entropy_for, generator_for
from smoothcert.sight import Sight
from smoothcert.smoother import Smoother
from smoothcert.threats import ReplacedRegion

SCREENED = 60  # views that are asked at a point before all of them are
FINALISTS = 2  # points of each search at which all views are asked
DRAWS = 64  # views in a gradient


def check_views(
    certificate: Certificate,
    smoother: Smoother,
    x: torch.Tensor,
    index: int,
    budget: int,
    votes: int,
    alpha: float,
    times: float = 1.0,
) -> Finding:
    """All searches on one certificate of views, at ``times`` its size.

    Where all views are asked a violation is certain. Sampled views vote anew, ``votes`` of them at each of the points that
    the searches chose, and a rival must lead except with probability alpha in all.
    """
    assert isinstance(certificate.region, Region | ReplacedRegion)
    assert certificate.label is not None
    region = _resized(certificate.region, times)
    ground = _Ground(smoother, x, index, certificate.label)
    chance = np.random.default_rng(entropy_for(smoother.seed, index, Stage.ATTACK, 0))
    searches = candidates(region, ground.sight.view.grid, ground.slope(), chance)
    share = alpha / (FINALISTS * len(searches))
    tried = []
    for name, points in searches.items():
        for point in ground.weakest(points, budget):
            if not region.contains(point):
                raise SettingError(f"the search {name} left the region; this is a bug of the search")
            tried.append((ground.judged(name, point, region, votes, share), point))
    worst = worst_of([attempt for attempt, _ in tried])
    found = next(point for attempt, point in tried if attempt is worst)
    return Finding(
        index=index,
        label=certificate.label,
        soundness=certificate.soundness,
        times=times,
        radius=_size(certificate.region) * times,
        norm=certificate.region.norm,
        certificate_alpha=certificate.bound.alpha,
        alpha=0.0 if certificate.exact else alpha,
        attempts=tuple(attempt for attempt, _ in tried),
        offset=found - np.asarray(certificate.region.center, dtype=float),
        shared_noise=False,
    )


class _Ground:
    """One input, and how its label does at points around it."""

    def __init__(self, smoother: Smoother, x: torch.Tensor, index: int, label: int) -> None:
        assert isinstance(smoother.noise, Sight)
        self.smoother, self.sight, self.x, self.index, self.label = smoother, smoother.noise, x, index, label
        self.shape = tuple(x.shape)
        smoother.suit(self.shape)
        self.views = self.sight.view.count(self.shape)

    def slope(self) -> FloatArray:
        """The gradient of the label's lead over its best rival, averaged over some views, in the input."""
        x = self.x.to(self.smoother.device).expand(DRAWS, *self.shape).clone().requires_grad_()
        chance = generator_for(self.smoother.seed, self.index, Stage.ATTACK, 2, device=x.device)
        chances = self.smoother.model(self.sight.noisy(x, chance)).softmax(dim=1).mean(dim=0)
        if not chances.requires_grad:
            return np.random.default_rng(0).normal(size=self.shape)  # no gradient: any direction
        rivals = torch.cat([chances[: self.label], chances[self.label + 1 :]])
        (found,) = torch.autograd.grad(chances[self.label] - rivals.max(), x)
        return np.asarray(found.sum(dim=0).double().cpu().numpy())

    def weakest(self, points: Iterable[FloatArray], budget: int) -> list[FloatArray]:
        """Those of the points at which the label has least of a few views, the same at all points."""
        few = min(SCREENED, self.views)
        every = list(islice(points, max(1, budget // few)))
        lenses = self._few(few)
        leads = [self._lead(point, lenses) for point in every]
        return [every[at] for at in np.argsort(leads, kind="stable")[:FINALISTS]]

    def _few(self, number: int) -> torch.Tensor:
        device = self.smoother.device
        if not self.sight.view.complete:
            chance = np.random.default_rng(entropy_for(self.smoother.seed, self.index, Stage.ATTACK, 1))
            return torch.as_tensor(self.sight.view.drawn(self.shape, number, NumpyDraws(chance)), device=device)
        return self.sight.spread(number, self.shape, device)

    @torch.inference_mode()
    def _lead(self, point: FloatArray, lenses: torch.Tensor) -> float:
        seen = self.sight.placer(self._tensor(point))(lenses, torch.empty(0))
        chances = self.smoother.model(seen).softmax(dim=1).mean(dim=0)
        others = torch.cat([chances[: self.label], chances[self.label + 1 :]])
        return float(chances[self.label] - others.max())

    def _tensor(self, point: FloatArray) -> torch.Tensor:
        return torch.from_numpy(point.astype(np.float32)).to(self.smoother.device)

    def judged(
        self, name: str, point: FloatArray, region: Region | ReplacedRegion, votes: int, alpha: float
    ) -> Attempt:
        """What the deployed classifier answers at a point: by all views, or by fresh ones."""
        gauge = region.gauge(point) if isinstance(region, Region) else float(_size(region))
        number = self.views if self.sight.view.complete else votes
        table = self._counted(point, number)
        ours, rest = int(table[self.label]), np.delete(table, self.label)
        rival = int(np.delete(np.arange(len(table)), self.label)[rest.argmax()])
        theirs = int(table[rival])
        if self.sight.view.complete:
            violated = int(table.argmax()) != self.label
        else:  # the rival is the largest of several: each may lead by chance
            violated = broken(ours, theirs, alpha / max(1, len(rest)))
        return Attempt(name, gauge, rival, ours / number, theirs / number, number, violated)

    def _counted(self, point: FloatArray, number: int) -> IntArray:
        """The votes for each class at a point, through the engine that certifies."""
        scene, block = Viewed(self._tensor(point), self.sight), self.smoother.plan.block
        key = self.index if self.sight.view.complete else (self.index << 32) | zlib.crc32(point.tobytes())
        (count,) = self.smoother.driver.run([Count(key, Stage.VERDICT, scene, np.array([number]), block)])
        return np.asarray(count.votes().counts[0, -1])


def _size(region: Region | ReplacedRegion) -> float:
    return region.radius if isinstance(region, Region) else region.inner_radius


def _resized(region: Region | ReplacedRegion, times: float) -> Region | ReplacedRegion:
    """The region ``times`` as large; a threat's size is a whole number, and beyond its own it is larger by one at least."""
    if isinstance(region, Region):
        return region.resized(region.radius * times)
    size = math.floor(region.size * times + 1e-9)
    larger = max(size, region.size + 1) if times > 1 else size
    return ReplacedRegion(
        region.center, region.threat.resized(min(larger, region.threat.most(np.shape(region.center))))
    )
