"""Recipe ``ucan``: the classifier and the generator of its noise learn together (UCAN, Eq. 13)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from smoothcert.errors import ModelError, SettingError, look_up
from smoothcert.models.architecture import Architecture
from smoothcert.models.weights import read_metadata, read_state, save_weights
from smoothcert.noise import Noise
from smoothcert.seeds import TorchDraws
from smoothcert.training.batches import examples, key_of
from smoothcert.training.loop import WEIGHTS, train
from smoothcert.training.settings import BatchReport, EpochReport, TrainSettings
from smoothcert.tuners.generators import DATASET, PER_INPUT, WIDTH, Design, Generator
from smoothcert.tuners.ucan import GENERATOR, save_generator

DRAWS = 5  # noisy copies of each input in a step, as published
JOINT = "joint"  # the folder of the checkpoints, inside that of the results
WATCHED = 64  # training inputs whose maps are looked at for a collapse
FLAT, FLOOR = 0.01, 0.01  # a spread, and a height above the least factor, that count as none


def _volume(factors: Tensor) -> Tensor:
    return factors.mean()


def _radius(factors: Tensor) -> Tensor:
    return factors.flatten(1).amin(dim=1).mean()


# What the generator is rewarded for: the mean factor stands for the volume, the least one for the radius.
OBJECTIVES: dict[str, Callable[[Tensor], Tensor]] = {"volume": _volume, "radius": _radius}


@dataclass(frozen=True)
class UcanSettings(TrainSettings):
    """Training settings, and those of the generator: its kind, its range (see Design) and its reward.

    The loss is the mean cross-entropy over ``draws`` noisy copies minus ``weight`` times the reward; published: 5 draws,
    weight 1 (5 for the radius if dataset-wise).
    """

    recipe: str = "ucan"
    generator: str = DATASET
    objective: str = "volume"
    weight: float = 1.0
    draws: int = DRAWS
    least: float = 0.1
    most: float = 3.0
    shift: bool = False
    width: int = WIDTH

    def __post_init__(self) -> None:
        super().__post_init__()
        look_up("objective", self.objective, OBJECTIVES)
        look_up("generator", self.generator, dict.fromkeys((DATASET, PER_INPUT)))
        if self.recipe != UcanSettings.recipe:
            raise SettingError(f"a generator is trained by the recipe ucan; got recipe={self.recipe!r}; leave it out")
        if self.draws < 1:
            raise SettingError(f"draws={self.draws} must be at least 1; the published number is 5")
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise SettingError(f"weight={self.weight} must be a finite number, 0 or more")

    def design(self, shape: tuple[int, ...]) -> Design:
        """The generator's design for inputs of this shape."""
        return Design(self.generator, shape, self.least, self.most, self.shift, self.width)


class GeneratedNoise:
    """Noise to train under: that of ``base``, stretched and shifted by a generator, which is differentiable in it.

    It is laid on without the pixel grid: rounding to it would stop the generator's gradient.
    """

    def __init__(self, base: Noise, generator: Generator) -> None:
        self.base, self.generator = base, generator
        self._held: tuple[Tensor, Tensor] | None = None

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The factors and shifts for a batch."""
        return self.generator(x, self._scale(x))  # type: ignore[no-any-return]

    @contextmanager
    def holding(self, maps: tuple[Tensor, Tensor]) -> Iterator[None]:
        """Several draws from the same maps, which are then worked out once."""
        self._held = maps
        try:
            yield
        finally:
            self._held = None

    def noisy(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One noisy copy of each input of a batch."""
        factors, shifts = self.maps(x) if self._held is None else self._held
        z: Tensor = self.base.law.sample(tuple(x.shape), TorchDraws(generator, torch.float32, x.device))
        return x + self.base.loc.to(x.device, x.dtype) + self._scale(x) * (factors * z + shifts)

    def _scale(self, x: Tensor) -> Tensor:
        return self.base.scale.to(x.device, torch.float32)


class Joint(nn.Module):
    """A classifier and the generator of its noise as one module, so that one optimiser and one checkpoint hold both."""

    def __init__(self, model: nn.Module, generator: Generator, base: Noise, settings: UcanSettings) -> None:
        super().__init__()
        self.model, self.generator, self.settings = model, generator, settings
        self.noise = GeneratedNoise(base, generator)

    def forward(self, x: Tensor) -> Tensor:
        """The classifier's logits."""
        logits: Tensor = self.model(x)
        return logits


def loss(model: nn.Module, x: Tensor, y: Tensor, noise_draw: Callable[[Tensor], Tensor]) -> Tensor:
    """Cross-entropy over several draws of generated noise, minus the reward for large factors.

    For a plain model, under a pattern or a generator that is no longer learned, the reward is a constant and left out.
    """
    if not isinstance(model, Joint):
        return _error(model, x, y, noise_draw, DRAWS)
    settings = model.settings
    maps = model.noise.maps(x)
    with model.noise.holding(maps):
        error = _error(model, x, y, noise_draw, settings.draws)
    return error - settings.weight * OBJECTIVES[settings.objective](maps[0])


def _error(model: nn.Module, x: Tensor, y: Tensor, noise_draw: Callable[[Tensor], Tensor], draws: int) -> Tensor:
    copies = torch.cat([noise_draw(x) for _ in range(draws)])
    return functional.cross_entropy(model(copies), y.repeat(draws))


def train_jointly(
    model: nn.Module,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    settings: UcanSettings,
    *,
    noise: Noise,
    out: Path,
    architecture: Mapping[str, Any],
    validation: tuple[NDArray[Any], NDArray[Any]] | None = None,
    progress: Callable[[EpochReport], None] | None = None,
    batch_progress: Callable[[BatchReport], None] | None = None,
) -> Path:
    """Train model and generator; write ``out/model.safetensors``, whose path is returned, and the generator beside it.

    Everything else is as in ``train``. Factors that collapse to their lower bound stop it with an error.
    """
    shape = Architecture.of(architecture)
    watched = examples(inputs[:WATCHED], labels[:WATCHED], shape.classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(settings.seed, 0, "generator"))
        generator = Generator(settings.design(shape.shape))
    joint = Joint(model, generator, noise, settings)

    def watching(report: EpochReport) -> None:
        if progress is not None:
            progress(report)
        check_floor(factors_on(joint, watched.batch(torch.arange(len(watched)), settings.torch_device())[0]), settings)

    path = train(
        joint,
        inputs,
        labels,
        settings,
        noise=joint.noise,
        out=out / JOINT,
        architecture=architecture,
        validation=validation,
        progress=watching,
        batch_progress=batch_progress,
    )
    joint.load_state_dict(read_state(path))
    factors = factors_on(joint, watched.batch(torch.arange(len(watched)), settings.torch_device())[0])
    check_floor(factors, settings)
    reason = flat(factors)
    if reason:
        warnings.warn(reason, stacklevel=2)
    facts = read_metadata(path)
    save_generator(out / GENERATOR, generator.cpu(), noise, facts)
    save_weights(out / WEIGHTS, model, facts)
    return out / WEIGHTS


@torch.no_grad()
def factors_on(joint: Joint, x: Tensor) -> Tensor:
    """The factors that these inputs would get: (batch or 1, coordinates)."""
    joint.eval()
    return joint.noise.maps(x)[0].flatten(1)


def check_floor(factors: Tensor, settings: UcanSettings) -> None:
    """Raise if the factors lie at their lower bound: then the loss has bought accuracy with the noise itself."""
    height = float((factors.mean() - settings.least) / (settings.most - settings.least))
    if height < FLOOR:
        raise ModelError(
            f"the generated noise collapsed: the factors on the scale have mean {float(factors.mean()):.3g} and may not fall "
            f"below least={settings.least:g}, so the radii go to nothing; the checkpoint is kept. Train in another folder "
            f"with a larger weight than {settings.weight:g}, a smaller sigma, or a larger least"
        )


def flat(factors: Tensor) -> str | None:
    """In words, if the generator gives a constant: the same to every coordinate, or the same map to every input."""
    mean = factors.mean()
    if bool(factors.std(dim=1, unbiased=False).amax() < FLAT * mean):
        return (
            f"the generated noise is isotropic: every factor on the scale is about {float(mean):.3g}, so the generator "
            "has collapsed to a constant. That is sound but pointless; use plain noise of that sigma, or a smaller weight"
        )
    if len(factors) > 1 and bool(factors.std(dim=0, unbiased=False).mean() < FLAT * mean):
        return (
            "the generator gives every input the same map, so it has collapsed to a constant of the data set: "
            "generator=dataset gives certificates labelled global for it, this one frozen ones"
        )
    return None
