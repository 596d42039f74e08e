"""How far a long job is: a bar on a terminal and in a notebook, elsewhere a plain line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console

FIRST, LONGEST = 5.0, 60.0  # seconds to the first line, and between two; each pause is twice the one before


class Tell(Protocol):
    """Takes how much is done, of how much in all if that is news, and in words how it goes."""

    def __call__(self, done: float, total: float | None = None, words: str = "") -> None: ...


@contextmanager
def progress_of(title: str, total: float | None = None, console: Console | None = None) -> Iterator[Tell]:
    """Show how far a job is on standard error until it ends; what is yielded is told. Nothing remains of a bar."""
    place = console or Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    # A dumb terminal cannot go back in a line.
    drawn = (place.is_terminal and not place.is_dumb_terminal) or place.is_jupyter
    with _bar(title, total, place) if drawn else _lines(title, total, place) as tell:
        yield tell


@contextmanager
def _bar(title: str, total: float | None, console: Console) -> Iterator[Tell]:
    """A bar with count, words and the time left; it appears when the end is known."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TextColumn("{task.fields[words]}"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, visible=total is not None, words="")

        def tell(done: float, total: float | None = None, words: str = "") -> None:
            bar.update(task, completed=done, total=total, words=words, visible=True)

        yield tell


@contextmanager
def _lines(title: str, total: float | None, console: Console) -> Iterator[Tell]:
    """Plain lines, also while nothing is told: a job that is silent for minutes looks dead."""
    began, over = time.monotonic(), threading.Event()
    news: list[tuple[float, float | None, str]] = [(0, total, "")]

    def speak() -> None:
        pause = FIRST
        while not over.wait(pause):
            console.print(line_of(title, *news[0], time.monotonic() - began))
            pause = min(2 * pause, LONGEST)

    def tell(done: float, total: float | None = None, words: str = "") -> None:
        news[0] = (done, news[0][1] if total is None else total, words)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield tell
    finally:
        over.set()
        speaker.join()


def line_of(title: str, done: float, total: float | None, words: str, seconds: float) -> str:
    """One line for a log.

    >>> line_of("certify", 12, 48, "900 votes/s", 65), line_of("data", 0, None, "", 5)
    ('certify: 12 of 48, 900 votes/s, after 0:01:05, 0:03:15 left', 'data, after 0:00:05')
    """
    count = f": {done:,.4g}" if total is None else f": {done:,.4g} of {total:,.4g}"
    parts = [title + count * (done > 0 or total is not None), words, f"after {_clock(seconds)}"]
    if total is not None and done > 0:
        parts.append(f"{_clock(seconds * (total - done) / done)} left")
    return ", ".join(filter(None, parts))


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
