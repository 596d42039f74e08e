"""Before anything is trained: how much work an entry is, from one block of votes of an untrained network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from smoothcert import data
from smoothcert.data.selection import choose_indices
from smoothcert.engine import Engine
from smoothcert.forecast import forecast
from smoothcert.models.architecture import Architecture
from smoothcert.noise import Noise
from smoothcert.papers.planning import Certification, Network
from smoothcert.papers.reproduce import RUNS, Task, weights_of
from smoothcert.smoother import Smoother
from smoothcert.store import opened
from smoothcert.training import recipe_named

BACKWARD = 3  # a pass with gradients takes about as long as so many votes


@dataclass(frozen=True)
class Cost:
    """What is left to do: networks, passes of a training example, runs, votes, and seconds on this machine."""

    networks: int
    passes: int
    runs: int
    votes: int
    seconds: float

    def __str__(self) -> str:
        time = f"{self.seconds:,.0f} s" if self.seconds < 7200 else f"{self.seconds / 3600:,.0f} h"
        return (
            f"to do: {self.networks} networks to train ({self.passes:,} passes forward and back), {self.runs} runs to certify "
            f"(at most {self.votes:,} votes); about {time} on this machine by one timed block of votes per network, and the "
            "work of choosing noise per input"
        )


def cost(task: Task) -> Cost:
    """What is left of a task; nothing is written, and data that are not there are refused."""
    runs = {run.folder: run for block in task.blocks for group in block.runs.values() for run in group}
    timed, size = cache(_seconds_per_vote), cache(_size)
    votes = {name: _votes_left(task, run, size) for name, run in runs.items()}
    passes: dict[str, int] = {}
    seconds = 0.0
    for name, run in runs.items():
        rate = timed(
            str(run.network.settings["model.source"]), str(run.settings["data.source"]), run.settings["engine.device"]
        )
        before = sum(passes.values())
        network: Network | None = run.network
        while network is not None and not network.given and not weights_of(task, network).is_file():
            passes.setdefault(network.folder, _passes(network.settings, size))
            network = network.start
        seconds += rate * (votes[name] + BACKWARD * (sum(passes.values()) - before))
    left = sum(number > 0 for number in votes.values())
    return Cost(len(passes), sum(passes.values()), left, sum(votes.values()), seconds)


def _votes_left(task: Task, run: Certification, size: Callable[[str, str], int]) -> int:
    settings: dict[str, Any] = dict(run.settings)
    number = size(settings["data.source"], "test")
    inputs = choose_indices(number, limit=settings.get("data.limit"), skip=settings.get("data.skip", 1))
    place, known = task.kept / RUNS / run.folder, set[int]()
    if place.is_dir():
        with opened(place) as store:
            known = store.indices() if store.begun else known
    return len(set(inputs) - known) * int(settings["votes.trials"] + settings["votes.select"])


def _passes(source: Any, size: Callable[[str, str], int]) -> int:
    """Of single examples through the network in a training; a recipe may need several."""
    number = size(source["data.source"], "train")
    recipe = recipe_named(source["train.recipe"])
    draws, steps = vars(recipe).get("draws", 1), vars(recipe).get("steps", 0)
    several = (2 if recipe.name == "stability" else draws) * (steps + 1)
    return int(min(number, source.get("data.limit", number)) * source["train.epochs"] * several)


def _size(source: str, split: str) -> int:
    return len(data.load(source, split=split, download=True))


def _seconds_per_vote(network: str, source: str, device: Any) -> float:
    """Of a network with fresh weights, timed by one block."""
    dataset = data.load(source, download=True)
    model = Architecture.of({"name": network, "shape": dataset.shape, "classes": dataset.classes}).build().eval()
    smoother = Smoother(model, Noise.isotropic("gaussian", 0.25, grid=dataset.grid), engine=Engine(device=device))
    told = forecast(smoother, torch.from_numpy(dataset.inputs([0]))[0], 0, 1)
    smoother.close()
    return told.seconds / told.votes
