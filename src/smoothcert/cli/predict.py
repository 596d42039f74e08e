"""smoothcert predict: the smoothed classifier's answers."""

from __future__ import annotations

import json as jsonlib
import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.build import check_told, dataset_of, indices_of, smoother_of
from smoothcert.cli.console import output, progress_bar
from smoothcert.cli.flags import Given, takes
from smoothcert.cli.of_run import settings_of
from smoothcert.cli.options import Json
from smoothcert.config import Settings
from smoothcert.errors import SettingError
from smoothcert.plan import IN_RUN

if TYPE_CHECKING:
    from smoothcert.data.base import Dataset
    from smoothcert.memory.memory import Memory
    from smoothcert.regressor import SmoothedRegressor
    from smoothcert.smoother import Smoother

NAME = "predict"
EXAMPLE = "smoothcert predict --model cnn.safetensors --data digits --sigma 0.5 --limit 10"


@takes(
    Settings,
    *("model", "data", "noise", "votes", "task", "engine"),
    without=("votes.trials", "votes.estimator", "votes.radii"),
)
def command(
    given: Given,
    run: Annotated[
        str | None,
        typer.Argument(help="A run whose classifier is asked: its model, noise, data and memory, unless flags say."),
    ] = None,
    votes: Annotated[
        int | None, typer.Option("--votes", "-n", help="Votes per input. [default: as many as --select]", min=1)
    ] = None,
    json: Json = False,
) -> None:
    """Answer inputs with the smoothed classifier; it abstains where the votes cannot tell.

    Each answer differs from the true majority with probability at most alpha. With --memory, a memory's file or a run
    directory that holds one, an input in a stored region gets the promised answer without a call of the model; any other
    answer is stored, so that it stays the same. RUN alone says all: smoothcert predict runs/a. With --task regression the
    answer is the median, in an interval that holds the true one but with probability alpha.
    """
    settings = given.over(Settings)
    if run is None and settings.model.source is None:
        run = _run_at(settings.votes.memory)
    settings = settings if run is None else settings_of(run, given)
    place = settings.votes.memory
    if place == IN_RUN:
        if run is None:
            raise SettingError("--memory needs a value here: a memory's file, or the run directory that holds it")
        place = run
    check_told(settings)
    from smoothcert.regressor import SmoothedRegressor

    dataset = dataset_of(settings.data)
    chosen = indices_of(settings.data, dataset)
    with ExitStack() as stack:
        kept = None if place is None else stack.enter_context(_memory(place))
        smoother = smoother_of(settings, dataset, kept)
        if run is not None:
            _check_predictor(run, smoother)
        if isinstance(smoother, SmoothedRegressor):
            rows = _numbers(smoother, dataset, chosen, votes)
        else:
            rows = _answers(smoother, dataset, chosen, votes)
    if json:
        print(jsonlib.dumps(rows))
        return
    output.print("\t".join(["index", "truth", "answer", *list(rows[0])[3:]]))
    for row in rows:
        truth = "?" if row["truth"] is None else row["truth"]
        answer = "abstain" if row["answer"] is None else row["answer"]
        cells = [row["index"], truth, answer, *list(row.values())[3:]]
        output.print("\t".join(map(str, cells)), highlight=False, soft_wrap=True)


def _numbers(
    smoother: SmoothedRegressor, dataset: Dataset, chosen: list[int], votes: int | None
) -> list[dict[str, Any]]:
    """A row per input: the median of the votes, and the interval that the smoothed number lies in."""
    import torch

    rows = []
    with progress_bar("predict", len(chosen)) as tell:
        for index in chosen:
            [found] = smoother.predict(torch.from_numpy(dataset.inputs([index])), index, votes=votes)
            [interval] = found.intervals
            known = {"index": index, "truth": dataset.targets([index])[0], "answer": found.value}
            # JSON has no infinity.
            rows.append(
                known
                | {n: v if math.isfinite(v) else None for n, v in (("low", interval.low), ("high", interval.high))}
            )
            tell(len(rows))
    return rows


def _run_at(memory: str | None) -> str | None:
    """The run that a memory is kept in, if it is kept in one."""
    if memory is None or memory == IN_RUN:
        return None
    from smoothcert.store import RESULTS, directory_of

    directory = directory_of(memory)
    return memory if directory is not None and (directory / RESULTS).is_file() else None


def _check_predictor(run: str, smoother: Smoother) -> None:
    """Refuse another classifier than that of the run."""
    from smoothcert.run import check_same
    from smoothcert.store import open_run

    with open_run(run) as store:
        check_same(store.facts().get("configuration", {}), smoother.identity, run)


def _memory(place: str) -> Memory:
    from smoothcert.memory.memory import Memory
    from smoothcert.memory.of_run import keeper_at

    return Memory.open(keeper_at(place), create=False)  # its owner says what it knows inputs by


def _answers(smoother: Smoother, dataset: Dataset, chosen: list[int], votes: int | None) -> list[dict[str, Any]]:
    """A row per input; with a memory, it says who answered."""
    import torch

    if smoother.tuner.reads_input:
        smoother.refer_to(dataset)
    rows = []
    with progress_bar("predict", len(chosen)) as tell:
        for index in chosen:
            x = torch.from_numpy(dataset.inputs([index]))
            row: dict[str, Any] = {"index": index, "truth": dataset.truths([index])[0], "answer": None}
            if smoother.memory is not None:
                promised = smoother.memory.answer(smoother.noise.center_of(smoother.encoded(x)[0]))
                row["from"] = "model" if promised is None else "memory"
            [row["answer"]] = smoother.predict(x, index, votes=votes)
            rows.append(row)
            tell(len(rows))
    return rows
