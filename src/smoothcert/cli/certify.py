"""smoothcert certify: certificates for many inputs, into a run directory that can be resumed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.build import dataset_of, indices_of, smoother_of
from smoothcert.cli.console import errors, progress_bar
from smoothcert.config import Settings, write_settings
from smoothcert.files import write_atomically

NAME = "certify"
EXAMPLE = "smoothcert certify --model cnn.safetensors --data digits --sigma 0.5 --norm 2 --limit 100 --out runs/a"


def command(
    context: typer.Context,
    out: Annotated[
        str, typer.Option(help="The run directory, or another store as name:key=value; an existing one is continued.")
    ],
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
    memory: o.Memory = None,
    select: o.Select = None,
    estimate: o.Estimate = None,
    alpha: o.Alpha = None,
    estimator: o.Estimator = None,
    radii: o.Radii = None,
    seed: o.Seed = None,
    block: o.Block = None,
    rows: o.Rows = None,
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
) -> None:
    """Certify inputs of a data set into a run directory.

    Ctrl-C or a crash loses nothing: the same command goes on where it stopped. What was run is kept in
    OUT/run.toml, so that `smoothcert certify --config OUT/run.toml --out OUT2` repeats it.
    """
    settings = o.settings_of(context, "certify")
    done = certify_run(settings, out, note=o.command_line())
    errors.print(f"{done} inputs in {out}; look at them with: smoothcert report {out}")


def certify_run(settings: Settings, out: Path | str, *, note: str, title: str = "certify") -> int:
    """Run the settings into a store with a progress bar; how many inputs it now holds."""
    dataset = dataset_of(settings.data)
    indices = indices_of(settings.data, dataset)
    smoother = smoother_of(settings, dataset)
    from smoothcert.run import Progress, certify_all

    began = time.perf_counter()
    with progress_bar() as bar:
        task = bar.add_task(title, total=len(indices), rate="")

        def show(progress: Progress) -> None:
            rate = progress.votes / (time.perf_counter() - began)
            bar.update(task, completed=progress.done, rate=f"{rate:,.0f} votes/s")

        text = write_settings(settings)
        notes = {"command": note, "settings": text}
        memory = out if settings.certify.memory == o.IN_RUN else settings.certify.memory
        try:
            certify_all(
                smoother,
                dataset,
                out,
                indices=indices,
                rows=settings.certify.rows,
                notes=notes,
                progress=show,
                memory=memory,
            )
        except KeyboardInterrupt:
            _write_settings(out, text)
            raise
    _write_settings(out, text)
    return len(indices)


def _write_settings(out: Path | str, text: str) -> None:
    """Beside the results of a directory; any other store holds them among its facts alone."""
    from smoothcert.store import directory_of

    directory = directory_of(out)
    if directory is not None:
        write_atomically(directory / "run.toml", text.encode())
