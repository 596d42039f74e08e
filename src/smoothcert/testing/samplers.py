"""What a sampler must pass as it is deployed: from every source, in every type, on and off the pixel grid.

Each check raises AssertionError, of a correct sampler with probability at most FALSE_ALARM (the chi-squared one up to the
approximation of its distribution, with 20 or more expected in every cell). A law of your own can be put through the same checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import gammainccinv, gammaincinv
from scipy.stats import binom, chi2, poisson, spearmanr

from smoothcert.laws import Law, NumpyDraws
from smoothcert.maths import Array, FloatArray
from smoothcert.noise import Noise
from smoothcert.seeds import Stage, TorchDraws, draws_for

FALSE_ALARM = 1e-6  # of each check of a correct sampler
RARE = 10.0 ** -np.arange(4, 10)  # the masses of cells in which hardly a number may fall: around zero, and far out


@dataclass(frozen=True, eq=False)
class Sample:
    """Numbers of a unit law as one source gives them; lattice is the step of the grid they lie on, 0 for none."""

    values: FloatArray
    kind: type[np.floating]
    lattice: float = 0.0


def _of_numpy(kind: type[np.float32] | type[np.float64]) -> Callable[[Law, int, int], Sample]:
    def draw(law: Law, number: int, seed: int) -> Sample:
        drawn = law.sample((number,), NumpyDraws(np.random.default_rng(seed), kind))
        return Sample(np.asarray(drawn, dtype=float), drawn.dtype.type)

    return draw


def _of_torch(dtype: torch.dtype, *, keyed: bool) -> Callable[[Law, int, int], Sample]:
    def draw(law: Law, number: int, seed: int) -> Sample:
        keys = draws_for(seed, 0, Stage.ESTIMATE, 0, dtype=dtype)
        draws = keys if keyed else TorchDraws(torch.Generator().manual_seed(seed), dtype, "cpu")
        drawn = law.sample((number,), draws).numpy()
        return Sample(drawn.astype(float), drawn.dtype.type)

    return draw


def _of_noise(steps: float) -> Callable[[Law, int, int], Sample]:
    """What votes are cast with: off the grid at steps = 0, or with so many steps of the grid to the law's ninth decile."""

    def draw(law: Law, number: int, seed: int) -> Sample:
        unit = steps / float(law.quantile(0.9))
        noise = Noise(law, unit / 255 if steps else 1.0, grid=1 / 255 if steps else None)
        drawn = noise.draw(number, (1,), draws_for(seed, 0, Stage.ESTIMATE, 0, dtype=noise.sampling_dtype))
        values = drawn.double().numpy().ravel()
        return Sample(values / unit, np.float64, 1 / unit) if steps else Sample(values, np.float32)

    return draw


SOURCES: dict[str, Callable[[Law, int, int], Sample]] = {
    "votes off the grid": _of_noise(0),
    "votes on a fine grid": _of_noise(5_000.0),
    "votes on a coarse grid": _of_noise(3.0),
    "numpy float32": _of_numpy(np.float32),
    "numpy float64": _of_numpy(np.float64),
    "torch float32": _of_torch(torch.float32, keyed=False),
    "torch float64": _of_torch(torch.float64, keyed=False),
    "keyed float32": _of_torch(torch.float32, keyed=True),
    "keyed float64": _of_torch(torch.float64, keyed=True),
}


def check_finite(law: Law, sample: Sample) -> None:
    """Every number is one."""
    assert np.isfinite(sample.values).all(), f"{law}: {int((~np.isfinite(sample.values)).sum())} draws are not finite"


def check_cells(law: Law, sample: Sample) -> None:
    """Chi-squared over cells that are fine near zero and in the tails, 20 or more expected in each, both signs apart."""
    number = sample.values.size
    fine = np.geomspace(50 / number, 0.02, 8)
    inside = np.concatenate([fine, np.linspace(0.05, 0.95, 31), 1.0 - fine[::-1]])
    edges = _snapped(np.asarray(law.quantile(0.5 + inside / 2)), sample.lattice)
    tails = np.append(np.asarray(law.tail(edges), dtype=float), 0.0)
    masses = np.concatenate([-np.diff(tails)[::-1], [1.0 - 2.0 * tails[0]], -np.diff(tails)])
    counts, _ = np.histogram(sample.values, np.concatenate([[-np.inf], -edges[::-1], edges, [np.inf]]))
    enough = number * masses >= 20
    score = float((np.square(counts - number * masses) / np.maximum(number * masses, 1e-300))[enough].sum())
    value = float(chi2.sf(score, int(enough.sum())))
    assert value > FALSE_ALARM, f"{law}: the cells do not have the masses of the density, p-value {value:.2g}"


def check_rare(law: Law, sample: Sample) -> None:
    """No atom at zero and no crowd far out: exact binomial tests of cells with masses down to 1e-9."""
    size, number = np.abs(sample.values), sample.values.size
    near = _snapped(np.asarray(law.quantile(0.5 + RARE / 2)), sample.lattice)
    far = _snapped(-np.asarray(law.quantile(RARE / 2)), sample.lattice)
    cells = [(int((size < edge).sum()), 1.0 - 2.0 * float(law.tail(edge)), f"below {edge:.2g}") for edge in near]
    cells += [(int((size > edge).sum()), 2.0 * float(law.tail(edge)), f"above {edge:.2g}") for edge in far]
    for count, mass, where in cells:
        value = float(binom.sf(count - 1, number, mass))
        assert value > FALSE_ALARM / len(cells), f"{law}: {count} of {number} draws are {where}, of mass {mass:.2g}"


def check_repeats(law: Law, sample: Sample) -> None:
    """Numbers repeat no more often than those of the law rounded to their type; float32 sources, twice as often."""
    if sample.lattice:
        return  # a grid is made of repeats
    number, size = sample.values.size, np.abs(sample.values)
    spacing = np.spacing(size.astype(sample.kind)).astype(float)
    pairs = 0.5 * number**2 * float((np.exp(np.asarray(law.log_prob(size))) * spacing).mean())
    allowed = int(poisson.isf(FALSE_ALARM, (2.0 if sample.kind is np.float32 else 1.0) * pairs))
    repeats = number - np.unique(sample.values).size
    assert repeats <= allowed, f"{law}: {repeats} of {number} draws repeat another; {allowed} would be many"


def check_independence(law: Law, number: int, seed: int) -> None:
    """Coordinates, unless the law says otherwise, and draws tell nothing of one another, in sign or in size: rank correlations."""
    drawn = Noise(law, 1.0).draw(number, (2, 2), draws_for(seed, 0, Stage.ESTIMATE, 0, dtype=Noise.sampling_dtype))
    z = drawn.double().numpy()
    pairs = {"draws": (z[0::2, 0, 0], z[1::2, 0, 0])}
    if law.independent:
        pairs |= {"coordinates": (z[:, 0, 0], z[:, 0, 1]), "rows of coordinates": (z[:, 0, 0], z[:, 1, 0])}
    for what, (one, other) in pairs.items():
        for value in (spearmanr(one, other).pvalue, spearmanr(np.abs(one), np.abs(other)).pvalue):
            assert value > FALSE_ALARM / (2 * len(pairs)), f"{law}: {what} depend on one another, p-value {value:.2g}"


SAMPLE_CHECKS: dict[str, Callable[[Law, Sample], None]] = {
    "finite": check_finite,
    "cells": check_cells,
    "rare": check_rare,
    "repeats": check_repeats,
}


class ExtremeDraws(NumpyDraws):
    """The smallest and the largest numbers of a source, of gamma the least likely at either end, at random."""

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self._among(shape, -13.8, -self.step / 2, self.step / 2, 13.8)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self._among(shape, self.step / 2, 1 - self.step)

    def symmetric(self, shape: tuple[int, ...]) -> Array:
        return self._among(shape, -1.0, -(2.0**-63), 0.0, 2.0**-63, 1.0)

    def exponential(self, shape: tuple[int, ...]) -> Array:
        largest = 7.7 - np.log(self.step)  # numpy's: the tail's end and its logarithm
        return self._among(shape, self.step / 2, largest)

    def gamma(self, shape: tuple[int, ...], k: float) -> Array:
        least = max(float(np.finfo(self.kind).smallest_subnormal), float(gammaincinv(k, self.step)))
        return self._among(shape, least, float(gammainccinv(k, self.step)))

    def _among(self, shape: tuple[int, ...], *extremes: float) -> Array:
        return self.generator.choice(np.array(extremes, dtype=self.kind), shape)


def check_extremes(law: Law) -> None:
    """The sampler makes finite numbers of the extreme ones, in either type."""
    for kind in (np.float32, np.float64):
        drawn = np.asarray(law.sample((2_000,), ExtremeDraws(np.random.default_rng(0), kind)))
        assert np.isfinite(drawn).all(), (
            f"{law}: an extreme {kind.__name__} number becomes {drawn[~np.isfinite(drawn)][0]}"
        )


def _snapped(edges: FloatArray, lattice: float) -> FloatArray:
    """The edges, moved to half steps of the lattice, between its points; each once."""
    if not lattice:
        return np.unique(edges)
    return np.unique((np.floor(edges / lattice) + 0.5) * lattice)
