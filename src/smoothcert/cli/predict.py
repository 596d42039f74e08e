"""smoothcert predict: the smoothed classifier's answers."""

from __future__ import annotations

import json as jsonlib
import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, indices_of, smoother_of
from smoothcert.cli.console import output, progress_bar
from smoothcert.errors import SettingError

if TYPE_CHECKING:
    from smoothcert.data.base import Dataset
    from smoothcert.memory.memory import Memory
    from smoothcert.smoother import Smoother

NAME = "predict"
EXAMPLE = "smoothcert predict --model cnn.safetensors --data digits --sigma 0.5 --limit 10"


def command(
    context: typer.Context,
    votes: Annotated[int | None, typer.Option(help="Votes per input. [default: as many as --select]", min=1)] = None,
    model: o.Model = None,
    weights: o.Weights = None,
    mean: o.Mean = None,
    std: o.Std = None,
    identity: o.Identity = None,
    data: o.Data = None,
    root: o.Root = None,
    split: o.Split = None,
    size: o.Size = None,
    crop: o.Crop = None,
    classes: o.Classes = None,
    limit: o.Limit = None,
    skip: o.Skip = None,
    indices: o.Indices = None,
    download: o.Download = None,
    noise: o.NoiseLaw = None,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    loc: o.Loc = None,
    grid: o.Grid = None,
    norm: o.Norm = None,
    method: o.Method = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="A memory's file, or a run directory that holds one: what was promised there is answered first."
        ),
    ] = None,
    select: o.Select = None,
    alpha: o.Alpha = None,
    seed: o.Seed = None,
    block: o.Block = None,
    workers: o.Workers = None,
    shared_noise: o.SharedNoise = None,
    channels_last: o.ChannelsLast = None,
    precision: o.Precision = None,
    compiled: o.Compiled = None,
    check: o.Check = None,
    own_randomness: o.OwnRandomness = None,
    device: o.Device = None,
    config: o.Config = None,
    assign: o.Assign = None,
    json: o.Json = False,
) -> None:
    """Answer inputs with the smoothed classifier; it abstains where the votes cannot tell.

    Each answer differs from the true majority with probability at most alpha. With a memory, an input in a stored region
    gets the promised answer without a call of the model; any other answer is stored, so that it stays the same.
    """
    settings = o.settings_of(context, "certify")
    if settings.certify.memory == o.IN_RUN:
        raise SettingError("--memory needs a value here: a memory's file, or the run directory that holds it")
    dataset = dataset_of(settings.data)
    chosen = indices_of(settings.data, dataset)
    with ExitStack() as stack:
        kept = (
            None if settings.certify.memory is None else stack.enter_context(_memory(settings.certify.memory, dataset))
        )
        rows = _answers(smoother_of(settings, dataset, kept), dataset, chosen, votes)
    if json:
        print(jsonlib.dumps(rows))
        return
    output.print("\t".join(["index", "truth", "answer", *(["from"] if kept is not None else [])]))
    for row in rows:
        truth = "?" if row["truth"] is None else row["truth"]
        answer = "abstain" if row["answer"] is None else row["answer"]
        output.print("\t".join(map(str, [row["index"], truth, answer, *list(row.values())[3:]])), highlight=False)


def _memory(place: str, dataset: Dataset) -> Memory:
    from smoothcert.memory.memory import Memory
    from smoothcert.memory.of_run import keeper_at

    return Memory.open(keeper_at(place), dim=math.prod(dataset.shape), create=False)


def _answers(smoother: Smoother, dataset: Dataset, chosen: list[int], votes: int | None) -> list[dict[str, Any]]:
    """A row per input; with a memory, it says who answered."""
    import torch

    if smoother.tuner.reads_input:
        smoother.refer_to(dataset)
    rows = []
    with progress_bar() as bar:
        for index in bar.track(chosen, description="predict"):
            x = torch.from_numpy(dataset.inputs([index]))
            row: dict[str, Any] = {"index": index, "truth": dataset.truths([index])[0], "answer": None}
            if smoother.memory is not None:
                promised = smoother.memory.answer(smoother.noise.center_of(x[0]))
                row["from"] = "model" if promised is None else "memory"
            [row["answer"]] = smoother.predict(x, index, votes=votes)
            rows.append(row)
    return rows
