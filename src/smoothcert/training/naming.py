"""What a training run is called: what a resumed one must share with it, and what its files say of themselves."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from torch import nn

from smoothcert.identity import described, identity
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.noise import Noise
from smoothcert.registry import setting_of
from smoothcert.training.base import Recipe
from smoothcert.training.batches import Examples
from smoothcert.training.checkpoints import Progress
from smoothcert.training.settings import TrainSettings
from smoothcert.views import View


def facts_of(settings: TrainSettings) -> dict[str, Any]:
    """All settings that change a weight."""
    return {
        each.name: getattr(settings, each.name) for each in fields(settings) if setting_of(each).changes != "nothing"
    }


def run_of(
    settings: TrainSettings,
    recipe: Recipe,
    noise: str,
    shape: Architecture,
    data: Examples,
    validation: Examples | None,
) -> dict[str, str]:
    """All that a resumed run must share with the one it goes on from, by name."""
    told = {name: json.dumps(value) for name, value in facts_of(settings).items()}
    return told | {
        "recipe": described(recipe),
        "noise": noise,
        "architecture": shape.to_json(),
        "data": data.digest(),
        "validation": "none" if validation is None else validation.digest(),
    }


def metadata_of(
    settings: TrainSettings, recipe: Recipe, noise: str, shape: Architecture, done: Progress
) -> dict[str, str]:
    """What a file of weights says of itself, beside them."""
    metadata = {
        ARCHITECTURE_KEY: shape.to_json(),
        "smoothcert.recipe": str(recipe),
        "smoothcert.noise": noise,
        "smoothcert.settings": json.dumps(facts_of(settings), sort_keys=True),
        "smoothcert.epoch": str(done.epoch),
        "smoothcert.accuracy": repr(done.accuracy),
    }
    if done.validation_accuracy is not None:
        metadata["smoothcert.validation_accuracy"] = repr(done.validation_accuracy)
    return metadata


def noise_in_words(noise: Noise | View | None, generator: nn.Module | None) -> str:
    """The noise in words that differ for different noises; a generator is told by its weights unless it learns.

    >>> noise_in_words(Noise.isotropic("gaussian", 0.5), None)
    'gaussian, scale 0.5, loc 0.0'
    """
    if noise is None:
        return "none"
    if isinstance(noise, View):
        return described(noise)
    parts = []
    for value in (noise.scale, noise.loc):
        content = value.cpu().contiguous().numpy()
        short = hashlib.sha256(content.tobytes()).hexdigest()[:16]
        parts.append(repr(float(value)) if value.ndim == 0 else f"of shape {content.shape}, sha256 {short}")
    words = f"{noise.law}, scale {parts[0]}, loc {parts[1]}"
    if generator is None:
        return words
    learns = any(value.requires_grad for value in generator.parameters())
    return f"{words}, shaped by {'a generator that learns' if learns else f'generator {identity(generator)[:16]}'}"
