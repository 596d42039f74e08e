"""One map of noise for a data set, by ANCER's ascent over training inputs: fitted to a classifier, frozen, trained under."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from smoothcert.engine import device_named
from smoothcert.errors import ModelError, RunError
from smoothcert.maths.intervals import lower_bound
from smoothcert.models.weights import read_metadata
from smoothcert.noise import Noise
from smoothcert.registry import Plugin, Registry, setting
from smoothcert.training.batches import Examples, examples, fingerprints, generator_of
from smoothcert.training.loop import BEST, WEIGHTS, train
from smoothcert.training.naming import noise_in_words
from smoothcert.training.noising import Noising, logits_of
from smoothcert.training.settings import TrainSettings
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.generators import DATASET, Design
from smoothcert.tuners.maps import Maps
from smoothcert.tuners.subject import check_differentiable
from smoothcert.tuners.ucan import generator_beside, load_maps, save_maps

KEY = "smoothcert.map"
WRONG = 2.0  # how much a wrong input counts beside a right one
NOTHING = 0.05  # a mean radius at unit scale that is none


@dataclass(frozen=True)
class AncerMap(Plugin):
    """One factor on the scale of each coordinate, for all inputs, by ascent on log inner radius + log proxy radius / kappa.

    Both are of the mean radius at unit scale over training inputs, told from margins as in Ancer; an input that is wrong under
    the noise counts twice what it is wrong by. No factor is below 1, so that the inner radius is that mean times the scale
    that was given. Nothing here sees an input that will be certified; the map remembers those that it saw.
    """

    name = "ancer"

    steps: int = setting(200, "steps of the ascent", least=1)
    batch: int = setting(32, "training inputs per step, each in one step if there are enough", least=1)
    draws: int = setting(16, "noisy copies of each", least=2)
    step_size: float = setting(0.1, "size of the first step", above=0)
    kappa: float = setting(0.5, "weight of the inner radius beside the volume", above=0)
    most: float = setting(4.0, "the largest factor on the scale", above=1)
    norm: float = setting(2.0, "the norm of the certificates", above=0)
    votes: int = setting(10_000, "votes on a certificate; what they could not prove is worth nothing", least=1)

    def fit(
        self,
        model: nn.Module,
        inputs: NDArray[Any],
        labels: NDArray[Any],
        noise: Noise,
        *,
        seed: int = 0,
        device: str = "cpu",
    ) -> Maps:
        """The map of these inputs, (count, *event), uint8 or float32, for a classifier that was trained under this noise."""
        place, before = device_named(device), model.training
        model.to(place).eval()
        data = examples(inputs, labels, int(labels.max()) + 1)
        order = torch.randperm(len(data), generator=generator_of(seed, 0, "map order", torch.device("cpu")))
        excess = torch.zeros(inputs.shape[1:], device=place, requires_grad=True)
        optimizer = torch.optim.Adam([excess], lr=self.step_size)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        size = min(self.batch, len(data))
        for step in range(self.steps):
            at = order[torch.arange(step * size, (step + 1) * size) % len(data)]
            (excess.grad,) = torch.autograd.grad(self._loss(model, data, at, noise, excess, (seed, step)), [excess])
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                excess.clamp_(0.0, math.log(self.most))
        model.train(before)
        fitted = fingerprints(data.inputs[order[: self.steps * size].numpy()])
        return Maps(excess.detach().double().exp().cpu().numpy(), fitted=fitted)

    def _loss(
        self, model: nn.Module, data: Examples, at: Tensor, noise: Noise, excess: Tensor, key: tuple[int, int]
    ) -> Tensor:
        """Minus the objective on some inputs, with fresh draws."""
        x, y = data.batch(at, excess.device)
        scale, loc = (value.to(x) for value in (noise.scale, noise.loc))
        chance = generator_of(*key, "map noise", x.device)
        logits = logits_of(model, Noising(noise.law, scale * excess.exp(), loc, chance).copies(x, self.draws))
        check_differentiable(logits)
        own = functional.one_hot(y, logits.shape[-1]).bool()
        margins = logits[:, own] - logits.masked_fill(own, -math.inf).logsumexp(-1)
        worth = self._worth(margins.double(), Gap.of(noise.law, self.norm, x[0].numel())).mean()
        if not key[1] and not float(worth.detach()) > NOTHING:
            raise ModelError(
                f"under this noise the network is right on {int((margins.mean(0) > 0).sum())} of the first {len(y)} training inputs; a map is "
                "fitted to a classifier that was trained under the noise: give its weights (--weights FILE)"
            )
        return -(1 + 1 / self.kappa) * worth.clamp(min=NOTHING).log() - excess.mean() / self.kappa

    def _worth(self, margins: Tensor, gap: Gap) -> Tensor:
        """What each input adds: its radius at unit scale, or, where its mean margin is below 0, less than nothing."""
        most = float(lower_bound(self.votes, self.votes, 0.001))
        lead = margins.mean(0) / margins.std(0).clamp(min=1e-12)
        return gap.of_margins(margins, most) + WRONG * lead.clamp(max=0.0)

    def design(self, shape: tuple[int, ...]) -> Design:
        """What the file of the map says of it: a data-set-wise map, and the range of its factors."""
        return Design(DATASET, shape, 1.0, self.most, shift=False, width=1)


MAPS = Registry("map", "smoothcert.maps", {"ancer": AncerMap}, AncerMap)


def train_on_map(
    model: nn.Module,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    settings: TrainSettings,
    *,
    fitting: AncerMap,
    noise: Noise,
    out: Path,
    architecture: Mapping[str, Any],
    **more: Any,
) -> Path:
    """Fit a map to the model, write it to ``out``, and train the model on under its noise; all else is as in ``train``.

    A map that the folder holds is used again if it was fitted alike, so that a training goes on under the noise that it began with.
    """
    file = generator_beside(out / WEIGHTS)
    told = f"{fitting} of {settings.start}, seed {settings.seed}, under {noise_in_words(noise, None)}"
    if not file.is_file():
        maps = fitting.fit(model, inputs, labels, noise, seed=settings.seed, device=settings.device)
        out.mkdir(parents=True, exist_ok=True)
        save_maps(file, maps, fitting.design(maps.factors.shape), {KEY: told})
    maps, kept = load_maps(file), read_metadata(file).get(KEY)
    if kept != told:
        raise RunError(f"{file} is of {kept or 'a generator that learned'}; asked for is {told}; give another --out")
    path = train(model, inputs, labels, settings, noise=maps.on(noise), out=out, architecture=architecture, **more)
    for each in filter(Path.is_file, (path, out / BEST)):
        save_maps(generator_beside(each), maps, fitting.design(maps.factors.shape), {**read_metadata(each), KEY: told})
    return path
