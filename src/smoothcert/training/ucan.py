"""The classifier and the generator of its noise learn together (UCAN, Eq. 13), by any recipe."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.engine import device_named
from smoothcert.errors import ModelError
from smoothcert.models.architecture import Architecture
from smoothcert.models.weights import read_metadata
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.training.batches import examples, fingerprints, key_of
from smoothcert.training.loop import BEST, train
from smoothcert.training.noising import NoiseGenerator
from smoothcert.training.settings import BatchReport, EpochReport, GeneratorSettings, TrainSettings
from smoothcert.tuners.generators import DATASET, PER_INPUT, Design, Generator
from smoothcert.tuners.ucan import generator_beside, save_generator

WATCHED = 64  # training inputs whose maps are looked at for a collapse
FLAT, FLOOR = 0.01, 0.01  # a spread, and a height above the least factor, that count as none


def _volume(factors: Tensor) -> Tensor:
    return factors.mean()


def _radius(factors: Tensor) -> Tensor:
    return factors.flatten(1).amin(dim=1).mean()


# What the generator is rewarded for: the mean factor stands for the volume, the least one for the radius.
OBJECTIVES: dict[str, Callable[[Tensor], Tensor]] = {"volume": _volume, "radius": _radius}


@dataclass(frozen=True)
class UcanSettings(GeneratorSettings, TrainSettings):
    """Training settings, and those of the generator: its kind, its range (see Design) and its reward.

    The loss is the recipe's minus ``weight`` times the reward; published: the recipe ucan, weight 1 (5 for the radius if
    dataset-wise), from a trained classifier. From scratch that takes every factor to its upper bound.
    """

    recipe: str = "ucan"
    generator: str = setting(
        DATASET, "One map of noise for all inputs, or one per input.", choices=(DATASET, PER_INPUT)
    )

    def design(self, shape: tuple[int, ...]) -> Design:
        """The generator's design for inputs of this shape."""
        return Design(self.generator, shape, self.least, self.most, self.shift, self.width)


class Learned(NoiseGenerator):
    """The noise of ``base``, stretched and shifted by a generator, and the reward for its size."""

    scale: Tensor
    loc: Tensor

    def __init__(self, generator: Generator, base: Noise, objective: str = "volume", weight: float = 0.0) -> None:
        super().__init__()
        self.generator, self.objective, self.weight = generator, objective, weight
        self.register_buffer("scale", base.scale.float(), persistent=False)
        self.register_buffer("loc", base.loc.float(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """scale and loc of each input, or of all."""
        factors, shifts = self.generator(x, self.scale)
        return self.scale * factors, self.loc + self.scale * shifts

    def penalty(self, scale: Tensor, loc: Tensor) -> Tensor:
        """Minus the reward."""
        return -self.weight * OBJECTIVES[self.objective](scale / self.scale)


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

    With validation data the best epoch's generator is beside ``best.safetensors``, too.

    Everything else is as in ``train``. Factors that collapse to their lower bound stop it with an error.
    """
    watched = examples(inputs[:WATCHED], labels[:WATCHED], Architecture.of(architecture).classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(settings.seed, 0, "generator"))
        # Not the shape that the network is built for: one that decodes the numbers of a front gets others.
        generator = Generator(settings.design(inputs.shape[1:]))
    learned = Learned(generator, noise, settings.objective, settings.weight)
    read = [inputs, *([] if validation is None else validation[:1])] if settings.generator == DATASET else []
    fitted = frozenset().union(*map(fingerprints, read))

    def watching(report: EpochReport) -> None:
        best = out / BEST
        if best.exists() and read_metadata(best)["smoothcert.epoch"] == str(report.epoch):
            save_generator(generator_beside(best), copy.deepcopy(generator).cpu(), noise, read_metadata(best), fitted)
        if progress is not None:
            progress(report)
        check_floor(
            factors_on(learned, watched.batch(torch.arange(len(watched)), device_named(settings.device))[0]), settings
        )

    path = train(
        model,
        inputs,
        labels,
        settings,
        noise=noise,
        generator=learned,
        out=out,
        architecture=architecture,
        validation=validation,
        progress=watching,
        batch_progress=batch_progress,
    )
    factors = factors_on(learned, watched.batch(torch.arange(len(watched)), device_named(settings.device))[0])
    check_floor(factors, settings)
    reason = flat(factors, settings.most)
    if reason:
        warnings.warn(reason, stacklevel=2)
    save_generator(generator_beside(path), generator.cpu(), noise, read_metadata(path), fitted)
    return path


@torch.no_grad()
def factors_on(learned: Learned, x: Tensor) -> Tensor:
    """The factors that these inputs would get: (batch or 1, coordinates)."""
    factors: Tensor = learned.eval().generator(x, learned.scale)[0]
    return factors.flatten(1)


def check_floor(factors: Tensor, settings: UcanSettings) -> None:
    """Raise if the factors lie at their lower bound: then the loss has bought accuracy with the noise itself."""
    height = float((factors.mean() - settings.least) / (settings.most - settings.least))
    if height < FLOOR:
        raise ModelError(
            f"the generated noise collapsed: the factors on the scale have mean {float(factors.mean()):.3g} and may not fall "
            f"below least={settings.least:g}, so the radii go to nothing; the checkpoint is kept. Train in another folder "
            f"with a larger weight than {settings.weight:g}, a smaller sigma, or a larger least"
        )


def flat(factors: Tensor, most: float) -> str | None:
    """In words, if the generator gives a constant: the same to every coordinate, or the same map to every input."""
    mean = factors.mean()
    if bool(factors.std(dim=1, unbiased=False).amax() < FLAT * mean):
        risen = bool(mean > 0.9 * most)
        return (
            f"the generated noise is isotropic: every factor on the scale is about {float(mean):.3g}. That is sound but pointless; "
            f"{f'all of them rose to most={most:g}: use a smaller weight' if risen else 'train longer, or with a larger weight'}"
        )
    if len(factors) > 1 and bool(factors.std(dim=0, unbiased=False).mean() < FLAT * mean):
        return (
            "the generator gives every input the same map, so it has collapsed to a constant of the data set: "
            "generator=dataset gives certificates labelled global for it, this one frozen ones"
        )
    return None
