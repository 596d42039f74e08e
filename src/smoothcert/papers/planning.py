"""From an entry and a scale to ordinary runs: which networks to train, and what to certify with them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.errors import DataError, SettingError
from smoothcert.papers.catalogue import Entry, Method, Part, Training, flat, scale_named
from smoothcert.registry import split_spec, written
from smoothcert.sections import Source

ATTACK = "attack "  # a column that begins so names an attack


@dataclass(frozen=True)
class Network:
    """A network to train, with the settings of ``smoothcert train``; a given one is too large for that, and brought."""

    folder: str
    settings: Source
    start: Network | None = None
    given: bool = False


@dataclass(frozen=True)
class Certification:
    """A run to certify, with the settings of ``smoothcert certify`` but for the model."""

    folder: str
    network: Network
    settings: Source
    sigma: float


@dataclass(frozen=True)
class Block:
    """A part of an entry at a scale: the runs of each training and method, one per sigma; none where ``reason`` says why."""

    part: Part
    runs: Mapping[tuple[str, str], tuple[Certification, ...]]
    reason: str = ""

    @property
    def title(self) -> str:
        """Data, network and norm as published, and ours where they are others."""
        made = next((run for group in self.runs.values() for run in group), None)
        ours = made and (str(made.settings["data.source"]), str(made.network.settings["model.source"]))
        other = ours is not None and ours != (self.part.data, self.part.network)
        return self.part.title + (f" (ours: {', '.join(ours)})" if ours and other else "")

    @property
    def attacks(self) -> tuple[str, ...]:
        """The attacks that its columns name."""
        return tuple(column.removeprefix(ATTACK) for column in self.part.columns if column.startswith(ATTACK))


def planned(entry: Entry, scale: str, imagenet: Path | None = None, device: str = "cpu") -> list[Block]:
    """Every part with its runs; refused if the entry cannot be run, or none of its data are there at this scale."""
    settings = scale_named(scale)
    if entry.reason:
        raise SettingError(f"{entry.name} ({entry.title}) cannot be run: {entry.reason}; smoothcert reproduce --list")
    if imagenet is not None and not imagenet.is_dir():
        raise DataError(f"--imagenet {imagenet} is no folder; give the one of the validation images, in class folders")
    blocks = [_block(entry, part, scale, settings, imagenet, device) for part in entry.parts]
    if blocks and all(block.reason for block in blocks):
        raise DataError(f"{entry.name} cannot be run at scale {scale}: {blocks[0].reason}")
    return blocks


def _block(
    entry: Entry, part: Part, scale: str, settings: dict[str, Any], imagenet: Path | None, device: str
) -> Block:
    reason = _left_out(part.data, scale, settings, imagenet)
    if reason:
        return Block(part, {}, reason)
    place = settings["data"][part.data]
    data = place["source"].format(imagenet=imagenet)
    sigmas = [sigma for sigma in part.sigmas if sigma in settings.get("sigmas", part.sigmas)] or part.sigmas[:1]
    runs = {}
    for row in (row for row in part.rows if part.runs_at(row, scale)):
        for method in (row.method, *part.rivals):
            made = []
            for sigma in sigmas:
                network = _network(entry, part, row.training, method, sigma, settings, data, device)
                made.append(_certification(part, method, network, sigma, settings, data, device))
            runs[row.training.name, method.name] = tuple(made)
    return Block(part, runs)


def _left_out(data: str, scale: str, settings: dict[str, Any], imagenet: Path | None) -> str:
    if data not in settings["data"]:
        return f"{data} is too large for it; give --scale paper with --imagenet DIR, or --scale smoke"
    if "{imagenet}" in settings["data"][data]["source"] and imagenet is None:
        return "it needs the validation images of ImageNet, and no folder of them was given; give --imagenet DIR"
    return ""


def _network(
    entry: Entry,
    part: Part,
    training: Training,
    method: Method,
    sigma: float,
    scale: dict[str, Any],
    data: str,
    device: str,
) -> Network:
    """The network of a row: the training of the paper, over it that of the scale."""
    network = scale["data"][part.data].get("network", part.network)
    source = {
        "noise.sigma": sigma,
        "noise.law": method.trained or method.law or part.law,
        **training.settings,
        **flat({"train": scale.get("train", {}), "data": scale.get("learn", {})}),
        "model.source": network,
        "data.source": data,
        "train.device": device,
    }
    start = training.start and _network(
        entry, part, entry.trainings[training.start], method, sigma, scale, data, device
    )
    given = data.startswith("folder:")
    return Network(_folder([data.partition(":")[0], training.name, sigma], source, start), source, start or None, given)


def _certification(
    part: Part, method: Method, network: Network, sigma: float, scale: dict[str, Any], data: str, device: str
) -> Certification:
    inputs = scale["data"][part.data].get("inputs", {}) | scale.get("inputs", {})
    source = {
        **part.settings,
        **method.settings,
        **flat({"votes": scale.get("votes", {}), "data": inputs}),
        "votes.method": _method(str(method.settings["votes.method"]), scale.get("methods", {})),
        "votes.norm": part.norm if part.cast_in is None else float(part.cast_in),
        "noise.law": method.law or part.law,
        "noise.sigma": sigma,
        "data.source": data,
        "engine.device": device,
    }
    return Certification(_folder([method.name, network.folder], source, network), network, source, sigma)


def _method(spec: str, smaller: Mapping[str, str]) -> str:
    """The method with the parameters that a scale gives it, but for those that it has itself.

    >>> _method("ancer:kappa=1", {"ancer": "steps=3,kappa=2"})
    'ancer:kappa=1,steps=3'
    """
    name, own = split_spec(spec)
    given = [text for text in (own, smaller.get(name, "")) if text]
    parameters = dict(reversed([piece.split("=") for text in given for piece in text.split(",")]))
    ordered = [f"{key}={parameters[key]}" for key in reversed(parameters)]
    return f"{name}:{','.join(ordered)}" if ordered else name


def _folder(words: list[object], settings: Source, more: object = None) -> str:
    """A name that people can read, and that other settings do not share."""
    told = json.dumps([settings, repr(more)], sort_keys=True)
    text = "-".join(word if isinstance(word, str) else written(word) for word in words)
    return f"{re.sub(r'-[0-9a-f]{8}$', '', text)}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"
