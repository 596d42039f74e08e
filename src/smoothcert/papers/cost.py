"""Before anything is trained: how much work an entry is, from one block of votes of an untrained network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from smoothcert import data
from smoothcert.data.selection import choose_indices
from smoothcert.engine import Engine
from smoothcert.forecast import forecast
from smoothcert.models.architecture import Architecture
from smoothcert.noise import Noise
from smoothcert.papers.planning import Certification, Network
from smoothcert.papers.reproduce import MODELS, RUNS, Task
from smoothcert.sections import Source
from smoothcert.smoother import Smoother
from smoothcert.store import opened
from smoothcert.training import recipe_named
from smoothcert.training.settings import TrainSettings

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
        days = self.seconds / 86_400
        time = f"{self.seconds:,.0f} s" if self.seconds < 7200 else f"{self.seconds / 3600:,.1f} h"
        return (
            f"to do: {self.networks} networks to train ({self.passes:,} passes forward and back), {self.runs} runs to certify "
            f"(at most {self.votes:,} votes); about {time}{f' ({days:,.0f} days)' if days > 2 else ''} on this machine by one timed "
            "block of votes per network, and the work of choosing noise per input"
        )


def cost(task: Task) -> Cost:
    """What is left of a task; nothing is written, and data that are not there are refused."""
    runs = {run.folder: run for block in task.blocks for group in block.runs.values() for run in group}
    networks = {}
    for run in runs.values():
        each: Network | None = run.network
        while each is not None:
            networks[each.folder] = each
            each = each.start
    rates: dict[tuple[object, object], float] = {}
    votes = passes = done = 0
    seconds = 0.0
    for run in runs.values():
        own = _votes_left(task, run)
        votes, done = votes + own, done + (own == 0)
        seconds += own * _seconds_per_vote(run, rates)
    left = [each for each in networks.values() if not (task.kept / MODELS / each.folder / "model.safetensors").is_file()]
    trained = [each for each in left if not each.given]
    for network in trained:
        own = _passes(network.settings)
        run = next(run for run in runs.values() if run.network.settings["model.source"] == network.settings["model.source"])
        passes, seconds = passes + own, seconds + BACKWARD * own * _seconds_per_vote(run, rates)
    return Cost(len(trained), passes, len(runs) - done, votes, seconds)


def _votes_left(task: Task, run: Certification) -> int:
    settings = run.settings
    number = len(data.load(str(settings["data.source"]), split="test", download=True))
    inputs = choose_indices(number, limit=_whole(settings, "data.limit"), skip=_whole(settings, "data.skip") or 1)
    place = task.kept / RUNS / run.folder
    known: set[int] = set()
    if place.is_dir():
        with opened(place) as store:
            known = store.indices() if store.begun else set()
    each = int(str(settings["votes.trials"])) + int(str(settings["votes.select"]))
    return len(set(inputs) - known) * each


def _passes(settings: Source) -> int:
    """Of single examples through the network in a training; a recipe may need several."""
    number = len(data.load(str(settings["data.source"]), split="train", download=True))
    recipe = recipe_named(str(settings["train.recipe"]))
    draws = {"stability": 2}.get(recipe.name, 1) * int(vars(recipe).get("draws", 1))
    each = draws * (int(vars(recipe).get("steps", 0)) + 1)
    epochs = int(str(settings.get("train.epochs", TrainSettings.epochs)))
    return min(number, _whole(settings, "data.limit") or number) * epochs * each


def _seconds_per_vote(run: Certification, rates: dict[tuple[object, object], float]) -> float:
    """Of the run's network with fresh weights, timed once."""
    key = (run.network.settings["model.source"], run.settings["data.source"])
    if key not in rates:
        dataset = data.load(str(key[1]), split="test", download=True)
        assert dataset.classes is not None
        model = Architecture.of({"name": key[0], "shape": dataset.shape, "classes": dataset.classes}).build().eval()
        noise = Noise.isotropic("gaussian", run.sigma, grid=dataset.grid)
        smoother = Smoother(model, noise, estimate=1000, engine=Engine(device=str(run.settings["engine.device"])))
        told = forecast(smoother, torch.from_numpy(dataset.inputs([0]))[0], 0, 1)
        smoother.close()
        rates[key] = told.seconds / told.votes if math.isfinite(told.seconds) else 0.0
    return rates[key]


def _whole(settings: Source, path: str) -> int | None:
    value = settings.get(path)
    return None if value is None else int(str(value))
