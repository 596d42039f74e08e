"""What is attacked: one certificate, and the predictor that is deployed, with the noise chosen again at every query."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from smoothcert.certificates import Certificate, Soundness
from smoothcert.errors import InputError, ModelError, SettingError
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.projections import check_projectable, project, snap, to_boundary, to_boundary_in_box
from smoothcert.memory.memory import Memory
from smoothcert.noise import Noise, nearest_on_grid
from smoothcert.polling import in_blocks, rows_per_call
from smoothcert.regions import Region
from smoothcert.seeds import Stage, draws_for, entropy_for, generator_for
from smoothcert.smoother import Smoother

SHARP = 30.0  # a gap between logits beyond which the gradient of a softmax in float32 is lost
HUGE = 1e30  # logits that are infinite
TINY = 1e-6  # relative; a point in float32 must lie inside the region exactly


class Victim:
    """A certificate under attack: where perturbations may lie, and how the deployed predictor does there.

    The predictor asks the memory first, unless the certificate is ``global`` and so claims to hold without one. Then
    the tuner chooses the noise at the point itself, and the classifier votes. A tuner that asks the classifier pays for
    it from the budget: at most half of the evaluations go there, and between its choices the last one is used; the
    verdict always chooses anew. On the pixel grid every point is on the grid.
    """

    def __init__(
        self, certificate: Certificate, smoother: Smoother, x: Tensor, index: int, memory: Memory | None, times: float
    ) -> None:
        assert isinstance(certificate.region, Region | LinearRegion)
        assert certificate.label is not None
        check_projectable(certificate.region.norm)
        self.smoother, self.x, self.index, self.label = smoother, x, index, certificate.label
        self.shape = tuple(x.shape)
        self.seen = tuple(smoother.encoded(x[None]).shape[1:])  # what the noise is laid on
        smoother.suit(self.seen)
        if smoother.noise.per_input(len(self.seen)):
            raise SettingError(
                "noise with a row for each input says nothing about other points, so there is no predictor to attack; "
                "give the smoother a tuner that chooses it, or attack each input with a smoother of its own noise"
            )
        self.memory = None if certificate.soundness is Soundness.GLOBAL else memory
        self.region: Region | LinearRegion = certificate.region.resized(certificate.region.radius * times)
        self.center = np.asarray(self.region.center, dtype=float).ravel()
        self.scale = _units(self.region)
        start = smoother.center_of(x).ravel()
        if start.shape != self.center.shape or not np.allclose(start, self.center, rtol=0, atol=1e-6):
            raise InputError(
                f"the input {index} is not the center of its certificate; give the inputs that were certified, in order"
            )
        self.levels, box = smoother.points_lie
        # Outside the box there is nothing to find: the classifier sees the nearest point of it, or a front refuses it.
        self.walls = None if box is None else _walls(box, self.center)
        self.evaluations = self.tuning = self._blocks = self._slot = self._price = 0
        self._noise: Noise | None = None

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.center.size

    def begin(self, name: str) -> np.random.Generator:
        """Start an attack: it gets its own draws, keyed by its name, and the budget is counted from zero."""
        self._slot, self._blocks = zlib.crc32(name.encode()), 0
        self.evaluations = self.tuning = 0
        return np.random.default_rng(entropy_for(self.smoother.seed, self.index, Stage.ATTACK, self._slot))

    # Where perturbations may lie

    def inside(self, offsets: FloatArray) -> FloatArray:
        """The nearest legal perturbations: in the region, on the grid if there is one, (points, dim)."""
        if isinstance(self.region, LinearRegion):
            return self._legal(self.region.project(offsets))
        return self._legal(project(offsets, self.scale, self.region.radius, self.region.norm))

    def nearest(self, units: FloatArray) -> FloatArray:
        """The nearest perturbations of the region in units of scale, where steps are measured, on the grid or not."""
        if isinstance(self.region, LinearRegion):
            return self.region.project(units * self.scale) / self.scale
        return project(units, 1.0, self.region.radius, self.region.norm)

    def stretched(self, directions: FloatArray) -> FloatArray:
        """Each direction rescaled to the region's boundary (as UniCR 2022, D.2, rescales attacks), and made legal."""
        radius = self.region.radius
        if self.walls is None:
            return self._legal(to_boundary(directions, self.region.gauges, radius))
        return self._legal(to_boundary_in_box(directions, self.walls, self.region.gauges, radius))

    def gauge(self, offset: FloatArray) -> float:
        """How far the point that the classifier gets is from the center, in units of scale; exact."""
        return self.region.gauge(self._exact(self.points(offset[None]))[0].reshape(np.shape(self.region.center)))

    def _legal(self, offsets: FloatArray) -> FloatArray:
        offsets = np.where(np.isfinite(offsets), offsets, 0.0)
        offsets = offsets if self.walls is None else np.clip(offsets, *self.walls)
        if self.levels is not None and isinstance(self.region, Region):
            radius = self.region.radius * (1 - 1e-12)  # a difference of two grid points is rounded
            return snap(offsets, self.scale, radius, self.region.norm, self.levels)
        # The sum x + offset is rounded to float32 or to the grid, which may push it out: shrink until it does not.
        legal, margin = offsets, TINY
        for _ in range(24):
            reached = self.region.gauges(self._exact(self.points(legal)) - self.center)
            outside = reached > self.region.radius
            if not np.any(outside):
                return legal
            legal = np.where(outside[:, None], offsets * (1 - margin), legal)
            margin = min(1.0, 2 * margin)
        return np.where(outside[:, None], 0.0, legal)

    def points(self, offsets: FloatArray) -> Tensor:
        """The inputs that the classifier gets, float32, (points, *event)."""
        moved = self.center + offsets
        if (
            self.smoother.front is not None and self.walls is not None
        ):  # a search may ask outside, where a front refuses
            moved = self.center + np.clip(offsets, *self.walls)
        if self.levels is not None:
            moved = np.rint(moved * self.levels) / self.levels
        return torch.from_numpy(moved.astype(np.float32)).reshape(len(offsets), *self.shape)

    def _exact(self, points: Tensor) -> FloatArray:
        """The points as a certificate means them."""
        flat = points.flatten(1).double().numpy()
        return flat if self.levels is None else np.rint(flat * self.levels) / self.levels

    # How the deployed predictor does there

    def promised(self, point: Tensor) -> int | None:
        """What the memory answers at a point, if there is one."""
        if self.memory is None:
            return None
        if self.smoother.front is None:
            return self.memory.answer(self._exact(point[None])[0])
        return self.memory.answer(self.smoother.noise.center_of(self.smoother.encoded(point[None])[0]))

    def chosen(self, points: Tensor) -> list[Noise]:
        """The noise that the tuner chooses at each point, exactly as when it is deployed; with gradients if points ask."""
        smoother, number = self.smoother, len(points)
        with torch.enable_grad():  # a tuner may climb by gradients of its own
            noise = smoother.tuner.choose(smoother, smoother.encoded(points), smoother.noise, [self.index] * number)
        if not noise.per_input(len(self.seen)):
            rows = [noise.row(0, self.seen, 1)] * number
        else:
            rows = [noise.row(at, self.seen, number) for at in range(number)]
        return rows if points.requires_grad else [_detached(row) for row in rows]

    def _affordable(self, points: Tensor) -> list[Noise]:
        """The noise chosen at each point; where that would cost more than half of the evaluations, the last choice."""
        if self._noise is None:  # at the input, to learn what a choice costs
            with self._counted():
                self._noise = self.chosen(self.x[None])[0]
            self._price, self.evaluations = self.evaluations, 0
        if self._price and 2 * (self.tuning + self._price * len(points)) > self.evaluations:
            return [self._noise] * len(points)
        with self._counted():  # a tuner that votes has no gradient to give
            noises = self.chosen(points.detach() if self._price else points)
        self.tuning += self._price * len(points)
        self._noise = _detached(noises[-1])
        return noises

    @torch.no_grad()
    def leads(self, offsets: FloatArray, votes: int) -> FloatArray:
        """The label's lead over its strongest rival, in mean probability and in votes, (points, 2).

        All points meet the same draws. One that the memory answers has all of its votes there.
        """
        points, self._blocks = self.points(offsets), self._blocks + 1
        promised = [self.promised(point) for point in points]
        rows = np.array([[1.0 if label == self.label else -1.0] * 2 for label in promised])
        asked = [at for at, label in enumerate(promised) if label is None]
        drawn: tuple[Noise | None, Tensor] = (None, torch.empty(0))
        seen = self.smoother.encoded(points)
        for at, noise in zip(asked, self._affordable(points[asked]) if asked else [], strict=True):
            if noise is not drawn[0]:
                drawn = (noise, self._drawn(noise, votes))
            copies = noise.placer(seen[at].to(self.smoother.device))(drawn[1], torch.empty_like(drawn[1]))
            chances = self._probabilities(copies)
            won = torch.nn.functional.one_hot(chances.argmax(dim=1), chances.shape[1]).double()
            rows[at] = lead(chances.double().mean(dim=0), self.label), lead(won.mean(dim=0), self.label)
        return rows

    def margins(self, offsets: FloatArray, votes: int) -> FloatArray:
        """Both leads together: votes decide, and where they all agree the probabilities still tell which way to go."""
        return np.asarray(self.leads(offsets, votes).sum(axis=1))

    def _drawn(self, noise: Noise, votes: int) -> Tensor:
        device, block = self.smoother.device, self._slot + self._blocks
        dtype = noise.sampling_dtype
        draws = draws_for(self.smoother.seed, self.index, Stage.ATTACK, block, dtype=dtype, device=device)
        return noise.draw(votes, self.seen, draws)

    def gradients(self, offsets: FloatArray, draws: int) -> tuple[FloatArray, FloatArray]:
        """The loss −log(mean probability of the label over the draws) at each offset, and its gradient, (points, dim).

        Gradients flow through the tuner's choice where it has any (Salman et al. 2019 for fixed noise). Where the logits are
        so far apart that float32 would lose the gradient, it is that of the logits divided by a constant.
        """
        points = self.points(offsets).to(self.smoother.device).requires_grad_()
        loss = -self._expected(points, draws)[:, self.label].clamp_min(1e-30).log()
        slope = torch.autograd.grad(loss.sum(), points, allow_unused=True)[0] if loss.requires_grad else None
        if slope is None:
            raise ModelError("the classifier passes no gradient to its input")
        self.evaluations += 2 * len(points) * draws  # a backward pass costs two forward ones
        flat = slope.flatten(1).double().nan_to_num(0.0, 0.0, 0.0).cpu().numpy()
        return loss.detach().double().cpu().numpy(), flat

    def mean_probabilities(self, units: Tensor, draws: int) -> Tensor:
        """Class probabilities averaged over draws, differentiable in perturbations given in units of scale."""
        scale, center = (
            torch.from_numpy(each).float().reshape(self.shape).to(units.device) for each in (self.scale, self.center)
        )
        points = center + scale * units
        if self.levels is not None:
            points = nearest_on_grid(points, self.levels)
        return self._expected(points, draws)[:, :-1]

    def _expected(self, points: Tensor, draws: int) -> Tensor:
        """Mean class probabilities at each point, on fresh draws, with the noise that is chosen there."""
        self._blocks += 1
        block, device = self._slot + self._blocks, self.smoother.device
        generator = generator_for(self.smoother.seed, self.index, Stage.ATTACK, block, device)
        noises = self._affordable(points)
        copies = [
            noise.noisy(seen.expand(draws, *self.seen), generator)
            for seen, noise in zip(self.smoother.encoded(points), noises, strict=True)
        ]
        return self._probabilities(torch.cat(copies), SHARP).reshape(len(points), draws, -1).mean(dim=1)

    def has_gradient(self) -> bool:
        """Does the classifier pass gradients to its input?"""
        here = np.zeros((1, self.dim))
        with torch.no_grad():  # what fails here fails for another reason
            self._expected(self.points(here).to(self.smoother.device), 1)
        try:
            self.gradients(here, 1)
        except (ModelError, RuntimeError):  # the latter: it leaves torch
            return False
        return True

    def _probabilities(self, copies: Tensor, sharpest: float = math.inf) -> Tensor:
        """Class probabilities with a last class for rows that hold a NaN, (copies, classes + 1).

        Logits whose first two are farther apart than ``sharpest`` on average are divided down to that.
        """
        self.evaluations += len(copies)
        size = rows_per_call(len(copies), self.smoother.plan.block)
        logits = in_blocks(self.smoother.model, zip(torch.split(copies, size), strict=True))
        broken = logits.isnan().any(dim=1, keepdim=True)
        finite = logits.float().masked_fill(broken, 0.0).clamp(-HUGE, HUGE)
        if sharpest < math.inf:
            top = finite.detach().topk(2, dim=1).values
            finite = finite * (sharpest / (top[:, 0] - top[:, 1]).mean()).clamp_max(1.0)
        chances = finite.softmax(dim=1).masked_fill(broken, 0.0)
        return torch.cat([chances, broken.to(chances.dtype)], dim=1)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count what a tuner asks the classifier."""

        lock = Lock()

        def count(_module: object, _given: object, logits: Tensor) -> None:
            with lock:  # a tuner votes on several threads
                self.evaluations += len(logits)

        hook = self.smoother.model.register_forward_hook(count)
        try:
            yield
        finally:
            hook.remove()


def lead(shares: Tensor, label: int) -> float:
    """The label's share less its strongest rival's."""
    rivals = shares.clone()
    rivals[label] = -1.0
    return float(shares[label] - rivals.max())


def _units(region: Region | LinearRegion) -> FloatArray:
    """The scale of each coordinate, in which attacks measure their steps; behind a front the one at which a ball fits."""
    if isinstance(region, Region):
        return region.full_scale.ravel()
    return np.full(region.dim, 1.0 / region.map.norm(2.0, region.norm))


def _walls(box: Box, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far the box reaches below and above the center; nowhere on the wrong side of it."""
    return np.minimum(box.low - center, 0.0), np.maximum(box.high - center, 0.0)


def _detached(noise: Noise) -> Noise:
    if not (noise.scale.requires_grad or noise.loc.requires_grad):
        return noise
    return noise.shaped(noise.scale.detach(), noise.loc.detach())
