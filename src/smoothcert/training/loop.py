"""The training loop: deterministic from its seed, resumed after a crash as if it had not happened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.engine import device_named
from smoothcert.errors import RunError, SettingError
from smoothcert.laws import law_named
from smoothcert.models.architecture import CONFIDENCE_KEY, Architecture
from smoothcert.models.weights import save_weights
from smoothcert.noise import Noise
from smoothcert.training.base import Recipe
from smoothcert.training.batches import Examples, augmented, batches_of, examples, generator_of, key_of
from smoothcert.training.checkpoints import Progress, resume, save_checkpoint
from smoothcert.training.checks import check_model, check_weights, diverged
from smoothcert.training.data_dependent import improved
from smoothcert.training.naming import metadata_of, noise_in_words, run_of
from smoothcert.training.noising import Batch, Copies, NoiseGenerator, Noising
from smoothcert.training.recipes import recipe_named
from smoothcert.training.settings import BatchReport, EpochReport, TrainSettings
from smoothcert.training.viewing import Viewing, check_views, chosen_confidence
from smoothcert.views import View

WEIGHTS, BEST = "model.safetensors", "best.safetensors"
MEASURED = 1000  # training examples in the accuracy of an epoch: enough for 3 points in a hundred, and quick
MOMENTUM = 0.9


def _adam(parameters: Iterable[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _sgd(parameters: Iterable[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    decay = settings.weight_decay
    return torch.optim.SGD(parameters, lr=settings.learning_rate, momentum=MOMENTUM, weight_decay=decay)


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * done))


def _constant(done: float) -> float:
    return 1.0


OPTIMIZERS = {"adam": _adam, "sgd": _sgd}
# A schedule takes the fraction of the run that is done, from 0 to 1, to a factor on the learning rate. It has no
# memory, so a resumed run needs none.
SCHEDULES = {"cosine": _cosine, "constant": _constant}
# bfloat16 has the range of float32, so no loss needs to be scaled.
PRECISIONS: dict[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, eq=False)
class _Session:
    """What every epoch of one run shares."""

    model: nn.Module
    generator: NoiseGenerator | None
    learner: nn.Module  # both
    optimizer: torch.optim.Optimizer
    data: Examples
    validation: Examples | None
    settings: TrainSettings
    recipe: Recipe
    noise: Noise | View | None  # None: no noise
    factors: Tensor  # on the scale of each training input; all 1 unless training is data-dependent
    device: torch.device
    batch_progress: Callable[[BatchReport], None] | None

    def noising(self, x: Tensor, chance: torch.Generator) -> Copies:
        """The noise of a batch: the generator's where there is one, else the noise or the views that were given."""
        if isinstance(self.noise, View):
            return Viewing(self.noise, chance)
        if self.noise is None:
            nothing = torch.zeros((), device=x.device, dtype=x.dtype)
            return Noising(law_named("gaussian"), nothing, nothing, chance)
        if self.generator is not None:
            scale, loc = self.generator(x)
        else:
            scale, loc = (value.to(x.device, x.dtype) for value in (self.noise.scale, self.noise.loc))
        return Noising(self.noise.law, scale, loc, chance)


def new_model(architecture: Mapping[str, Any], seed: int) -> nn.Module:
    """A fresh built-in model whose initial weights depend on the seed alone.

    >>> fields = {"name": "mlp", "shape": (4,), "classes": 2}
    >>> torch.equal(new_model(fields, 0)[1].weight, new_model(fields, 0)[1].weight)
    True
    """
    with _drawing_from(key_of(seed, 0, "weights"), torch.device("cpu")):
        return Architecture.of(architecture).build()


def train(
    model: nn.Module,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    settings: TrainSettings,
    *,
    noise: Noise | View | None,
    out: Path,
    architecture: Mapping[str, Any],
    generator: NoiseGenerator | None = None,
    validation: tuple[NDArray[Any], NDArray[Any]] | None = None,
    progress: Callable[[EpochReport], None] | None = None,
    batch_progress: Callable[[BatchReport], None] | None = None,
) -> Path:
    """Train ``model`` in place and write ``out/model.safetensors``, whose path is returned.

    Inputs are (count, *event), uint8 (divided by 255) or float32. With validation data the epoch with the highest
    accuracy on them under noise is kept as ``out/best.safetensors`` too. A ``generator`` replaces scale and loc of the
    noise, and learns with the model. A checkpoint is written after each epoch, before ``progress`` hears of it; called
    again with the same arguments, a stopped run goes on from there to the same weights.
    """
    shape, recipe = Architecture.of(architecture), recipe_named(settings.recipe)
    classes = shape.classes - recipe.passes
    data = examples(inputs, labels, classes, every_class=True)
    held_out = None if validation is None else examples(*validation, classes, kind="validation")
    if noise is None and settings.data_dependent:
        raise SettingError("data_dependent gives each input its own sigma, and there is no noise; give sigma above 0")
    if isinstance(noise, View):
        check_views(noise, recipe, settings, shape.shape, generator)
    device = device_named(settings.device)
    learner = nn.ModuleDict({"model": model} | ({} if generator is None else {"generator": generator})).to(device)
    _laid_out(model, torch.channels_last)  # in the other format a step of a small CNN takes 1.2 times as long
    asks_input = f"the recipe {recipe.name}" if recipe.attacks else "data_dependent" if settings.data_dependent else ""
    check_model(model, data, shape, device, asks_input)
    optimizer = OPTIMIZERS[settings.optimizer](learner.parameters(), settings)
    factors = torch.ones(len(data), device=device)
    session = _Session(
        model, generator, learner, optimizer, data, held_out, settings, recipe, noise, factors, device, batch_progress
    )
    named = noise_in_words(noise, generator)
    done = _all_epochs(session, _folder(out), shape, named, progress)
    _laid_out(model, torch.contiguous_format)
    metadata = metadata_of(settings, recipe, named, shape, done)
    if isinstance(noise, View):
        sure = chosen_confidence(model, noise, held_out or data, device)
        metadata |= {} if sure is None else {CONFIDENCE_KEY: repr(sure)}
    save_weights(out / WEIGHTS, model.eval(), metadata)
    return out / WEIGHTS


def _laid_out(model: nn.Module, layout: torch.memory_format) -> None:
    """Lay out the weights of convolutions over images like this; only they have a choice."""
    for value in model.parameters():
        if value.dim() == 4:
            value.data = value.data.contiguous(memory_format=layout)


def _all_epochs(
    session: _Session, out: Path, shape: Architecture, noise: str, progress: Callable[[EpochReport], None] | None
) -> Progress:
    """Train from where the checkpoint in ``out`` left off to the last epoch, a checkpoint after each."""
    run = run_of(session.settings, session.recipe, noise, shape, session.data, session.validation)
    done = resume(out, session.learner, session.optimizer, session.factors, run)
    for epoch in range(done.epoch, session.settings.epochs):
        report = _one_epoch(session, epoch)
        done = done.after(report)
        if done.best_epoch == done.epoch:
            save_weights(
                out / BEST,
                session.model.eval(),
                metadata_of(session.settings, session.recipe, noise, shape, done),
            )
        save_checkpoint(out, session.learner, session.optimizer, session.factors, done, run)
        if progress is not None:
            progress(report)
    return done


def _one_epoch(session: _Session, epoch: int) -> EpochReport:
    """One pass over the data, then the accuracies; all chance is keyed by (seed, epoch)."""
    started = time.perf_counter()
    settings = session.settings
    cpu = torch.device("cpu")
    order = torch.randperm(len(session.data), generator=generator_of(settings.seed, epoch, "order", cpu))
    with _drawing_from(key_of(settings.seed, epoch, "layers"), session.device):
        mean_loss = _all_batches(session, epoch, batches_of(order, settings.batch))
    check_weights(session.learner, epoch)
    accuracy = _accuracy(session, session.data, order[:MEASURED], epoch, "accuracy")
    held_out = session.validation
    validated = (
        None if held_out is None else _accuracy(session, held_out, torch.arange(len(held_out)), epoch, "validation")
    )
    seconds = time.perf_counter() - started
    return EpochReport(epoch + 1, settings.epochs, mean_loss, accuracy, validated, seconds)


def _all_batches(session: _Session, epoch: int, batches: list[Tensor]) -> float:
    """One step per batch; the mean loss per example."""
    settings, total = session.settings, 0.0
    chance = generator_of(settings.seed, epoch, "noise", session.device)
    session.learner.train()
    for step, indices in enumerate(batches):
        done = (epoch + step / len(batches)) / settings.epochs
        for group in session.optimizer.param_groups:
            group["lr"] = settings.learning_rate * SCHEDULES[settings.schedule](done)
        value = _one_step(session, indices, chance, done)
        if not math.isfinite(value):
            raise diverged(f"the loss became {value} at step {step + 1} of {len(batches)}", epoch)
        total += value * len(indices)
        if session.batch_progress is not None:
            report = BatchReport(epoch + 1, settings.epochs, step + 1, len(batches), value)
            session.batch_progress(report)
    return total / len(session.data)


def _one_step(session: _Session, indices: Tensor, chance: torch.Generator, done: float) -> float:
    """The loss of a batch when ``done`` of the run is done, and a step down it if it is finite."""
    settings = session.settings
    x, y = session.data.batch(indices, session.device)
    if settings.augment:
        x = augmented(x, chance, settings.flip)
    with _precision(session):
        noising = session.noising(x, chance)
        batch = Batch(x, y, noising, settings.warmth(done))
        if settings.data_dependent and batch.warmth == 1.0:
            place = indices.to(session.device)
            session.factors[place] = improved(session.model, x, batch.added, session.factors[place])
            batch = Batch(x, y, batch.added.times(session.factors[place].view(-1, *[1] * (x.dim() - 1))), batch.warmth)
        loss = session.recipe.loss(session.model, batch)
        if session.generator is not None:
            loss = loss + session.generator.penalty(batch.added.scale, batch.added.loc)
    value = float(loss.detach())
    if math.isfinite(value):
        session.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        session.optimizer.step()
    return value


@torch.no_grad()
def _accuracy(session: _Session, data: Examples, chosen: Tensor, epoch: int, purpose: str) -> float:
    """The fraction of noisy inputs that the model, in eval mode, gives their label."""
    chance = generator_of(session.settings.seed, epoch, purpose, session.device)
    session.learner.eval()
    right = 0
    for indices in batches_of(chosen, session.settings.batch):
        x, y = data.batch(indices, session.device)
        with _precision(session):
            right += int((session.model(session.noising(x, chance).copies(x, 1)[0]).argmax(1) == y).sum())
    return right / len(chosen)


def _precision(session: _Session) -> torch.autocast:
    """The numbers that the networks compute in; weights stay float32."""
    kind = PRECISIONS[session.settings.precision]
    return torch.autocast(session.device.type, dtype=kind or torch.bfloat16, enabled=kind is not None)


@contextmanager
def _drawing_from(key: int, device: torch.device) -> Iterator[None]:
    """Layers that draw (dropout, initial weights) use torch's own generator: seed it, and put it back after."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(key)
        yield


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {out}: {error}; give another one") from error
    return out
