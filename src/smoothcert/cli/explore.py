"""smoothcert explore: look into a run on a local page."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import errors
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.of_run import certified_with
from smoothcert.config import Settings

NAME = "explore"
EXAMPLE = "smoothcert explore runs/a --open"


@takes(Settings, *o.MOVED, of_run=True)
def command(
    given: Given,
    run: o.Run,
    memory: o.KeptBy = None,
    beside: Annotated[str | None, typer.Option(help="A second run, to look at the same input in both.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page on this machine: click an input to see its noise, votes and region, and move it about.

    The page is served to this machine alone, at an address that holds a secret, until Ctrl-C. --model, --weights, --data
    and --device are for a run whose files have moved; model and data must be the same.
    """
    from smoothcert.explore.explorer import Explorer
    from smoothcert.explore.server import Server

    smoother, dataset = certified_with(run, given)
    explorer = Explorer(smoother, dataset, run, memory)
    other = None if beside is None else Explorer(*certified_with(beside, Given()), beside)
    with Server(explorer, other) as server:
        print(server.address, flush=True)
        errors.print("open this address in a browser on this machine; Ctrl-C ends it")
        if open_:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            errors.print("ended")
        finally:
            explorer.close()
            if other is not None:
                other.close()
