"""Classifiers: built-in architectures, and any other as a module from a batch to logits.

A new architecture is a ``Network`` with its sizes as fields, and its name in MODELS.
"""

from __future__ import annotations

from smoothcert.models.adapters import Classifier, adapt, classifier_of, unfixed
from smoothcert.models.architecture import ARCHITECTURE_KEY, CONFIDENCE_KEY, Architecture
from smoothcert.models.exported import Exported
from smoothcert.models.loading import load_model
from smoothcert.models.mlp import mlp
from smoothcert.models.networks import MODELS, REGISTRY, Network
from smoothcert.models.normalize import Normalize, with_normalisation
from smoothcert.models.resnet import resnet18, resnet50, resnet110, wide_resnet40
from smoothcert.models.small_cnn import lenet, small_cnn
from smoothcert.models.weights import load_weights, read_metadata, read_state, save_weights

__all__ = [
    "ARCHITECTURE_KEY",
    "CONFIDENCE_KEY",
    "MODELS",
    "REGISTRY",
    "Architecture",
    "Classifier",
    "Exported",
    "Network",
    "Normalize",
    "adapt",
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
    "unfixed",
    "wide_resnet40",
    "with_normalisation",
]
