"""The command ``smoothcert``: one file per command; torch is imported only by commands that need it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from smoothcert import __version__
from smoothcert.cli import (
    attack,
    certify,
    cite,
    curve,
    demo,
    explore,
    export,
    import_,
    list_,
    merge,
    predict,
    recertify,
    report,
    reproduce,
    search,
    serve,
    train,
)
from smoothcert.cli.console import errors, print_anywhere
from smoothcert.cli.options import SettingsCommand
from smoothcert.errors import SmoothcertError

app = typer.Typer(
    help="Certify that a classifier's answer cannot change under small perturbations of its input.",
    epilog="Start with: smoothcert demo",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _stopping_cleanly(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with Ctrl-C as a clean stop (status 130): whatever was finished is already kept."""

    @functools.wraps(command)
    def stopping(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            resumable = command.__module__.rsplit(".", 1)[-1] in (
                "attack",
                "certify",
                "demo",
                "reproduce",
                "search",
                "train",
            )
            again = "; everything finished so far is kept: give the same command again to go on" if resumable else ""
            errors.print(f"stopped{again}")
            raise typer.Exit(130) from None

    return stopping


MODULES = (
    *(
        demo,
        train,
        certify,
        predict,
        attack,
        report,
        explore,
        serve,
        curve,
        search,
        reproduce,
        recertify,
        merge,
        export,
        import_,
        cite,
    ),
    list_,
)
for module in MODULES:
    app.command(module.NAME, cls=SettingsCommand, epilog=f"Example: {module.EXAMPLE}")(
        _stopping_cleanly(module.command)
    )


def _version(asked: bool) -> None:
    if asked:
        print(f"smoothcert {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of smoothcert itself."""


def keep_memory() -> None:
    """Have glibc keep up to 1 GB of what is freed, for the next block, unless the environment says otherwise.

    Else it gives large pieces back and asks for them again, page by page: an eighth or more of the time of a small CNN.
    """
    if any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")):
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems have another allocator
        mallopt = ctypes.CDLL(None).mallopt
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
            mallopt(parameter, 2**30)


def main() -> None:
    """Run the command; a mistake becomes one clear message and exit status 2."""
    print_anywhere()
    keep_memory()
    warnings.showwarning = lambda message, *_: errors.print(Text.assemble(("note: ", "yellow"), str(message)))
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # a full disk is told here, not by the interpreter as it ends
    except SmoothcertError as problem:
        _refuse(str(problem))
    except BrokenPipeError:  # whoever read has enough, as head does
        _let_go()
        sys.exit(141)
    except OSError as problem:
        _let_go()
        what = f"{problem.filename}: " if problem.filename is not None else ""
        _refuse(f"{what}{problem.strerror or problem}; give a place that exists, can be read or written, and has space")
    except MemoryError as problem:
        _refuse(
            f"there is not enough memory for this ({problem}); give a smaller --block, fewer workers (--set engine.workers=1) or smaller inputs"
        )


def _let_go() -> None:
    """Leave nothing on standard output that the interpreter would fail to flush as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(reason: str) -> NoReturn:
    errors.print(Text.assemble(("error: ", "red"), reason))
    sys.exit(2)
