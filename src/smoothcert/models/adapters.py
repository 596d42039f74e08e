"""Any callable as a classifier: a module in eval mode from a batch to logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from smoothcert.errors import ModelError
from smoothcert.models.exported import Exported

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
# Operators of exported graphs that differ between training and evaluation, and where they take the flag.
MODES: dict[Any, int] = {
    torch.ops.aten.batch_norm.default: 5,
    torch.ops.aten.native_batch_norm.default: 5,
    torch.ops.aten._native_batch_norm_legit.default: 5,
    torch.ops.aten._native_batch_norm_legit_functional.default: 5,
    torch.ops.aten._native_batch_norm_legit.no_stats: 3,
    torch.ops.aten.dropout.default: 2,
    torch.ops.aten.native_dropout.default: 2,
    torch.ops.aten.feature_dropout.default: 2,
    torch.ops.aten.alpha_dropout.default: 2,
    torch.ops.aten.feature_alpha_dropout.default: 2,
}


class Classifier(nn.Module):
    """A callable from a batch to logits (batch, classes), or to an output that carries them as ``.logits``."""

    def __init__(self, model: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        output = self.model(x)
        logits = getattr(output, "logits", output)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"the model returned a {type(logits).__name__}; allowed: a tensor of logits (batch, classes), "
                "or an output with that tensor as its .logits; wrap the model in a function that returns it"
            )
        if logits.dim() != 2 or logits.shape[0] != x.shape[0]:  # len would tie an exported graph to one number of rows
            raise ModelError(
                f"the model returned logits of shape {tuple(logits.shape)} for a batch of {len(x)}; "
                f"allowed: ({len(x)}, classes); wrap the model in a function that returns that"
            )
        if logits.shape[1] < 2:
            raise ModelError(
                "the model has one class only, so there is nothing to certify; "
                "wrap a binary model with one score s in a function that returns two, for example [-s, s]"
            )
        return logits


def as_classifier(model: Callable[[Tensor], Any]) -> Classifier:
    """``model`` as a module from a batch to logits, in the mode it is in.

    >>> as_classifier(lambda x: x.flatten(1))(torch.zeros(2, 1, 3)).shape
    torch.Size([2, 3])
    """
    if not callable(model):
        raise ModelError(f"a model must be callable on a batch; got a {type(model).__name__}")
    if isinstance(model, Classifier):
        return model
    if isinstance(model, fx.GraphModule):  # a graph from torch.export has one mode, that of its export
        model = Exported(model)
    classifier = Classifier(model)
    classifier.training = isinstance(model, nn.Module) and model.training
    return classifier


def classifier_of(model: Callable[[Tensor], Any]) -> Classifier:
    """``model`` as a module from a batch to logits, put in eval mode if it was training."""
    classifier = as_classifier(model)
    if any(module.training for module in classifier.modules()):
        _switch_to_eval(classifier)
    return classifier


def unfixed(model: nn.Module) -> list[str]:
    """Names of the layers whose answer for one input depends on the rest of the batch, or on chance, even in eval mode.

    >>> unfixed(nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2, track_running_stats=False)))
    ['1']
    """
    names = []
    for name, module in model.named_modules():
        if isinstance(module, BATCH_NORMS) and module.running_mean is None:
            names.append(name)
        if isinstance(module, fx.GraphModule):
            names += [f"{name}.{node}".lstrip(".") for node in _in_train_mode(module)]
    return names


def _switch_to_eval(classifier: Classifier) -> None:
    try:
        classifier.eval()
    except NotImplementedError as error:
        raise ModelError(
            f"the model holds a module that has no eval mode: {error}; "
            "if it is a graph from torch.export, wrap that graph in smoothcert.models.Exported first"
        ) from error


def _in_train_mode(graph: fx.GraphModule) -> list[str]:
    """What was exported in training mode: it averages over the batch, or throws dice, for ever."""
    flags = {node.name: node.args[MODES[node.target]] for node in graph.graph.nodes if node.target in MODES}
    return [name for name, flag in flags.items() if flag is True]
