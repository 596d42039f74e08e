"""What can be wrong with a model before training, and with its weights during it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.models.architecture import Architecture
from smoothcert.training.batches import Examples


def check_model(model: nn.Module, data: Examples, shape: Architecture, device: torch.device, asks_input: str) -> None:
    """Raise ModelError unless the model takes the data, has one logit per class, and can learn.

    ``asks_input`` names what needs the gradient in the input as well; empty if nothing does.
    """
    x, _ = data.batch(torch.arange(1), device)
    if tuple(x.shape[1:]) != shape.shape and not model._forward_pre_hooks:  # which may decode it
        raise ModelError(f"the architecture takes inputs of shape {shape.shape}; the data has {tuple(x.shape[1:])}")
    x.requires_grad_()
    logits = model.eval()(x)
    if not isinstance(logits, Tensor) or logits.shape != (1, shape.classes):
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ModelError(f"the model must return logits of shape (batch, {shape.classes}); got {got} for a batch of 1")
    weights = [value for value in model.parameters() if value.requires_grad]
    wanted = [*weights, x]
    slopes = (
        torch.autograd.grad(logits.sum(), wanted, allow_unused=True) if logits.requires_grad else [None] * len(wanted)
    )
    if all(slope is None for slope in slopes[:-1]):
        raise ModelError(
            f"the model {type(model).__name__} has no weights with gradients, so it cannot be trained (a model from ONNX or a "
            "plain function has none); train a torch.nn.Module, and certify this one as it is"
        )
    if asks_input and slopes[-1] is None:
        raise ModelError(
            f"{asks_input} needs the gradient of the model in its input, and {type(model).__name__} has none; "
            "use another recipe, such as consistency"
        )


def check_weights(model: nn.Module, epoch: int) -> None:
    """Raise before a checkpoint of weights that are not numbers could replace a good one."""
    for name, value in model.named_parameters():
        if not bool(value.isfinite().all()):
            raise diverged(f"the weights {name} became infinite or NaN at the last step", epoch)


def diverged(what: str, epoch: int) -> ModelError:
    """The error for a run that left the numbers in the epoch after ``epoch``."""
    kept = f"the checkpoint of epoch {epoch} is kept" if epoch else "there is no checkpoint yet"
    return ModelError(f"{what} of epoch {epoch + 1}; {kept}; train in another folder with a lower learning_rate")
