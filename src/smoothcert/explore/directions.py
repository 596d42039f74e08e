"""The two axes of a slice: towards the nearest other class, random, the extremes of the noise, or of the classifier's curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from smoothcert.errors import InputError, ModelError
from smoothcert.explore.specimen import Specimen
from smoothcert.maths import FloatArray
from smoothcert.sight import Sight
from smoothcert.threats import Threat

DRAWS = 32  # noisy copies whose mean probability the curvature is of
TOLERANCE = 1e-3  # of an eigenvector, relative to the largest eigenvalue
RESTARTS = 60
RIVALS = 3  # classes that the nearest is sought among


@dataclass(frozen=True, eq=False)
class Axes:
    """Two orthonormal directions, (2, dim), and what they are in words."""

    vectors: FloatArray
    words: tuple[str, str]
    note: str = ""


def nearest(specimen: Specimen, seed: int) -> Axes:
    """Towards the nearest other class, and across it: as attacks found it, or else by the slope of the smoothed margin."""
    if specimen.worst is not None:
        first = specimen.worst.offset.ravel() / np.linalg.norm(specimen.worst.offset)
        words = f"towards class {specimen.worst.worst.rival}, as attacks found it"
        return Axes(_with_across(first, specimen, seed), (words, "across it"))
    try:
        slopes = _slopes(specimen)
    except RuntimeError as problem:
        found = random(specimen, seed)
        note = (
            f"The classifier passes no derivative to its input ({str(problem).splitlines()[0]}): the plane is random."
        )
        return Axes(found.vectors, found.words, note)
    if not slopes:
        found = random(specimen, seed)
        return Axes(found.vectors, found.words, "The classifier is flat at this input: the plane is random.")
    (_, rival, first), *others = slopes
    towards = f"towards class {rival}, down the slope of the smoothed margin"
    across = others[0][2] if others else None
    words = "across it" if across is None else f"across it, towards class {others[0][1]}"
    return Axes(_with_across(first, specimen, seed, across), (towards, words))


def _with_across(first: FloatArray, specimen: Specimen, seed: int, other: FloatArray | None = None) -> FloatArray:
    """A direction, and the part of another that is across it; of a random one where nothing else is left."""
    chance = np.random.default_rng([seed, specimen.index]).standard_normal(first.size)
    for second in (chance if other is None else other, chance):
        rest = second - first * (first @ second)
        if np.linalg.norm(rest) > 1e-3 * np.linalg.norm(second):
            return np.stack([first, rest / np.linalg.norm(rest)])
    raise AssertionError("a random direction is never along another")


def _slopes(specimen: Specimen) -> list[tuple[float, int, FloatArray]]:
    """(distance to a tie by the slope, rival, unit direction to it) for the strongest rivals, the nearest first."""
    chances, point = _smoothed(specimen)
    label = specimen.record.leader
    rivals = [rival for rival in chances.argsort(descending=True).tolist() if rival != label][:RIVALS]
    found = []
    for rival in rivals:
        margin = chances[label] - chances[rival]
        [slope] = torch.autograd.grad(margin, point, retain_graph=True)
        flat = -slope.double().cpu().numpy().ravel()
        length = float(np.linalg.norm(flat))
        if length > 1e-12:
            found.append((float(margin.detach()) / length, rival, flat / length))
    return sorted(found, key=lambda one: one[:2])


def _smoothed(specimen: Specimen) -> tuple[Tensor, Tensor]:
    """The mean probabilities over fixed draws, and the point that they depend on."""
    smoother, device, noise = specimen.smoother, specimen.smoother.device, specimen.noise
    generator = torch.Generator(device=device).manual_seed(0)
    x = specimen.x.to(device)
    point = x.clone().requires_grad_()
    if isinstance(noise, Sight):  # a view is no sum of the point and a move
        copies = noise.noisy(point.expand(DRAWS, *specimen.shape), generator)
    else:
        with torch.no_grad():
            seen = smoother.encoded(x[None])
            moves = noise.noisy(seen.expand(DRAWS, *specimen.behind), generator) - seen
        copies = smoother.encoded(point[None]) + moves
    return smoother.model(copies).float().softmax(dim=1).mean(dim=0), point


def random(specimen: Specimen, seed: int) -> Axes:
    """A plane drawn uniformly."""
    draws = np.random.default_rng([seed, specimen.index]).standard_normal((specimen.center.size, 2))
    return Axes(np.linalg.qr(draws)[0].T, ("a random direction", "another one"))


def extremes(specimen: Specimen, seed: int) -> Axes:
    """The coordinates in which the noise, and so the region, is widest and narrowest."""
    scale = specimen.scale.ravel()
    wide, narrow = int(scale.argmax()), int(scale.argmin())
    note = ""
    if wide == narrow:
        wide, narrow = 0, scale.size - 1
        note = "The noise is the same in every coordinate: these are the first and the last."
    vectors = np.zeros((2, scale.size))
    vectors[0, wide] = vectors[1, narrow] = 1.0
    places = [_place(at, specimen.shape) for at in (wide, narrow)]
    words = (f"largest θ = {scale[wide]:.4g}, at {places[0]}", f"least θ = {scale[narrow]:.4g}, at {places[1]}")
    return Axes(vectors, words, note)


def curvature(specimen: Specimen, seed: int) -> Axes:
    """Eigenvectors of the largest and the least |eigenvalue| of the Hessian of the smoothed probability of the class.

    Eiras et al. 2022, Figure 7b, for the mean over noisy copies. Lanczos on Hessian–vector products finds the largest λ,
    and then the largest eigenvalue of I - (H/λ)².
    """
    product = _hessian(specimen)
    dim = specimen.center.size
    start = np.random.default_rng([seed, specimen.index]).standard_normal(dim)
    try:
        top, first = _lanczos(product, start, "LM")
        if abs(top) < 1e-12:
            raise ModelError("the classifier is flat at this input, so no direction curves most; choose other axes")
        _, last = _lanczos(lambda v: v - product(product(v)) / top**2, start - first * (first @ start), "LA")
    except ArpackNoConvergence as problem:
        raise ModelError(
            f"the eigenvectors did not settle within {RESTARTS} restarts of Lanczos; choose other axes"
        ) from problem
    last = last - first * (first @ last)
    last /= np.linalg.norm(last)
    bottom = float(last @ product(last))
    words = (f"top Hessian eigenvector, λ = {top:.3g}", f"bottom Hessian eigenvector, λ = {bottom:.3g}")
    return Axes(np.stack([first, last]), words)


AXES: dict[str, Callable[[Specimen, int], Axes]] = {
    "nearest": nearest,
    "random": random,
    "extremes": extremes,
    "curvature": curvature,
}


def axes_of(name: str, specimen: Specimen, seed: int) -> Axes:
    """The axes of this name; refuses an input that has no plane."""
    if isinstance(specimen.smoother.aim.against, Threat):
        raise InputError(
            f"this run is certified against replaced places ({specimen.record.threat}), which no plane shows; ask for a point"
        )
    if specimen.center.size < 4:
        raise InputError(f"a slice needs an input of 4 coordinates or more; this one has {specimen.center.size}")
    return AXES[name](specimen, seed)


def _lanczos(product: Callable[[FloatArray], FloatArray], start: FloatArray, which: str) -> tuple[float, FloatArray]:
    operator = LinearOperator((start.size, start.size), matvec=lambda v: product(np.ravel(v)), dtype=float)
    values, vectors = eigsh(operator, k=1, which=which, v0=start, tol=TOLERANCE, maxiter=RESTARTS)
    return float(values[0]), np.asarray(vectors[:, 0])


def _hessian(specimen: Specimen) -> Callable[[FloatArray], FloatArray]:
    """v ↦ H v, for the mean probability of the leading class over fixed draws."""
    device = specimen.smoother.device
    try:
        chances, point = _smoothed(specimen)
        [slope] = torch.autograd.grad(chances[specimen.record.leader], point, create_graph=True)
        torch.autograd.grad(slope.sum(), point, retain_graph=True)
    except RuntimeError as problem:
        raise ModelError(
            f"the classifier passes no second derivative to its input ({str(problem).splitlines()[0]}); choose other axes"
        ) from problem

    def product(vector: FloatArray) -> FloatArray:
        direction = torch.from_numpy(np.array(vector, dtype=np.float32)).reshape(specimen.shape).to(device)
        [found] = torch.autograd.grad(slope, point, direction, retain_graph=True)
        return np.asarray(found.double().cpu().numpy().ravel())

    return product


def _place(at: int, shape: tuple[int, ...]) -> str:
    names = {1: ("coordinate",), 2: ("row", "column"), 3: ("channel", "row", "column")}.get(len(shape))
    where = np.unravel_index(at, shape)
    return (
        f"coordinate {at}" if names is None else ", ".join(f"{name} {k}" for name, k in zip(names, where, strict=True))
    )
