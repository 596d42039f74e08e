"""What must be known to rebuild a built-in model; written into the files that training saves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from smoothcert.errors import ModelError
from smoothcert.models.factory import from_factory, is_factory
from smoothcert.models.networks import REGISTRY, is_network
from smoothcert.models.normalize import check_normalisation, with_normalisation

CONFIDENCE_KEY = "smoothcert.confidence"  # from what softmax on a view votes, where training chose one
ARCHITECTURE_KEY = "smoothcert.architecture"
FIELDS = ("name", "shape", "classes", "mean", "std")


@dataclass(frozen=True)
class Architecture:
    """A model without its weights: its name with its sizes, the shape of one input, its classes and its normalisation.

    >>> Architecture("mlp", (1, 8, 8), 10).to_json()
    '{"classes": 10, "mean": null, "name": "mlp", "shape": [1, 8, 8], "std": null}'
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1 or self.classes < 2:
            raise ModelError(
                f"an architecture needs a shape of positive sizes and 2 classes or more; "
                f"got shape {self.shape} and {self.classes} classes"
            )
        if self.mean is not None and self.std is not None:
            check_normalisation(self.mean, self.std, self.shape[0])
        elif self.mean is not None or self.std is not None:
            raise ModelError(f"mean and std go together; got mean {self.mean} and std {self.std}; give both or neither")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Architecture:
        """The architecture with these fields, as read from JSON or given by hand."""
        unknown = [name for name in fields if name not in FIELDS]
        missing = [name for name in FIELDS[:3] if name not in fields]
        if unknown or missing:
            raise ModelError(
                f"an architecture has the fields {', '.join(FIELDS)} (mean and std may be left out); "
                f"unknown: {', '.join(unknown) or 'none'}, missing: {', '.join(missing) or 'none'}"
            )
        mean, std = fields.get("mean"), fields.get("std")
        try:
            return cls(
                name=str(fields["name"]),
                shape=tuple(int(size) for size in fields["shape"]),
                classes=int(fields["classes"]),
                mean=None if mean is None else tuple(float(value) for value in mean),
                std=None if std is None else tuple(float(value) for value in std),
            )
        except (TypeError, ValueError) as error:
            raise ModelError(f"not an architecture: {dict(fields)}: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> Architecture:
        """The architecture that ``to_json`` wrote."""
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise ModelError(f"the recorded architecture is not JSON: {error}; got {text[:80]!r}") from error
        if not isinstance(fields, dict):
            raise ModelError(f"the recorded architecture must be a JSON object; got {text[:80]!r}")
        return cls.of(fields)

    def to_json(self) -> str:
        """One line of JSON, the same for equal architectures."""
        return json.dumps(asdict(self), sort_keys=True)

    def build(self) -> nn.Module:
        """A fresh model with random weights, normalisation in front if there is one."""
        model = self._built()
        if self.mean is None or self.std is None:
            return model
        return with_normalisation(model, self.mean, self.std)

    def _built(self) -> nn.Module:
        """The network alone: by its name, or what a factory returns, which must fit the shape and the classes by itself."""
        if is_network(self.name) or not is_factory(self.name):
            return REGISTRY.make(self.name).build(self.shape, self.classes)
        model = from_factory(self.name)
        if not isinstance(model, nn.Module):
            raise ModelError(f"{self.name} returned a {type(model).__name__}; only a torch.nn.Module can be trained")
        return model
