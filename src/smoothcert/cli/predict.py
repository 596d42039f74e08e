"""smoothcert predict: the smoothed classifier's answers."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, indices_of, smoother_of
from smoothcert.cli.console import output, progress_bar

NAME = "predict"
EXAMPLE = "smoothcert predict --model cnn.safetensors --data digits --sigma 0.5 --limit 10"


def command(
    context: typer.Context,
    votes: Annotated[int | None, typer.Option(help="Votes per input. [default: as many as --select]", min=1)] = None,
    model: o.Model = None,
    weights: o.Weights = None,
    mean: o.Mean = None,
    std: o.Std = None,
    data: o.Data = None,
    root: o.Root = None,
    split: o.Split = None,
    size: o.Size = None,
    limit: o.Limit = None,
    skip: o.Skip = None,
    indices: o.Indices = None,
    download: o.Download = None,
    noise: o.NoiseLaw = None,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    loc: o.Loc = None,
    grid: o.Grid = None,
    select: o.Select = None,
    alpha: o.Alpha = None,
    seed: o.Seed = None,
    block: o.Block = None,
    workers: o.Workers = None,
    shared_noise: o.SharedNoise = None,
    channels_last: o.ChannelsLast = None,
    precision: o.Precision = None,
    compiled: o.Compiled = None,
    device: o.Device = None,
    config: o.Config = None,
    assign: o.Assign = None,
    json: o.Json = False,
) -> None:
    """Answer inputs with the smoothed classifier; it abstains where the votes cannot tell.

    Each answer differs from the true majority with probability at most alpha.
    """
    import torch

    settings = o.settings_of(context, "certify")
    dataset = dataset_of(settings.data)
    chosen = indices_of(settings.data, dataset)
    smoother = smoother_of(settings, dataset)
    rows = []
    with progress_bar() as bar:
        for index in bar.track(chosen, description="predict"):
            [answer] = smoother.predict(torch.from_numpy(dataset.inputs([index])), index, votes=votes)
            rows.append({"index": index, "truth": dataset.truths([index])[0], "answer": answer})
    if json:
        print(jsonlib.dumps(rows))
        return
    output.print("index\ttruth\tanswer")
    for row in rows:
        truth = "?" if row["truth"] is None else row["truth"]
        output.print(
            f"{row['index']}\t{truth}\t{'abstain' if row['answer'] is None else row['answer']}", highlight=False
        )
