"""Models of other libraries: a folder saved by transformers, and the architectures of timm and torchvision by name.

folder/               what save_pretrained wrote: config.json, model.safetensors, perhaps preprocessor_config.json
hub:OWNER/NAME        such a folder of the Hugging Face hub, fetched once
timm:NAME             with a weights file
torchvision:NAME      with a weights file
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smoothcert.errors import ModelError, WeightsError
from smoothcert.extras import import_extra
from smoothcert.models.adapters import classifier_of
from smoothcert.models.normalize import with_normalisation

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
HUB = "hub:"
LIBRARIES = ("timm", "torchvision")


def is_pretrained(path: Path) -> bool:
    """Is this a folder that transformers wrote?"""
    return (path / CONFIG).is_file()


def load_pretrained(folder: Path, shape: Sequence[int], normalised: bool) -> nn.Module:
    """The image classifier of a local folder, for inputs in [0, 1]; nothing is downloaded, no code of the folder is run.

    Unless ``normalised`` says that the caller normalises, the mean and std that the folder records are put in front.
    """
    transformers = import_extra("transformers", "models of transformers")
    try:
        network = transformers.AutoModelForImageClassification.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
        )
    except Exception as error:  # missing weights, an unknown kind of model, a pickle
        raise WeightsError(
            f"{folder} cannot be read as an image classifier of transformers: {error}; allowed: a folder written by "
            "model.save_pretrained, with model.safetensors"
        ) from error
    model: nn.Module = classifier_of(network)
    recorded = None if normalised else _recorded_normalisation(folder)
    if recorded is not None:
        model = with_normalisation(model, *recorded)
    try:
        with torch.no_grad():
            model(torch.zeros(1, *shape))
    except (ValueError, RuntimeError, ModelError) as error:
        raise ModelError(
            f"the model of {folder} refuses inputs of shape {tuple(shape)}: {error}; give data of its size (--data folder:path=…,size=…)"
        ) from error
    return model.eval()


def is_hub(spec: str) -> bool:
    """Is this written as hub:owner/name?"""
    return spec.startswith(HUB)


def fetched(spec: str) -> Path:
    """The local folder of hub:owner/name, or of hub:folder; weights and settings are fetched if they are missing, code never is."""
    name = spec.removeprefix(HUB)
    if Path(name).is_dir():
        return Path(name)
    hub = import_extra("huggingface_hub", "models of the Hugging Face hub", "transformers")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
    except Exception as error:  # no network, no such model, a private one: the library raises of all kinds
        raise ModelError(
            f"{name!r} cannot be fetched from the Hugging Face hub: {error}; give its name there, as hub:owner/name, or a folder"
        ) from error


def is_library(spec: str) -> bool:
    """Is this written as timm:name or torchvision:name?"""
    return spec.partition(":")[0] in LIBRARIES and ":" in spec


def build_from_library(spec: str, shape: Sequence[int], classes: int) -> nn.Module:
    """The architecture ``library:name`` with random weights."""
    library, _, name = spec.partition(":")
    if library == "timm":
        timm = import_extra("timm", "models of timm")
        return _built(spec, lambda: timm.create_model(name, pretrained=False, num_classes=classes, in_chans=shape[0]))
    torchvision = import_extra("torchvision", "models of torchvision")
    return _built(spec, lambda: torchvision.models.get_model(name, weights=None, num_classes=classes))


def _built(spec: str, build: Any) -> nn.Module:
    try:
        model: nn.Module = build()
    except Exception as error:  # an unknown name, or one that takes other arguments
        raise ModelError(f"{spec} cannot be built: {error}; give the name of an image classifier there") from error
    return model


def _recorded_normalisation(folder: Path) -> tuple[list[float], list[float]] | None:
    """The channel means and standard deviations that the folder's preprocessor subtracts and divides by."""
    if not (folder / PREPROCESSOR).is_file():
        return None
    try:
        fields = json.loads((folder / PREPROCESSOR).read_text(encoding="utf-8"))
        if not fields.get("do_normalize", True) or "image_mean" not in fields:
            return None
        return [float(value) for value in fields["image_mean"]], [float(value) for value in fields["image_std"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(
            f"{folder / PREPROCESSOR} does not say mean and std as transformers does: {error}"
        ) from error
