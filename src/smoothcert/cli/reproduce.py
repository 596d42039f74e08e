"""smoothcert reproduce: the tables and figures of the papers, by name."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from smoothcert.cli.certify import certify_run
from smoothcert.cli.console import errors, output, print_json
from smoothcert.cli.flags import Given
from smoothcert.cli.of_run import certified_with
from smoothcert.cli.options import Json, command_line
from smoothcert.cli.train import train_model
from smoothcert.config import Settings
from smoothcert.errors import SettingError

if TYPE_CHECKING:
    from smoothcert.papers.catalogue import Entry
    from smoothcert.papers.reproduce import Task
    from smoothcert.papers.tables import Cell

NAME = "reproduce"
EXAMPLE = "smoothcert reproduce ancer-table-1 --scale smoke --out ancer-table-1"


def command(
    entry: Annotated[
        str | None, typer.Argument(help="A table or figure, such as ancer-table-1; --list has all.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(help="smoke: embedded digits, seconds; small: MNIST and CIFAR-10, minutes; paper: as published."),
    ] = "smoke",
    out: Annotated[Path | None, typer.Option(help="A folder for the table; continued if it is this entry's.")] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Where networks and runs are kept, which entries may share. [default: OUT]")
    ] = None,
    imagenet: Annotated[
        Path | None, typer.Option(help="The validation images of ImageNet in class folders, for --scale paper.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train and to vote: cpu or cuda.")] = "cpu",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and stop.")] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List every table and figure: data, network, settings, or why not.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a table or figure of a paper again, beside the published numbers: DS, ANCER, UniCR and UCAN.

    Trains what is missing, certifies, and writes OUT/table.md, table.csv, table.json and, of a figure, figure.png, with what
    each number is worth. Ctrl-C or a crash loses nothing: the same command goes on where it stopped. The runs are ordinary
    ones: smoothcert report OUT/runs/….
    """
    from smoothcert.papers import catalogue

    if list_:
        entries = list(catalogue().values())
        if json:
            print(jsonlib.dumps([listed(each) for each in entries]))
        else:
            output.print(_listing(entries))
        return
    if entry is None or (out is None and not dry_run):
        raise SettingError(
            "give a table or figure and a folder for it: smoothcert reproduce NAME --out DIR; --list names them"
        )
    task = _task(entry, scale, out or Path(entry), runs, imagenet, device)
    if dry_run:
        print(_cost(task, json))
        return
    cells = _done(task)
    if json:
        print_json([vars(cell) | {"difference": cell.difference} for cell in cells])
    else:
        print((task.out / "table.md").read_text(encoding="utf-8"), end="")
    errors.print(f"table: {task.out / 'table.md'}; look at the runs with: smoothcert report {task.kept / 'runs'}/*")


def reproduce(
    entry: str,
    out: Path | str,
    *,
    scale: str = "smoke",
    runs: Path | str | None = None,
    imagenet: Path | str | None = None,
    device: str = "cpu",
) -> list[Cell]:
    """Make a table or figure of a paper again, as ``smoothcert reproduce`` does: the cells, ours beside the published ones.

    What was done before is not done again; the files are written into ``out``.
    """
    kept, images = (None if place is None else Path(place) for place in (runs, imagenet))
    return _done(_task(entry, scale, Path(out), kept, images, device))


def _task(entry: str, scale: str, out: Path, runs: Path | None, imagenet: Path | None, device: str) -> Task:
    from smoothcert.papers import entry_named
    from smoothcert.papers.planning import planned
    from smoothcert.papers.reproduce import Task

    found = entry_named(entry)
    return Task(found, scale, out, runs or out, planned(found, scale, imagenet, device))


def _done(task: Task) -> list[Cell]:
    from smoothcert.papers.reproduce import Workers, check_given, claim_folder, reproduced

    check_given(task)
    claim_folder(task)
    if task.scale == "paper":
        errors.print(_cost(task))
    note = command_line()

    def certify(settings: Settings, place: Path) -> int:
        return certify_run(settings, place, note=note, title=place.name)

    return reproduced(task, Workers(train_model, certify, _attacked, errors.print))


def _attacked(place: Path, attacks: Sequence[str], effort: Mapping[str, int]) -> Mapping[str, float]:
    """The share of certificates of a run that each attack left unbroken."""
    from smoothcert.attacks.check import Effort
    from smoothcert.attacks.over_run import attack_run
    from smoothcert.report.attacks import attack_summary

    smoother, dataset = certified_with(place, Given())
    tried = Effort(tuple(attacks), effort["budget"], effort["votes"])
    [row] = attack_summary(attack_run(smoother, dataset, place, tried, limit=effort.get("limit")))
    held: dict[str, float] = row["held_by_attack"]
    return held


def _cost(task: Task, json: bool = False) -> str:
    from smoothcert.papers.cost import cost

    told = cost(task)
    return jsonlib.dumps(vars(told)) if json else str(told)


def listed(entry: Entry) -> dict[str, Any]:
    """An entry for machines: what it is, what it needs, what was claimed, and why it cannot be run, if so."""
    parts = [
        {
            "data": part.data,
            "network": part.network,
            "norm": str(part.norm),
            "sigmas": list(part.sigmas),
            "rows": {f"{row.training.title}: {row.method.title}": row.method.claim.value for row in part.rows},
            "columns": list(part.columns),
            "settings": part.settings,
        }
        for part in entry.parts
    ]
    facts = {"name": entry.name, "paper": entry.paper, "title": entry.title, "published_numbers": entry.published}
    return facts | {"parts": parts, "curve": str(entry.curve or ""), "reason": entry.reason, "note": entry.note}


def _listing(entries: Sequence[Entry]) -> Table:
    table = Table(Column("name", no_wrap=True), "what it shows", "data, network and settings", show_lines=True)
    for entry in entries:
        told = []
        for part in entry.parts:
            sigmas = ", ".join(f"{sigma:g}" for sigma in part.sigmas)
            told.append(f"{part.title}, sigma {sigmas}, {part.settings['votes.trials']} votes")
        if entry.curve is not None:
            told.append(f"no network: {', '.join(entry.curve['laws'])} in {entry.curve['dim']} dimensions")
        claims = dict.fromkeys(row.method.claim.value for part in entry.parts for row in part.rows)
        told.append(f"published labels: {', '.join(claims)}" if claims else "")
        told.append("" if entry.published else "no published number is printed, or known to us")
        words = f"cannot be run: {entry.reason}" if entry.reason else "\n".join(filter(None, told))
        table.add_row(entry.name, entry.title, words)
    return table
