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
    title: str
    reason: str = ""

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
    blocks = [_block(part, scale, settings, imagenet, device) for part in entry.parts]
    if blocks and all(block.reason for block in blocks):
        raise DataError(f"{entry.name} cannot be run at scale {scale}: {blocks[0].reason}")
    return blocks


def _block(part: Part, scale: str, settings: dict[str, Any], imagenet: Path | None, device: str) -> Block:
    place = settings["data"].get(part.data)
    if place is None:
        reason = f"{part.data} is too large for it; give --scale paper with --imagenet DIR, or --scale smoke"
        return Block(part, {}, part.title, reason)
    if "{imagenet}" in place["source"] and imagenet is None:
        reason = "it needs the validation images of ImageNet, and no folder of them was given; give --imagenet DIR"
        return Block(part, {}, part.title, reason)
    maker = _Maker(part, settings, place["source"].format(imagenet=imagenet), place, device)
    sigmas = [sigma for sigma in part.sigmas if sigma in settings.get("sigmas", part.sigmas)] or part.sigmas[:1]
    runs = {
        (row.training.name, method.name): tuple(maker.run(row.training, method, sigma) for sigma in sigmas)
        for row in part.rows
        if part.runs_at(row, scale)
        for method in (row.method, *part.rivals)
    }
    other = (maker.data, maker.model) != (part.data, part.network)
    return Block(part, runs, part.title + (f" (ours: {maker.data}, {maker.model})" if other else ""))


@dataclass(frozen=True)
class _Maker:
    """Makes the settings of a part: those of the paper, and over them those of the scale."""

    part: Part
    scale: dict[str, Any]
    data: str
    place: dict[str, Any]
    device: str

    @property
    def model(self) -> str:
        return str(self.place.get("network", self.part.network))

    def network(self, training: Training, law: str, sigma: float) -> Network:
        source = {
            "noise.sigma": sigma,
            "noise.law": law,
            **training.settings,
            **flat({"train": self.scale.get("train", {}), "data": self.scale.get("learn", {})}),
            "model.source": self.model,
            "data.source": self.data,
            "train.device": self.device,
        }
        start = None if training.start is None else self.network(training.start, law, sigma)
        folder = _folder([self.data.partition(":")[0], training.name, sigma], source, start)
        return Network(folder, source, start, given=self.data.startswith("folder:"))

    def run(self, training: Training, method: Method, sigma: float) -> Certification:
        part, law = self.part, method.law or self.part.law
        network = self.network(training, method.trained or law, sigma)
        inputs = self.place.get("inputs", {}) | self.scale.get("inputs", {})
        source = {
            **part.settings,
            **method.settings,
            **flat({"votes": self.scale.get("votes", {}), "data": inputs}),
            "votes.method": _method(str(method.settings["votes.method"]), self.scale.get("methods", {})),
            "votes.norm": part.norm if part.cast_in is None else float(part.cast_in),
            "noise.law": law,
            "noise.sigma": sigma,
            "noise.box": "none",  # the papers clip nothing
            "data.source": self.data,
            "engine.device": self.device,
        }
        return Certification(_folder([method.name, network.folder], source, network), network, source, sigma)


def _method(spec: str, smaller: Mapping[str, str]) -> str:
    """The method with the parameters that a scale gives it, but for those that it has itself.

    >>> _method("ancer:kappa=1", {"ancer": "steps=3,kappa=2"})
    'ancer:steps=3,kappa=1'
    """
    name, own = split_spec(spec)
    pieces = [piece.split("=") for text in (smaller.get(name), own) if text for piece in text.split(",")]
    parameters = ",".join(f"{key}={value}" for key, value in dict(pieces).items())
    return f"{name}:{parameters}" if parameters else name


def _folder(words: list[object], settings: Source, more: object) -> str:
    """A name that people can read, and that other settings do not share."""
    told = json.dumps([settings, repr(more)], sort_keys=True)
    text = "-".join(map(written, words))
    return f"{re.sub(r'-[0-9a-f]{8}$', '', text)}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"
