"""smoothcert serve: answers with certificates, for programs that ask."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli.build import check_told, dataset_of, front_source, smoother_of
from smoothcert.cli.console import errors
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.of_run import kept_by
from smoothcert.cli.options import Json
from smoothcert.cli.runtime import with_runtime
from smoothcert.config import Settings
from smoothcert.errors import ModelError, SettingError
from smoothcert.plan import IN_RUN
from smoothcert.serve.settings import NO_FRONT, ONE_CLASSIFIER, Serving

if TYPE_CHECKING:
    from smoothcert.cli.build import Models
    from smoothcert.memory.memory import Memory
    from smoothcert.serve.service import Service

NAME = "serve"
EXAMPLE = "smoothcert serve --model cnn.safetensors --data mnist --sigma 0.5 --radii 0.5 --memory promises.sqlite"
PATIENCE = 3.0  # seconds for which a request waits for a database that went away, or a file that is locked


@dataclass(frozen=True)
class Served(Settings):
    """All settings of a server."""

    serve: Serving


@takes(Served, *("model", "data", "noise", "votes", "engine", "serve"))
def command(
    given: Given,
    run: Annotated[
        str | None,
        typer.Argument(help="A run whose classifier is served: its model, noise, data and memory, unless flags say."),
    ] = None,
    json: Json = False,
) -> None:
    """Answer requests with labels, certified regions and promises, over HTTP.

    POST /certify and /predict take JSON, PNG or JPEG; /v2 speaks the Open Inference Protocol; /docs tells all. Answers are
    promises, kept in --memory: a file, or postgresql://… that several servers share; without one they end with the
    server. Any address but the loopback needs a token. Ctrl-C or SIGTERM ends it once all who wait are answered.
    """
    settings = given.over(Served, None if run is None else kept_by(run))
    if run is not None and settings.model.source is None and settings.model.cascade is None:
        raise ModelError(f"{run} was made in Python, which keeps no path of the model; give --model, and --data")
    check_told(settings)
    # Said by the service too, but once networks are loaded and a front is fitted.
    if front_source(settings.noise, settings.model.source) is not None:
        raise SettingError(NO_FRONT)
    if settings.model.cascade is not None or settings.task.kind == "regression":
        raise SettingError(ONE_CLASSIFIER)
    from smoothcert.extras import import_extra

    for library in ("fastapi", "uvicorn", "prometheus_client"):
        import_extra(library, "servers", "serve")
    from smoothcert.serve.server import serve

    def said(address: str) -> None:
        print(jsonlib.dumps({"address": address}) if json else address, flush=True)

    try:
        serve(lambda: _loaded(settings, run), settings.serve, as_json=json, said=said)
    except KeyboardInterrupt:
        errors.print("ended")


def _loaded(settings: Served, run: str | None) -> Service:
    """The classifier with its memory, probed."""
    from smoothcert.polling import default_block
    from smoothcert.serve.service import Service

    dataset = dataset_of(settings.data)
    models: Models = {}
    chosen, _ = with_runtime(settings, dataset, [0], run or "", models)
    # Half of a larger block would be cast in vain where the class of one input is chosen.
    block = chosen.engine.block or min(default_block(dataset.shape), chosen.votes.select)
    smoother = smoother_of(replace(chosen, engine=replace(chosen.engine, block=block)), dataset, models=models)
    memory = _memory(settings.votes.memory, run)
    if not memory.lasting:
        errors.print("note: without --memory, promises end with the server")
    service = Service(smoother, dataset, memory, settings.serve)
    errors.print("ready")
    return service


def _memory(place: str | None, run: str | None) -> Memory:
    """Where promises are kept: as it is said, in the run, or in this process."""
    from smoothcert.memory.memory import MEMORY, Memory
    from smoothcert.memory.of_run import keeper_at
    from smoothcert.store.keeper import MemoryFile
    from smoothcert.store.server import is_server, named
    from smoothcert.store.server_keeper import ServerKeeper

    if place is None:
        return Memory()
    where = run if place == IN_RUN else place
    if where is None:
        raise SettingError("--memory needs a value here: a file, a run that holds one, or postgresql://…")
    if is_server(where):
        return Memory.open(ServerKeeper(*named(where, MEMORY), patience=PATIENCE))
    found = keeper_at(where)
    keeper = MemoryFile(found) if isinstance(found, Path) else found
    if isinstance(keeper, MemoryFile):
        keeper.wait(PATIENCE)
    return Memory.open(keeper)
