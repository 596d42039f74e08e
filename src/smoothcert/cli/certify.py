"""smoothcert certify: certificates for many inputs, into a run directory that can be resumed."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.advice import advise
from smoothcert.cli.build import check_told, dataset_of, front_of, indices_of, smoother_of
from smoothcert.cli.console import errors, print_json, progress_bar
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.of_run import where_it_began
from smoothcert.cli.options import Json, command_line
from smoothcert.cli.runtime import with_runtime
from smoothcert.config import Settings
from smoothcert.engine import AUTO
from smoothcert.errors import without_passwords
from smoothcert.files import write_atomically
from smoothcert.plan import IN_RUN
from smoothcert.sections import write

if TYPE_CHECKING:
    from smoothcert.cli.build import Models
    from smoothcert.data.base import Dataset
    from smoothcert.forecast import Forecast
    from smoothcert.smoother import Smoother

NAME = "certify"
EXAMPLE = "smoothcert certify --model cnn.safetensors --data digits --sigma 0.5 --norm 2 --limit 100 --out runs/a"


@takes(
    Settings,
    "model",
    "data",
    "noise",
    "votes",
    "task",
    "engine",
    defaults={"engine.runtime": AUTO},
    without=("noise.box",),
)
def command(
    given: Given,
    out: Annotated[
        str, typer.Option(help="The run directory, or another store as name:key=value; an existing one is continued.")
    ],
    store: Annotated[
        str | None,
        typer.Option(
            help="Keep the run on a server, where OUT is its name: postgresql://user@host/database.", metavar="URL"
        ),
    ] = None,
    put: Annotated[
        str | None,
        typer.Option(help="When all is done, copy the run there: s3://bucket/runs/a.", metavar="URL"),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what it would cost and could prove, from one block of votes, and stop."),
    ] = False,
    json: Json = False,
) -> None:
    """Certify inputs of a data set into a run directory.

    Ctrl-C or a crash loses nothing: the same command goes on where it stopped. What was run is kept in
    OUT/run.toml, so that `smoothcert certify --config OUT/run.toml --out OUT2` repeats it.
    """
    place = out if store is None else _on_server(store, out)
    shown = without_passwords(place)
    from smoothcert.store.put import check_put, put_run

    if dry_run:
        told = foretold(given.over(Settings), place)
        if json:
            print_json(None if told is None else asdict(told))
            return
        print(told or f"every input is in {shown} already, or its views are asked once each")
        return
    if put is not None:
        check_put(place, put)
    done = certify_run(given.over(Settings), place, note=command_line())
    if put is not None:
        put_run(place, put)
        errors.print(f"put at {without_passwords(put)}")
    if json:
        print_json({"run": shown, "inputs": done})
    from smoothcert.report.runs import Run

    for line in Run(place).lines:
        errors.print(line.headline)
    errors.print(f"{done} inputs in {shown}; look at them with: smoothcert report {shown}")


def _on_server(url: str, name: str) -> str:
    from smoothcert.store.server import parted

    parted(url)  # refuses what is no URL of a server
    return f"{url}#{name}"


def certify_run(settings: Settings, out: Path | str, *, note: str, title: str = "certify") -> int:
    """Run the settings into a store with a progress bar; how many inputs it now holds."""
    settings, smoother, dataset, indices, calibration = _made(settings, out)
    from smoothcert.run import Progress, certify_all

    advise(settings, smoother, dataset, indices)
    told = _forecast(smoother, dataset, indices, out)
    if told is not None:
        errors.print(str(told))
    began = time.perf_counter()
    with progress_bar(title, len(indices)) as tell:

        def show(progress: Progress) -> None:
            rate = progress.votes / (time.perf_counter() - began)
            told = smoother.driver.executor.told(smoother)
            tell(progress.done, words=f"{rate:,.0f} votes/s{told and '; '}{told}")

        text = write(settings)
        notes = {"command": note, "settings": text, **where_it_began(out), **calibration}
        memory = out if settings.votes.memory == IN_RUN else settings.votes.memory
        try:
            certify_all(
                smoother,
                dataset,
                out,
                indices=indices,
                rows=settings.engine.rows,
                notes=notes,
                progress=show,
                memory=memory,
            )
        except KeyboardInterrupt:
            write_settings(out, text)
            raise
        finally:
            smoother.close()
    write_settings(out, text)
    return len(indices)


def foretold(settings: Settings, out: Path | str) -> Forecast | None:
    """What the settings would cost and could prove, None if nothing is left to do; nothing is written."""
    _, smoother, dataset, indices, _ = _made(settings, out)
    return _forecast(smoother, dataset, indices, out)


def _made(settings: Settings, out: Path | str) -> tuple[Settings, Smoother, Dataset, list[int], dict[str, Any]]:
    """The settings with their runtime, the classifier, its data and which inputs of it, and how the runtime was chosen."""
    from smoothcert.store import SqliteStore, store_of

    check_told(settings)
    store = store_of(out)
    if isinstance(store, SqliteStore):  # said when it is written to as well, but networks may take a while to load
        store.check_own()
    dataset = dataset_of(settings.data)
    indices = indices_of(settings.data, dataset)
    front = front_of(settings.noise, settings.data, dataset, settings.model.source)  # once: to fit it takes a while
    models: Models = {}
    settings, calibration = with_runtime(settings, dataset, indices, out, models, front)
    return settings, smoother_of(settings, dataset, front=front, models=models), dataset, indices, calibration


def _forecast(smoother: Smoother, dataset: Dataset, indices: list[int], out: Path | str) -> Forecast | None:
    """What is left to do in a store; None if nothing is, or if views are asked instead of noise, each once."""
    import torch

    from smoothcert.forecast import forecast
    from smoothcert.sight import Sight
    from smoothcert.smoother import Batch
    from smoothcert.store import opened

    with opened(out) as store:
        known = store.indices() if store.begun else set()
    left = [index for index in indices if index not in known]
    if not left or isinstance(smoother.noise, Sight):
        return None
    x = smoother.probe(Batch(torch.from_numpy(smoother.behind(dataset).inputs(left[:1])), left[:1]))
    return forecast(smoother, x[0], left[0], len(left))


def write_settings(out: Path | str, text: str) -> None:
    """Beside the results of a directory; any other store holds them among its facts alone."""
    from smoothcert.store import directory_of

    directory = directory_of(out)
    if directory is not None:
        write_atomically(directory / "run.toml", text.encode())
