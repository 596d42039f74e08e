"""Make a table or figure again: train what is missing, certify, and write ours beside what was published."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.config import Settings
from smoothcert.errors import DataError, RunError
from smoothcert.files import write_atomically
from smoothcert.papers.catalogue import Entry, scale_named
from smoothcert.papers.measures import Group, measured, multiplied
from smoothcert.papers.planning import Block, Certification, Network
from smoothcert.papers.tables import Cell, to_files
from smoothcert.sections import Source, read

MARK, FIGURE = "entry.json", "figure.png"
MODELS, RUNS = "models", "runs"
MODEL = "model.safetensors"


@dataclass(frozen=True)
class Workers:
    """Who does the work: as the commands train, certify and attack, each going on where it stopped."""

    train: Callable[[Settings, Path], Path]
    certify: Callable[[Settings, Path], object]
    attack: Callable[[Path, Sequence[str], Mapping[str, int]], Mapping[str, float]]  # the share that held, by attack


@dataclass(frozen=True)
class Task:
    """An entry at a scale; ``kept`` is where networks and runs lie, which entries may share."""

    entry: Entry
    scale: str
    out: Path
    kept: Path
    blocks: Sequence[Block]


def claim_folder(task: Task) -> None:
    """Mark OUT as this entry's at this scale; refuse a file, another entry's folder, and one with other things in it."""
    out, mark = task.out, {"entry": task.entry.name, "scale": task.scale}
    if out.exists() and not out.is_dir():
        raise RunError(f"--out {out} is a file, and an entry is a folder of tables and runs; give a folder")
    file = out / MARK
    if file.is_file():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            found = "something else"
        if found != mark:
            held = f"{found['entry']} at scale {found['scale']}" if isinstance(found, dict) else found
            raise RunError(
                f"{out} holds {held}, not {task.entry.name} at scale {task.scale}; give another --out. Networks and runs are "
                "shared by --runs DIR"
            )
        return
    if out.is_dir() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no entry of smoothcert reproduce; give a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(mark).encode())


def check_given(task: Task) -> None:
    """Refuse before any work if a network that cannot be trained here was not brought."""
    runs = [run for block in task.blocks for group in block.runs.values() for run in group]
    missing = {run.network.folder: run for run in runs if run.network.given and not _weights(task, run.network).is_file()}
    for name, run in missing.items():
        network = run.network.settings["model.source"]
        raise DataError(
            f"{len(missing)} networks are missing, the first {_weights(task, run.network)}: {network} trained on ImageNet "
            f"({name}, sigma {run.sigma:g}). Training there does not fit into memory; put the weights that you have, as "
            ".safetensors, into that file, for pixels in [0, 1]"
        )


def reproduced(task: Task, workers: Workers, told: Callable[[str], object] = lambda _: None) -> list[Cell]:
    """Do what is left, then write table.md, table.csv, table.json and, of a figure, figure.png into OUT."""
    claim_folder(task)
    check_given(task)
    if task.entry.curve is not None:
        from smoothcert.papers.radii import radius_cells

        cells, picture = radius_cells(task.entry, task.scale)
    else:
        from smoothcert.papers.pictures import drawn

        groups = [_groups(task, block, workers, told) for block in task.blocks]
        cells = [cell for block, own in zip(task.blocks, groups, strict=True) for cell in _cells(block, own)]
        picture = drawn(task.entry, task.blocks, groups)
    for name, content in to_files(task.entry, cells, _facts(task)).items():
        write_atomically(task.out / name, content)
    if picture is not None:
        write_atomically(task.out / FIGURE, picture)
    return cells


def _facts(task: Task) -> dict[str, object]:
    left = "; ".join(dict.fromkeys(f"{block.part.data}: {block.reason}" for block in task.blocks if block.reason))
    first = next((run for block in task.blocks for group in block.runs.values() for run in group), None)
    facts: dict[str, object] = {"scale": f"{task.scale} ({scale_named(task.scale)['words']})"}
    if first is not None:
        facts["votes"] = f"{first.settings['votes.trials']} per input, alpha {first.settings['votes.alpha']}"
    return facts | ({"left out": left} if left else {})


def _groups(
    task: Task, block: Block, workers: Workers, told: Callable[[str], object]
) -> dict[tuple[str, str], Group]:
    """The runs of a block, certified and read."""
    groups = {}
    for key, runs in block.runs.items():
        places = [_certified(task, run, workers, told) for run in runs]
        held: dict[str, list[float]] = {}
        for place in places if block.attacks else []:
            told(f"attack {place.name}")
            for name, share in workers.attack(place, block.attacks, scale_named(task.scale)["attack"]).items():
                held.setdefault(name, []).append(share)
        groups[key] = _group(block, places, {name: min(shares) for name, shares in held.items()})
    return groups


def _group(block: Block, places: Sequence[Path], held: Mapping[str, float]) -> Group:
    from smoothcert.report.runs import Run
    from smoothcert.search import at_norm

    runs = tuple(Run(place) for place in places)
    part = block.part
    again = part.cast_in is not None and part.cast_in != part.norm
    found = [at_norm(run.place, part.norm, sorted(run.indices)) if again else run.records for run in runs]
    return Group(runs, tuple(multiplied(records, part.times) for records in found), held)


def _certified(task: Task, run: Certification, workers: Workers, told: Callable[[str], object]) -> Path:
    """The place of a run that holds all its inputs."""
    place = task.kept / RUNS / run.folder
    weights = _trained(task, run.network, workers, told)
    told(f"certify {run.folder}")
    model: Source = {"model.source": str(weights)}
    if run.network.given:
        model = {"model.source": run.network.settings["model.source"], "model.weights": str(weights)}
    workers.certify(read(Settings, run.settings, model), place)
    return place


def _trained(task: Task, network: Network, workers: Workers, told: Callable[[str], object]) -> Path:
    if network.given:
        return _weights(task, network)
    more: Source = {}
    if network.start is not None:
        more = {"model.weights": str(_trained(task, network.start, workers, told))}
    told(f"train {network.folder}")
    return workers.train(read(Settings, network.settings, more), task.kept / MODELS / network.folder)


def _weights(task: Task, network: Network) -> Path:
    return task.kept / MODELS / network.folder / MODEL


def _cells(block: Block, groups: Mapping[tuple[str, str], Group]) -> list[Cell]:
    """Every row and column of a part; ours is None where it was not run."""
    part, cells = block.part, []
    for row in part.rows:
        group = groups.get((row.training.name, row.method.name))
        rivals = [groups[row.training.name, rival.name] for rival in part.rivals] if group else []
        for column, published in zip(part.columns, row.published, strict=True):
            facts: dict[str, Any] = {"ours": None, "label": ""}
            if group is not None:
                facts = {
                    "ours": measured(column, group, rivals),
                    "label": group.label.value,
                    "classifiers": len(group.runs),
                    "inputs": len(group.records[0]),
                }
            title = f"{row.training.title}: {row.method.title}"
            cells.append(
                Cell(block.title, title, column, published=published, claim=row.method.claim.value, **facts)
            )
    return cells
