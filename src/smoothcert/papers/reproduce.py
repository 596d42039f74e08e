"""Make a table or figure again: train what is missing, certify, and write ours beside what was published."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothcert.config import Settings
from smoothcert.errors import DataError, RunError
from smoothcert.files import write_atomically
from smoothcert.metrics.curves import echoing
from smoothcert.papers.catalogue import Entry, scale_named
from smoothcert.papers.measures import Group, is_share, measured
from smoothcert.papers.planning import Block, Network
from smoothcert.papers.tables import Cell, to_files
from smoothcert.sections import Source, read

MARK, FIGURE, MODELS, RUNS = "entry.json", "figure.png", "models", "runs"


@dataclass(frozen=True)
class Workers:
    """Who does the work: as the commands train, certify and attack, each going on where it stopped."""

    train: Callable[[Settings, Path], Path]
    certify: Callable[[Settings, Path], object]
    attack: Callable[[Path, Sequence[str], Mapping[str, int]], Mapping[str, float]]  # the share that held, by attack
    tell: Callable[[str], object]


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
    out, file = task.out, task.out / MARK
    mark = f"{task.entry.name} at scale {task.scale}"
    if out.exists() and not out.is_dir():
        raise RunError(f"--out {out} is a file, and an entry is a folder of tables and runs; give a folder")
    if file.is_file():
        found = file.read_text(encoding="utf-8")
        if found != json.dumps(mark):
            raise RunError(
                f"{out} holds {found}, not {mark}; give another --out. Networks and runs are shared by --runs DIR"
            )
    elif out.is_dir() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no entry of smoothcert reproduce; give a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(mark).encode())


def check_given(task: Task) -> None:
    """Refuse before any work if networks that cannot be trained here were not brought."""
    networks = {run.network.folder: run.network for block in task.blocks for own in block.runs.values() for run in own}
    missing = [each for each in networks.values() if each.given and not weights_of(task, each).is_file()]
    if missing:
        raise DataError(
            f"{len(missing)} networks are missing, the first {weights_of(task, missing[0])}: a {missing[0].settings['model.source']} "
            "for ImageNet. Training on it does not fit into memory; put weights that you have, as .safetensors and for pixels "
            "in [0, 1], into that file"
        )


def reproduced(task: Task, workers: Workers) -> list[Cell]:
    """Do what is left, then write table.md, table.csv, table.json and, of a figure, figure.png into OUT."""
    picture: bytes | None
    if task.entry.curve is not None:
        from smoothcert.papers.radii import radius_cells

        cells, picture = radius_cells(task.entry, task.scale)
    else:
        from smoothcert.papers.pictures import drawn

        _work(task, workers)
        groups = [_groups(task, block, workers) for block in task.blocks]
        cells = [cell for block, own in zip(task.blocks, groups, strict=True) for cell in _cells(block, own)]
        picture = drawn(task.entry, task.blocks, groups)
    if picture is not None:
        write_atomically(task.out / FIGURE, picture)
    for name, content in to_files(task.entry, cells, _facts(task)).items():
        write_atomically(task.out / name, content)
    return cells


def _facts(task: Task) -> dict[str, str]:
    """What the whole table shares, in words."""
    facts = {"scale": f"{task.scale} ({scale_named(task.scale)['words']})"}
    for run in (run for block in task.blocks for own in block.runs.values() for run in own):
        facts["votes"] = f"{run.settings['votes.trials']} per input, alpha {run.settings['votes.alpha']}"
    left = "; ".join(dict.fromkeys(f"{block.part.data}: {block.reason}" for block in task.blocks if block.reason))
    return facts | ({"left out": left} if left else {})


def _groups(task: Task, block: Block, workers: Workers) -> dict[tuple[str, str], Group]:
    """The runs of a block, attacked if its columns say so, and read in its norm."""
    from smoothcert.report.runs import Run
    from smoothcert.search import at_norm

    part, groups = block.part, {}
    again = part.cast_in not in (None, part.norm)
    for key, own in block.runs.items():
        places = [task.kept / RUNS / run.folder for run in own]
        tried = [
            workers.attack(place, block.attacks, scale_named(task.scale)["attack"]) for place in places if block.attacks
        ]
        held = {name: min(each[name] for each in tried) for name in block.attacks}
        runs = tuple(Run(place) for place in places)
        records = [at_norm(run.place, part.norm, sorted(run.indices)) if again else run.records for run in runs]
        groups[key] = Group(runs, records, held)
    return groups


def _work(task: Task, workers: Workers) -> None:
    """Train and certify whatever the blocks name, each once."""
    runs = {run.folder: run for block in task.blocks for own in block.runs.values() for run in own}
    trained: dict[str, Path] = {}
    for run in runs.values():
        name = run.network.folder
        trained[name] = trained.get(name) or _trained(task, run.network, workers)
        model: Source = {"model.source": str(trained[name])}
        if run.network.given:
            model = {"model.source": run.network.settings["model.source"], "model.weights": str(trained[name])}
        workers.tell(f"certify {run.folder}")
        workers.certify(read(Settings, run.settings, model), task.kept / RUNS / run.folder)


def _trained(task: Task, network: Network, workers: Workers) -> Path:
    if network.given:
        return weights_of(task, network)
    start = network.start and {"model.weights": str(_trained(task, network.start, workers))}
    workers.tell(f"train {network.folder}")
    return workers.train(read(Settings, network.settings, start or {}), weights_of(task, network).parent)


def weights_of(task: Task, network: Network) -> Path:
    """Where the weights of a network are, or will be."""
    return task.kept / MODELS / network.folder / "model.safetensors"


def _cells(block: Block, groups: Mapping[tuple[str, str], Group]) -> list[Cell]:
    """Every row and column of a part; ours is None where it was not run."""
    part, cells = block.part, []
    for row in part.rows:
        group = groups.get((row.training.name, row.method.name))
        rivals = [groups[row.training.name, rival.name] for rival in part.rivals] if group else []
        for column, published in zip(part.columns, row.published, strict=True):
            cell = Cell(
                part=block.title,
                row=f"{row.training.title}: {row.method.title}",
                column=column,
                ours=measured(column, group, rivals) * (1 if is_share(column) else part.times) if group else None,
                published=published,
                label=group.label.value if group else "",
                claim=row.method.claim.value,
                classifiers=len(group.runs) if group else 0,
                inputs=len(group.records[0]) if group else 0,
                echoing=sum(echoing(records) or 0 for records in group.records) if group else 0,
            )
            cells.append(cell)
    return cells
