"""Classifiers: built-in architectures, and any other as a module from a batch to logits.

A new architecture is one file with a function ``(shape, classes) -> nn.Module`` and one line of MODELS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from smoothcert.models.adapters import Classifier, classifier_of, unfixed
from smoothcert.models.architecture import ARCHITECTURE_KEY, CONFIDENCE_KEY, Architecture
from smoothcert.models.exported import Exported
from smoothcert.models.loading import load_model
from smoothcert.models.mlp import mlp
from smoothcert.models.normalize import Normalize, with_normalisation
from smoothcert.models.resnet import resnet18, resnet50, resnet110, wide_resnet40
from smoothcert.models.small_cnn import lenet, small_cnn, tiny_cnn
from smoothcert.models.weights import load_weights, read_metadata, read_state, save_weights

__all__ = [
    "ARCHITECTURE_KEY",
    "CONFIDENCE_KEY",
    "MODELS",
    "Architecture",
    "Classifier",
    "Exported",
    "Normalize",
    "classifier_of",
    "lenet",
    "load_model",
    "load_weights",
    "mlp",
    "read_metadata",
    "read_state",
    "resnet18",
    "resnet50",
    "resnet110",
    "save_weights",
    "small_cnn",
    "tiny_cnn",
    "unfixed",
    "wide_resnet40",
    "with_normalisation",
]

MODELS: dict[str, Callable[[Sequence[int], int], nn.Module]] = {
    "mlp": mlp,
    "lenet": lenet,
    "tiny_cnn": tiny_cnn,
    "small_cnn": small_cnn,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "resnet110": resnet110,
    "wide_resnet40": wide_resnet40,
}
