"""Classifiers that are no torch modules: fitted estimators of scikit-learn, ``predict_proba``, and models with one score."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError, SettingError

Score = Literal["logit", "probability"]
SCORES = ("logit", "probability")
MOST = 10_000  # an estimator's own number of a class up to which it is kept


@runtime_checkable
class Fitted(Protocol):
    """A classifier of scikit-learn, or written as one, once it is fitted."""

    classes_: Any

    def predict(self, X: Any, /) -> Any: ...


@runtime_checkable
class Named(Protocol):
    """What was fitted to a data frame, and wants its columns by name again."""

    feature_names_in_: Any


@runtime_checkable
class Configured(Protocol):
    """An estimator of scikit-learn, fitted or not."""

    def get_params(self) -> Any: ...


@runtime_checkable
class Predicting(Protocol):
    """What gives probabilities for an array of inputs, in the manner of Keras."""

    def predict_proba(self, X: Any, /) -> Any: ...


@runtime_checkable
class Answering(Protocol):
    """A regressor of scikit-learn, or written as one."""

    def predict(self, X: Any, /) -> Any: ...


class Predicted(nn.Module):
    """The numbers that ``predict`` gives, for inputs of any shape as rows of features."""

    def __init__(self, model: Answering) -> None:
        super().__init__()
        self.model = model
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """(batch,) or (batch, 1), in float64."""
        answers = np.asarray(self.model.predict(array_of(x).reshape(len(x), -1)), dtype=float)
        return torch.from_numpy(answers).to(x.device)


class Estimator(nn.Module):
    """A fitted estimator: one vote for the class that ``predict`` names, for inputs of any shape as rows of features.

    Classes that are whole numbers from 0 keep their number; others are numbered by their place in ``classes_``.
    """

    def __init__(self, estimator: Fitted) -> None:
        super().__init__()
        self.estimator = estimator
        self.classes = np.asarray(estimator.classes_)
        if self.classes.ndim != 1 or len(self.classes) < 2:
            raise ModelError(
                f"the estimator knows the classes {self.classes}; a classifier needs one list of 2 or more"
            )
        whole = self.classes.dtype.kind in "iu" and int(self.classes.min()) >= 0 and int(self.classes.max()) < MOST
        self.numbers = self.classes.astype(int) if whole else np.arange(len(self.classes))
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """One for the class that was answered, zero for the others: (batch, classes)."""
        answers = np.asarray(self.estimator.predict(self._rows(array_of(x).reshape(len(x), -1)))).reshape(-1)
        places = np.searchsorted(self.classes, answers)
        votes = np.zeros((len(x), int(self.numbers.max()) + 1), dtype=np.float32)
        votes[np.arange(len(x)), self.numbers[places]] = 1.0
        return torch.from_numpy(votes).to(x.device)

    def _rows(self, features: Any) -> Any:
        """As a data frame where the estimator was fitted to one, the columns in the same order."""
        if not isinstance(self.estimator, Named):
            return features
        try:
            import pandas as pd
        except ImportError:  # it was fitted to a frame of another library
            return features
        return pd.DataFrame(features, columns=self.estimator.feature_names_in_)


class Probabilities(nn.Module):
    """The scores of ``predict_proba``; a single one is the probability of class 1."""

    def __init__(self, model: Predicting) -> None:
        super().__init__()
        self.model = model
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """(batch, classes)."""
        scores = torch.from_numpy(np.asarray(self.model.predict_proba(array_of(x)))).to(x.device)
        single = scores.dim() == 1 or scores.shape[1] == 1
        return two_classes(scores, "probability") if single else scores


class Binary(nn.Module):
    """A model with one score per input as one with two classes."""

    def __init__(self, model: Any, score: Score) -> None:
        super().__init__()
        if score not in SCORES:
            raise SettingError(f"score={score!r} must be one of {', '.join(SCORES)}")
        self.model, self.score = model, score
        self.training = isinstance(model, nn.Module) and model.training

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 2)."""
        return two_classes(torch.as_tensor(self.model(x)), self.score)


def two_classes(scores: Tensor, score: Score) -> Tensor:
    """The scores of classes 0 and 1 from the one of class 1: above 0 as a logit, above 1/2 as a probability.

    >>> two_classes(torch.tensor([-2.0, 2.0]), "logit").argmax(dim=1), two_classes(torch.tensor([0.4]), "probability")
    (tensor([0, 1]), tensor([[0.6000, 0.4000]]))
    """
    one = scores.reshape(len(scores))
    return torch.stack([1 - one if score == "probability" else torch.zeros_like(one), one], dim=1)


def array_of(x: Tensor) -> Any:
    """A batch as an array, for a model that has no gradients."""
    if torch.is_grad_enabled() and x.requires_grad:
        raise ModelError(
            "the model works on arrays and has no gradients, and gradients were asked for (by training, an attack or a tuner that "
            "climbs them); use a PyTorch model for that, or a method without gradients"
        )
    return x.detach().cpu().numpy()


def recognised(model: Any) -> nn.Module | None:
    """The module that asks a model which is not called on a batch of tensors; None for one that is, or for what is no model."""
    if isinstance(model, nn.Sequential) and len(model) and isinstance(model[-1], nn.Sigmoid):
        return Binary(model, "probability")
    if isinstance(model, nn.Module):
        return None
    if isinstance(model, Fitted):
        return Estimator(model)
    if isinstance(model, Configured):
        raise ModelError(f"{type(model).__name__} has no classes_, so it is no fitted classifier; call its fit first")
    return Probabilities(model) if isinstance(model, Predicting) else None
