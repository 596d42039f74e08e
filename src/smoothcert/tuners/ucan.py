"""Learned noise (UCAN): dataset-wise, one map for all inputs, and certification-wise, a map for each; and their files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.errors import InputError, SettingError, WeightsError
from smoothcert.fronts.front import known_among
from smoothcert.models.weights import load_weights, read_metadata, read_state, save_weights
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.smoother import Tuner
from smoothcert.tuners.generators import DATASET, PER_INPUT, Design, Generator
from smoothcert.tuners.maps import Maps

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

GENERATOR = "generator.safetensors"
KEY, HASH = "smoothcert.generator", "smoothcert.map_hash"


@dataclass(frozen=True, eq=False)
class DatasetWise(Tuner):
    """One learned map for the whole data set: evaluated once and stored, so that it cannot depend on the test input."""

    name = DATASET
    reads_input = False

    generator: str | Path | Maps = setting(help="the generator's file; by default the one beside the model")

    def __post_init__(self) -> None:
        assert self.learned  # read now: what is wrong with the file is said before anything is computed

    @cached_property
    def learned(self) -> Maps:
        """The map."""
        return self.generator if isinstance(self.generator, Maps) else load_maps(self.generator)

    def content(self) -> object:
        return self.learned

    def chosen_by(self, noise: Noise, x: Tensor) -> bool:
        fitted = self.learned.fitted
        return bool(fitted) and known_among(fitted, x.detach().cpu().numpy(), noise.center_of(x))

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        _check_shape(self.learned.factors.shape, x)
        return self.learned.on(start)


@dataclass(frozen=True, eq=False)
class PerInput(Tuner):
    """A network reads the input and gives it its own map (UCAN certification-wise): frozen until a memory settles it."""

    name = PER_INPUT
    reads_input = True
    costly = False

    generator: str | Path | Generator = setting(help="the generator's file; by default the one beside the model")

    def __post_init__(self) -> None:
        self.network.eval().requires_grad_(False)

    @cached_property
    def network(self) -> Generator:
        """The network that reads the input."""
        return self.generator if isinstance(self.generator, Generator) else load_generator(self.generator)

    def content(self) -> object:
        return self.network

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        _check_shape(self.network.design.shape, x)
        generator, x = self.network.to(smoother.device), x.to(smoother.device)
        if x.requires_grad:  # an attack climbs through the choice; what counts is chosen without
            factors, shifts = (each.double() for each in generator(x, start.scale.to(x.device, torch.float32)))
            return start.shaped(start.scale * factors, start.loc + start.scale * shifts.expand_as(factors))
        return maps_of(generator, x, start).on(start)


@torch.no_grad()
def maps_of(generator: Generator, x: Tensor, start: Noise) -> Maps:
    """The maps of each input, one at a time on one thread: their rounding must not depend on the batch or the machine."""
    scale = start.scale.to(x.device, torch.float32)
    with _one_thread():
        rows = [generator(row[None], scale) for row in x]
    if not rows:
        return Maps(np.ones((0, *x.shape[1:])))
    factors, shifts = (torch.cat(values).double().cpu().numpy() for values in zip(*rows, strict=True))
    if not (np.all(np.isfinite(factors)) and np.all(np.isfinite(shifts))):
        raise InputError("the generator gave NaN or infinite noise; it was not trained for such inputs, or diverged")
    return Maps(factors, shifts)


def save_generator(
    path: str | Path, generator: Generator, noise: Noise, facts: Mapping[str, str], fitted: frozenset[int] = frozenset()
) -> None:
    """Write the generator with its design: its weights if it reads the input, else its map, evaluated once."""
    if generator.design.kind == PER_INPUT:
        save_weights(path, generator, {KEY: generator.design.to_json(), **facts})
        return
    rows = maps_of(generator.eval(), torch.zeros(1, *generator.design.shape), noise)
    maps = Maps(rows.factors[0], np.asarray(rows.shifts)[0], fitted)
    save_maps(path, maps, generator.design, facts)


def save_maps(path: str | Path, maps: Maps, design: Design, facts: Mapping[str, str]) -> None:
    """Write the map of a whole data set, with the inputs that it was fitted with and a hash of both."""
    content = nn.Module()
    fitted = np.array(sorted(maps.fitted), dtype=np.uint64).view(np.int64)
    shifts = np.broadcast_to(np.asarray(maps.shifts, dtype=float), design.shape)
    for name, values in (("factors", maps.factors), ("shifts", shifts), ("fitted", fitted)):
        content.register_buffer(name, torch.from_numpy(values.copy()))
    hashed = {HASH: _hash(design, content.state_dict())}
    save_weights(path, content, {**facts, KEY: design.to_json(), **hashed})


def generator_beside(model: Path) -> Path:
    """Where training keeps the generator of a model that it wrote.

    >>> generator_beside(Path("run/model.safetensors")).name, generator_beside(Path("run/best.safetensors")).name
    ('generator.safetensors', 'best-generator.safetensors')
    """
    return model.with_name(GENERATOR if model.stem != "best" else f"best-{GENERATOR}")


def load_generator(path: str | Path) -> Generator:
    """The generator of a file that ``save_generator`` wrote for inputs that are read."""
    generator = Generator(_design(path, PER_INPUT))
    load_weights(generator, path)
    return generator.eval()


def load_maps(path: str | Path) -> Maps:
    """The map of a file that ``save_generator`` wrote for a whole data set, checked against its recorded bounds."""
    design, state = _design(path, DATASET), read_state(path)
    shapes = [tuple(state[name].shape) for name in ("factors", "shifts") if name in state]
    if set(state) != {"factors", "shifts", "fitted"} or shapes != [design.shape] * 2:
        raise WeightsError(
            f"{path} does not hold factors and shifts for inputs of shape {design.shape} and the inputs that they were fitted with"
        )
    factors, shifts = (state[name].double().numpy() for name in ("factors", "shifts"))
    inside = (factors >= design.least * (1 - 1e-6)).all() and (factors <= design.most * (1 + 1e-6)).all()
    if not (inside and np.isfinite(shifts).all()):
        raise WeightsError(
            f"{path} holds factors outside {design.least} to {design.most}, or shifts that are no numbers"
        )
    if read_metadata(path).get(HASH) != _hash(design, state):
        raise WeightsError(
            f"{path} was changed after it was written, so nobody knows which inputs its map was fitted with; give the file that "
            "smoothcert train wrote, or make it again"
        )
    return Maps(factors, shifts, frozenset(state["fitted"].numpy().view(np.uint64).tolist()))


def _hash(design: Design, state: Mapping[str, Tensor]) -> str:
    """SHA-256 of a map's design and content."""
    content = [design.to_json().encode(), *(state[name].numpy().tobytes() for name in ("factors", "shifts", "fitted"))]
    return hashlib.sha256(b"\n".join(content)).hexdigest()


def kind_of(path: str | Path) -> str:
    """Which generator a file holds: dataset or per_input."""
    return _design(path).kind


def _design(path: str | Path, kind: str | None = None) -> Design:
    text = read_metadata(path).get(KEY)
    if text is None:
        raise WeightsError(
            f"{path} records no generator; give the {GENERATOR} that smoothcert train --generator writes beside its model"
        )
    design = Design.from_json(text)
    if kind not in (None, design.kind):
        raise SettingError(
            f"{path} holds a {design.kind} generator, and {kind} was asked for; use --method {design.kind}"
        )
    return design


def _check_shape(shape: tuple[int, ...], x: Tensor) -> None:
    if tuple(x.shape[1:]) != tuple(shape):
        raise SettingError(f"the generator was made for inputs of shape {tuple(shape)}; got {tuple(x.shape[1:])}")


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
