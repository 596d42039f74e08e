"""What a user should know before the votes, though nothing of it is wrong: said once, on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.cli.build import indices_of
from smoothcert.cli.console import errors
from smoothcert.config import DataSettings, Settings
from smoothcert.errors import SmoothcertError

if TYPE_CHECKING:
    from smoothcert.data.base import Dataset
    from smoothcert.smoother import Smoother

SAMPLE = 16  # inputs that are looked at
SMALL = 0.02  # of the range of the inputs: less noise than that hardly moves them
TRAINED_WITH, TRAINED_HOW = "smoothcert.noise", "smoothcert.settings"  # where a file of weights says it


def advise(settings: Settings, smoother: Smoother, dataset: Dataset, indices: list[int]) -> None:
    """Print a note for each thing that makes poor certificates more often than not."""
    from smoothcert.sight import Sight

    notes = [*_random(settings, smoother), *_learned(settings, dataset, indices)]
    if not isinstance(smoother.noise, Sight):  # views have no sigma
        notes += [*_trained_otherwise(settings, smoother), *_wide(smoother, dataset, indices)]
    for note in notes:
        errors.print(f"note: {note}", style="yellow")


def _trained_otherwise(settings: Settings, smoother: Smoother) -> Iterator[str]:
    """Was the network trained with other noise? Its file says with which."""
    from smoothcert.training.naming import noise_in_words

    file, told = _weights(settings)
    if smoother.tuner.reads_input:
        return
    trained = told.get(TRAINED_WITH)
    here = noise_in_words(smoother.noise, None)
    # Noise per coordinate is told by a hash, which says nothing to anybody.
    if trained is not None and trained != here and "sha256" not in trained + here and "shaped" not in trained:
        with_what = "without noise" if trained == "none" else f"with {trained}"
        yield f"{file} was trained {with_what}, and is certified with {here}; it answers best under the noise it was trained with"


def _learned(settings: Settings, dataset: Dataset, indices: list[int]) -> Iterator[str]:
    """Was the network trained on these very inputs? Its file says on which."""
    file, told = _weights(settings)
    try:
        trained = json.loads(json.loads(told.get(TRAINED_HOW, "{}")).get("data") or "{}")
        if not trained or trained.pop("fingerprint") != dataset.fingerprint():
            return
        seen = set(indices_of(DataSettings(**trained), dataset)).intersection(indices)
    except (ValueError, TypeError, AttributeError, KeyError, SmoothcertError):  # a file of somebody else
        return
    if seen:
        yield (
            f"{file} was trained on {len(seen)} of these {len(indices)} inputs: each certificate holds, but the accuracy says nothing "
            "of new inputs; certify those that it has not seen (another file or split, or --indices)"
        )


def _weights(settings: Settings) -> tuple[Path, dict[str, str]]:
    """The file of weights, and what it says of itself; nothing if it is not one of training."""
    from smoothcert.models import read_metadata

    file = Path(settings.model.weights or settings.model.source or "")
    return file, read_metadata(file) if file.suffix.lower() == ".safetensors" else {}


def _random(settings: Settings, smoother: Smoother) -> Iterator[str]:
    """Are the weights of a factory drawn anew at every call?"""
    from torch import nn

    from smoothcert.models.factory import from_factory, is_factory

    source = str(settings.model.source)
    if settings.model.weights is not None or not is_factory(source):
        return
    again = from_factory(source)
    if isinstance(again, nn.Module):
        here = [value.detach().cpu() for value in smoother.model.parameters()]
        there = [value.detach().cpu() for value in again.parameters()]
        if len(here) == len(there) and any(not a.equal(b) for a, b in zip(here, there, strict=True)):
            yield f"{source} gives other weights at every call, so this network is random, and no run of it can be repeated: give --weights"


def _wide(smoother: Smoother, dataset: Dataset, indices: list[int]) -> Iterator[str]:
    """Is the noise small beside the range of the inputs?"""
    values = dataset.inputs(indices[:SAMPLE])
    low, high = float(values.min()), float(values.max())
    std = smoother.noise.law.std
    sigma = float(smoother.noise.scale.max()) * (1.0 if std is None else std)
    if (low < 0 or high > 1) and sigma < SMALL * (high - low):
        yield (
            f"the inputs go from {low:g} to {high:g}, and sigma {sigma:g} is {sigma / (high - low):.1%} of that: radii are in the units "
            "of the inputs; give a larger --sigma, or inputs in [0, 1]"
        )
