"""Any callable as a classifier: a module in eval mode from a batch to logits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from smoothcert.errors import ModelError, SmoothcertError
from smoothcert.models.exported import Exported
from smoothcert.models.guests import Answering, Binary, Predicted, Score, array_of, recognised, two_classes

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


# What a model raises that cannot take its input. Nothing wider: torch stops a recomputed forward by an exception of its own.
ORDINARY = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Classifier(nn.Module):
    """A callable from a batch to logits (batch, classes), or to an output that carries them as ``.logits``."""

    def __init__(self, model: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.model = model
        # Decided by the first batch: does a plain function want arrays, and is a single score a logit?
        self.takes_arrays = False if isinstance(model, nn.Module) else None
        self.single_logit = False

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        logits = self._scores(x)
        if logits.shape in ((x.shape[0],), (x.shape[0], 1)):
            logits = self._of_single_score(logits)
        if logits.dim() != 2 or logits.shape[0] != x.shape[0]:  # len would tie an exported graph to one number of rows
            raise ModelError(
                f"the model returned logits of shape {tuple(logits.shape)} for a batch of {len(x)}; "
                f"allowed: ({len(x)}, classes); wrap the model in a function that returns that"
            )
        if logits.shape[1] < 2:  # a single score was made two above
            raise ModelError(
                "the model has no classes, so there is nothing to certify; give one with 2 classes or more"
            )
        return logits

    def _scores(self, x: Tensor) -> Tensor:
        """What the model returns, as a tensor."""
        output = self._asked(x)
        logits = getattr(output, "logits", output)
        if isinstance(logits, np.ndarray):
            logits = torch.from_numpy(logits).to(x.device)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"the model returned a {type(logits).__name__}; allowed: a tensor of logits (batch, classes), "
                "or an output with that tensor as its .logits; wrap the model in a function that returns it"
            )
        return logits

    def _asked(self, x: Tensor) -> Any:
        """What the model returns: for inputs in the precision of its weights, and an error that names both shapes."""
        kinds = (value.dtype for value in self.parameters() if value.is_floating_point())
        first = next(kinds, x.dtype)
        if first != x.dtype and all(kind == first for kind in kinds):  # one look is enough for most
            x = x.to(first)
        try:
            return self._said(x)
        except SmoothcertError:
            raise
        except ORDINARY as problem:
            reason = str(problem).strip().splitlines() or [type(problem).__name__]
            coloured = x.dim() == 4 and x.shape[1] == 3
            raise ModelError(
                f"the model failed on a batch of shape {tuple(x.shape)} and type {x.dtype}: {reason[0]}; give data of the shape that "
                f"it was made for{' (gray pictures: folder:path=…,gray=true)' if coloured else ''}, or a model for inputs of shape "
                f"{tuple(x.shape[1:])}"
            ) from problem

    def _said(self, x: Tensor) -> Any:
        """What the model says; a plain function that cannot take a tensor is given the batch as an array."""
        if self.takes_arrays is not None:
            return self.model(array_of(x) if self.takes_arrays else x)
        try:
            with warnings.catch_warnings():
                # What numpy says where half of a function's work is done by arrays.
                warnings.filterwarnings("error", "__array_wrap__", DeprecationWarning)
                output = self.model(x)
            self.takes_arrays = isinstance(output, np.ndarray)
        except (TypeError, AttributeError, ValueError, RuntimeError, DeprecationWarning):
            self.takes_arrays = _answers(self.model, array_of(x))
            output = self.model(array_of(x) if self.takes_arrays else x)
        return output

    def _of_single_score(self, scores: Tensor) -> Tensor:
        """Two classes from one score per input, which is taken for a logit unless it looks like a probability or a class."""
        if not self.single_logit:
            _check_logit(scores)
        self.single_logit = True
        return two_classes(scores, "logit")


def _check_logit(scores: Tensor) -> None:
    """Refuse one number per input that may be something else than a logit: a probability, or the class itself."""
    if scores.is_floating_point() and bool(((scores >= 0) & (scores <= 1)).all()):
        raise ModelError(
            "the model gives one score per input, all of them from 0 to 1, and it cannot be told whether that is a probability or a "
            'logit; say so: sc.adapt(model, score="probability") or sc.adapt(model, score="logit")'
        )
    if not scores.is_floating_point() or bool(((scores >= 0) & (scores == scores.round())).all()):
        raise ModelError(
            "the model gives one whole number per input, as if it named the class, and votes are on scores of all classes; return those, "
            "such as torch.nn.functional.one_hot(classes, 10), or say that the number is the logit of class 1: "
            'sc.adapt(model, score="logit")'
        )


class Regressor(Classifier):
    """A callable from a batch to one number per input, as two classes: 0, and the number, so that votes are cast as for any.

    bounds: what it answers is clipped to these.
    """

    def __init__(self, model: Callable[[Tensor], Any], bounds: tuple[float, float] | None = None) -> None:
        super().__init__(model)
        self.bounds = bounds
        self.training = isinstance(model, nn.Module) and model.training

    def forward(self, x: Tensor) -> Tensor:
        """Zero and the number of each input, (batch, 2)."""
        numbers = self._scores(x)
        if numbers.shape not in ((x.shape[0],), (x.shape[0], 1)) or not numbers.is_floating_point():
            raise ModelError(
                f"the model returned {numbers.dtype} of shape {tuple(numbers.shape)} for a batch of {len(x)}; an interval is of one real "
                f"number per input, ({len(x)},) or ({len(x)}, 1): wrap the model in a function that chooses one, or certify classes "
                "(sc.Smoother, --task classification)"
            )
        pair = two_classes(numbers, "logit")
        return pair if self.bounds is None else torch.stack([pair[:, 0], pair[:, 1].clamp(*self.bounds)], dim=1)


def _answers(model: Callable[..., Any], batch: Any) -> bool:
    """Does it take such a batch?"""
    try:
        model(batch)
    except Exception:  # a foreign function fails in any way it likes
        return False
    return True


def as_classifier(model: Callable[[Tensor], Any]) -> Classifier:
    """``model`` as a module from a batch to logits, in the mode it is in.

    >>> as_classifier(lambda x: x.flatten(1))(torch.zeros(2, 1, 3)).shape
    torch.Size([2, 3])
    """
    if isinstance(model, Classifier):
        return model
    if isinstance(model, type):
        raise ModelError(
            f"{model.__name__} is a class, and what is asked is one object of it; give {model.__name__}(…)"
        )
    model = recognised(model) or model
    if not callable(model):
        raise ModelError(
            f"a model must be callable on a batch, a fitted classifier of scikit-learn, or have predict_proba; got a {type(model).__name__}"
        )
    if isinstance(model, fx.GraphModule):  # a graph from torch.export has one mode, that of its export
        model = Exported(model)
    classifier = Classifier(model)
    classifier.training = isinstance(model, nn.Module) and model.training
    return classifier


def as_regressor(model: Any, bounds: tuple[float, float] | None = None) -> Regressor:
    """``model`` as a module whose second logit is the number that it answers.

    Known are torch modules and callables on tensors or numpy arrays with one number per input, and what is fitted and has
    ``predict``, as in scikit-learn.

    >>> as_regressor(lambda x: x.sum(dim=1), (0, 2))(torch.ones(1, 3))
    tensor([[0., 2.]])
    """
    if isinstance(model, Classifier):  # loaded from a file
        model = model.model
    if not callable(model) and isinstance(model, Answering):
        model = Predicted(model)
    if not callable(model):
        raise ModelError(
            f"a model must be callable on a batch, or a fitted regressor with predict; got a {type(model).__name__}"
        )
    return Regressor(Exported(model) if isinstance(model, fx.GraphModule) else model, bounds)


def adapt(model: Any, score: Score | None = None) -> Classifier:
    """Any classifier as a module from a batch to logits; Smoother and the command line do this by themselves.

    Known are torch modules and callables on tensors or numpy arrays, with scores or ``.logits``; fitted classifiers of
    scikit-learn and the like (``predict`` and ``classes_``); ``predict_proba``; and models with one score per input, which is a
    logit unless a sigmoid ends the model or ``score`` says "probability". What was understood wrongly is mostly refused by the
    probe, before a vote counts.

    >>> adapt(lambda x: x[:, 0] - 3)(torch.zeros(2, 4))
    tensor([[ 0., -3.],
            [ 0., -3.]])
    """
    return as_classifier(model if score is None else Binary(model, score))


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
