"""The training loop: deterministic from its seed, resumed after a crash as if it had not happened."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.errors import ModelError, RunError, look_up
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.models.weights import save_weights
from smoothcert.training.batches import Examples, augmented, batches_of, examples, generator_of, key_of
from smoothcert.training.checkpoints import Progress, resume, save_checkpoint
from smoothcert.training.settings import OPTIMIZERS, SCHEDULES, BatchReport, EpochReport, TrainSettings

WEIGHTS = "model.safetensors"
MEASURED = 1000  # training examples in the accuracy of an epoch: enough for 3 points in a hundred, and quick


class TrainingNoise(Protocol):
    """Noise to train under."""

    def noisy(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A noisy copy of the batch x, drawn from the generator."""


class Silence:
    """No noise: a standard classifier."""

    def noisy(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The batch as it is."""
        return x


@dataclass(frozen=True, eq=False)
class _Session:
    """What every epoch of one run shares."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    data: Examples
    validation: Examples | None
    settings: TrainSettings
    noise: TrainingNoise
    loss: Callable[[nn.Module, Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]
    device: torch.device
    batch_progress: Callable[[BatchReport], None] | None


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
    noise: TrainingNoise,
    out: Path,
    architecture: Mapping[str, Any],
    validation: tuple[NDArray[Any], NDArray[Any]] | None = None,
    progress: Callable[[EpochReport], None] | None = None,
    batch_progress: Callable[[BatchReport], None] | None = None,
) -> Path:
    """Train ``model`` in place and write ``out/model.safetensors``, whose path is returned.

    Inputs are (count, *event), uint8 (divided by 255) or float32. A checkpoint is written after each epoch, before
    ``progress`` hears of it; called again with the same arguments, a stopped run goes on from there to the same
    weights.
    """
    from smoothcert.training import RECIPES  # the registry is in the package, which imports this file

    shape = Architecture.of(architecture)
    data = examples(inputs, labels, shape.classes)
    held_out = None if validation is None else examples(*validation, shape.classes, kind="validation")
    loss = look_up("recipe", settings.recipe, RECIPES)
    device = settings.torch_device()
    model.to(device)
    _check_output(model, data, shape, device)
    optimizer = OPTIMIZERS[settings.optimizer](model.parameters(), settings)
    session = _Session(model, optimizer, data, held_out, settings, noise, loss, device, batch_progress)
    done = _all_epochs(session, _folder(out), _run_of(session, shape), progress)
    path = out / WEIGHTS
    save_weights(path, model.eval(), _metadata(settings, shape, done))
    return path


def _all_epochs(
    session: _Session, out: Path, run: Mapping[str, str], progress: Callable[[EpochReport], None] | None
) -> Progress:
    """Train from where the checkpoint in ``out`` left off to the last epoch, a checkpoint after each."""
    done = resume(out, session.model, session.optimizer, run)
    for epoch in range(done.epoch, session.settings.epochs):
        report = _one_epoch(session, epoch)
        done = Progress(report.epoch, report.accuracy, report.validation_accuracy)
        save_checkpoint(out, session.model, session.optimizer, done, run)
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
    _check_weights(session.model, epoch)
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
    generator = generator_of(settings.seed, epoch, "noise", session.device)
    session.model.train()
    for step, indices in enumerate(batches):
        x, y = session.data.batch(indices, session.device)
        if settings.augment:
            x = augmented(x, generator, settings.flip)
        factor = SCHEDULES[settings.schedule]((epoch + step / len(batches)) / settings.epochs)
        for group in session.optimizer.param_groups:
            group["lr"] = settings.learning_rate * factor
        value = _one_step(session, x, y, generator)
        if not math.isfinite(value):
            raise _diverged(f"the loss became {value} at step {step + 1} of {len(batches)}", epoch)
        total += value * len(indices)
        if session.batch_progress is not None:
            report = BatchReport(epoch + 1, settings.epochs, step + 1, len(batches), value)
            session.batch_progress(report)
    return total / len(session.data)


def _one_step(session: _Session, x: Tensor, y: Tensor, generator: torch.Generator) -> float:
    """The loss of a batch, and a step down it if it is finite."""
    loss = session.loss(session.model, x, y, lambda clean: session.noise.noisy(clean, generator))
    value = float(loss.detach())
    if math.isfinite(value):
        session.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        session.optimizer.step()
    return value


@torch.no_grad()
def _accuracy(session: _Session, data: Examples, chosen: Tensor, epoch: int, purpose: str) -> float:
    """The fraction of noisy inputs that the model, in eval mode, gives their label."""
    generator = generator_of(session.settings.seed, epoch, purpose, session.device)
    session.model.eval()
    right = 0
    for indices in batches_of(chosen, session.settings.batch):
        x, y = data.batch(indices, session.device)
        right += int((session.model(session.noise.noisy(x, generator)).argmax(1) == y).sum())
    return right / len(chosen)


@contextmanager
def _drawing_from(key: int, device: torch.device) -> Iterator[None]:
    """Layers that draw (dropout, initial weights) use torch's own generator: seed it, and put it back after."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(key)
        yield


@torch.no_grad()
def _check_output(model: nn.Module, data: Examples, shape: Architecture, device: torch.device) -> None:
    """Raise ModelError unless the model takes the data and has one logit per class."""
    x, _ = data.batch(torch.arange(1), device)
    if tuple(x.shape[1:]) != shape.shape:
        raise ModelError(f"the architecture takes inputs of shape {shape.shape}; the data has {tuple(x.shape[1:])}")
    logits = model.eval()(x)
    if not isinstance(logits, Tensor) or logits.shape != (1, shape.classes):
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ModelError(f"the model must return logits of shape (batch, {shape.classes}); got {got} for a batch of 1")


def _check_weights(model: nn.Module, epoch: int) -> None:
    """Raise before a checkpoint of weights that are not numbers could replace a good one."""
    for name, value in model.named_parameters():
        if not bool(value.isfinite().all()):
            raise _diverged(f"the weights {name} became infinite or NaN at the last step", epoch)


def _diverged(what: str, epoch: int) -> ModelError:
    kept = f"the checkpoint of epoch {epoch} is kept" if epoch else "there is no checkpoint yet"
    return ModelError(f"{what} of epoch {epoch + 1}; {kept}; train in another folder with a lower learning_rate")


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {out}: {error}; give another one") from error
    return out


def _run_of(session: _Session, shape: Architecture) -> dict[str, str]:
    """All that a resumed run must share with the one it goes on from, by name."""
    fields = {name: json.dumps(value) for name, value in asdict(session.settings).items()}
    return fields | {"architecture": shape.to_json(), "data": session.data.digest()}


def _metadata(settings: TrainSettings, shape: Architecture, done: Progress) -> dict[str, str]:
    """What the final file says of itself, beside its weights."""
    metadata = {
        ARCHITECTURE_KEY: shape.to_json(),
        "smoothcert.recipe": settings.recipe,
        "smoothcert.settings": json.dumps(asdict(settings), sort_keys=True),
        "smoothcert.accuracy": repr(done.accuracy),
    }
    if done.validation_accuracy is not None:
        metadata["smoothcert.validation_accuracy"] = repr(done.validation_accuracy)
    return metadata
