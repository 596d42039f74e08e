"""The search for the best law of noise: a classifier trained and certified under each, and their robustness scores (C-OPT).

Every law of the grid is fixed before its certifying votes, so each certificate keeps the label ``global``. The score of
a law is the envelope over sigmas, which is several classifiers. The law that comes out best was chosen by these very
votes: certify it anew, with another seed, before claiming a number for it.

Scores rest on proved radii. In l2 and high dimension no shape of a generalised normal beats the Gaussian at equal sigma
and equal probability (Cramér–Rao), so what a beta other than 2 gains there, it gains by the classifier's accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.table import Table

from smoothcert.certificates import Soundness
from smoothcert.errors import RunError, SettingError, look_up
from smoothcert.files import write_atomically
from smoothcert.laws import LAWS, law_named
from smoothcert.maths.geometry import round_down, round_up
from smoothcert.maths.intervals import lower_bound
from smoothcert.metrics.score import Score, robustness_score
from smoothcert.radius import check_norm
from smoothcert.recertify import check_judgeable, judge_again, pictured_center
from smoothcert.records.facts import plan_of
from smoothcert.records.readings import Estimates, reread, upper_radii
from smoothcert.records.record import Record
from smoothcert.registry import parameters, written
from smoothcert.report.figures import COLOURS, STYLE, STYLES, figure_of
from smoothcert.report.sheets import to_csv as csv_of
from smoothcert.store import Place, open_run

TABLE, PICTURE = "table.csv", "scores.png"


@dataclass(frozen=True)
class Point:
    """One classifier of the search: the law with its parameter, and the standard deviation."""

    law: str
    sigma: float

    @property
    def folder(self) -> str:
        """Where its model and its run are kept."""
        return f"{self.law.replace(':', '-')}-sigma={written(self.sigma)}"


@dataclass(frozen=True)
class Grid:
    """What is searched: values of one parameter of a law, each with every sigma, judged in every norm.

    r_max: up to which radius to integrate, one per norm; without, up to the largest radius certified by any point.

    >>> [point.folder for point in Grid("generalized_normal", "beta", (1, 2), (0.5,), (2,)).points]
    ['generalized_normal-beta=1-sigma=0.5', 'generalized_normal-beta=2-sigma=0.5']
    """

    law: str
    parameter: str
    values: tuple[float, ...]
    sigmas: tuple[float, ...]
    norms: tuple[float, ...]
    r_max: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        known = list(parameters(look_up("law", self.law, LAWS)))
        if self.parameter not in known:
            has = f"it has {', '.join(known)}" if known else "it has none; search generalized_normal, for example"
            raise SettingError(f"the law {self.law} has no parameter {self.parameter!r}; {has}")
        for name in ("values", "sigmas", "norms"):
            given = getattr(self, name)
            if not given or len(set(given)) < len(given):
                raise SettingError(f"the grid needs one or more {name}, each once; got {list(given)}")
        for norm in self.norms:
            check_norm(norm)
        for point in self.points:
            if not point.sigma > 0:
                raise SettingError(f"sigma={point.sigma} must be above 0: it is the standard deviation of the noise")
            law_named(point.law).scale_of(point.sigma)
        if self.r_max and len(self.r_max) != len(self.norms):
            raise SettingError(f"r_max={list(self.r_max)} must be one radius for each of the {len(self.norms)} norms")

    def law_at(self, value: float) -> str:
        """The law with its parameter, as a user would write it."""
        return f"{self.law}:{self.parameter}={written(value)}"

    @property
    def points(self) -> list[Point]:
        """Every classifier to train and certify."""
        return [Point(self.law_at(value), sigma) for value in self.values for sigma in self.sigmas]


@dataclass(frozen=True)
class Row:
    """The robustness score of one law in one norm, and the votes behind it.

    ``upper`` is the score if every radius were the largest that its probability allows, ``estimate`` the score of UniCR's
    radii; neither is certified. None where they were not asked for, or are not known.
    """

    law: str
    value: float
    score: Score
    upper: Score | None
    estimate: Score | None
    sigmas: tuple[float, ...]
    inputs: int
    trials: int
    alpha: float
    shared_noise: bool


def search(
    grid: Grid,
    indices: Sequence[int],
    out: Path,
    *,
    train: Callable[[Point, Path], Path],
    certify: Callable[[Point, Path, Path], object],
    estimates: int = 0,
) -> list[Row]:
    """Train and certify every point under ``out``, then score every law in every norm; writes table.csv and scores.png.

    ``train(point, folder)`` returns the weights that ``certify(point, weights, folder)`` makes a run of, in the first of
    the norms and with at least the inputs of ``indices``, over which the scores are taken. Both go on where they stopped when they are called again, and so does the search, to the same table.
    ``estimates`` adds the score of UniCR's estimate, computed at so many probabilities for each law and norm.
    """
    for point in grid.points:
        weights = train(point, out / "models" / point.folder)
        certify(point, weights, out / "runs" / point.folder)
    rows = scored(grid, indices, out, estimates)
    write_atomically(out / TABLE, to_csv(grid, rows))
    draw_scores(grid, rows, out / PICTURE)
    return rows


def scored(grid: Grid, indices: Sequence[int], out: Path, estimates: int = 0) -> list[Row]:
    """The rows of the table from the runs under ``out``: law by law, norm by norm."""
    rows = []
    for position, norm in enumerate(grid.norms):
        runs = {point: at_norm(out / "runs" / point.folder, norm, indices) for point in grid.points}
        others = {point: _other_ways(point, runs[point], out, estimates) for point in grid.points}
        read = [*runs.values(), *(records for pair in others.values() for records in pair if records is not None)]
        largest = max((record.radius for records in read for record in records if record.radius < math.inf), default=0)
        r_max = grid.r_max[position] if grid.r_max else largest or 1.0
        for value in grid.values:
            points = [Point(grid.law_at(value), sigma) for sigma in grid.sigmas]
            ways = [[runs[point] for point in points], *zip(*(others[point] for point in points), strict=True)]
            scores = [None if None in way else robustness_score(way, r_max) for way in ways]
            rows.append(_row(grid, value, scores, len(runs[points[0]]), out))
    return sorted(rows, key=lambda row: grid.values.index(row.value))


def _other_ways(
    point: Point, records: Sequence[Record], out: Path, estimates: int
) -> tuple[list[Record] | None, list[Record] | None]:
    """The records read as the upper radius and as UniCR's estimate, which are known for one class bounded."""
    if not law_named(point.law).independent or any(record.upper is not None for record in records):
        return None, None
    with open_run(out / "runs" / point.folder) as store:
        facts = store.facts()
    norm, dim = records[0].norm, math.prod(facts["shape"])
    upper = reread(records, upper_radii(point.law, norm, dim))
    if not estimates:
        return upper, None
    votes = facts["configuration"]["trials"]
    highest = float(lower_bound(votes, votes, facts["configuration"]["alpha"]))
    return upper, reread(records, Estimates(out / "estimates", estimates, highest).radii(point.law, norm, dim))


def _row(grid: Grid, value: float, scores: Sequence[Score | None], inputs: int, out: Path) -> Row:
    with open_run(out / "runs" / Point(grid.law_at(value), grid.sigmas[0]).folder) as store:
        configuration = store.facts()["configuration"]
    score, upper, estimate = scores
    assert score is not None
    return Row(
        law=grid.law_at(value),
        value=value,
        score=score,
        upper=upper,
        estimate=estimate,
        sigmas=grid.sigmas,
        inputs=inputs,
        trials=configuration["trials"],
        alpha=configuration["alpha"],
        shared_noise=configuration["shared_noise"],
    )


def at_norm(run: Place, norm: float, indices: Sequence[int]) -> list[Record]:
    """The records of these inputs of a run as they would be in another norm, from the votes that were kept.

    The votes say how probable the class is, whatever the norm; a bound that holds at any stop holds here too.
    """
    with open_run(run) as store:
        facts, asked = store.facts(), set(indices)
        if asked - store.indices():
            raise RunError(
                f"{run} holds no record of the inputs {sorted(asked - store.indices())[:5]}; certify them first"
            )
        plan = plan_of(facts["configuration"])
        records = [record for record in store.records() if record.index in asked]
        check_judgeable(facts["configuration"], records)
        shape = facts["shape"]
        pictures = {index: store.picture(index) for index in store.pictured() if index in asked}
        centers = [pictured_center(record, pictures.get(record.index), shape) for record in records]
        return [judge_again(r, plan, shape, store, norm, center) for r, center in zip(records, centers, strict=True)]


def best_of(rows: Sequence[Row]) -> dict[float, Row]:
    """The row of the highest score in each norm, the first of equals."""
    norms = dict.fromkeys(row.score.norm for row in rows)
    return {
        norm: max((row for row in rows if row.score.norm == norm), key=lambda row: row.score.value) for norm in norms
    }


def to_csv(grid: Grid, rows: Sequence[Row]) -> bytes:
    """One line per law and norm, numbers exact."""
    names = ("law", grid.parameter, "norm", "robustness_score", "r_max", "upper", "estimate", "sigmas", "label")
    lines = []
    for row in rows:
        score, sigmas = row.score, " ".join(map(written, row.sigmas))
        others = ("" if other is None else other.value for other in (row.upper, row.estimate))
        numbers = (row.value, score.norm, score.value, score.largest, *others, sigmas, score.soundness.value)
        lines.append((row.law, *numbers, row.inputs, row.trials, row.alpha, row.shared_noise))
    return csv_of((*names, "inputs", "trials", "alpha", "shared_noise"), lines)


def table(grid: Grid, rows: Sequence[Row]) -> Table:
    """The scores for people: proved, rounded down, the best of each norm in bold; the most it could be; UniCR's estimate."""
    first, best = rows[0], best_of(rows)
    sigmas = ", ".join(map(written, grid.sigmas))
    result = Table(title=f"robustness score of {grid.law}, envelope over sigma = {sigmas}")
    result.add_column(grid.parameter, justify="right")
    for norm, row in best.items():
        others = "" if row.upper is None else " … upper" if row.estimate is None else " … upper ~ UniCR's"
        result.add_column(f"l{norm:g}{others}, to R_max = {row.score.largest:.4g}", justify="right")
    result.add_column("label")
    for value in grid.values:
        own = [row for row in rows if row.value == value]
        cells = [_cell(row) for row in own]
        marked = [
            f"[bold]{cell}[/bold]" if row in best.values() else cell for cell, row in zip(cells, own, strict=True)
        ]
        result.add_row(written(value), *marked, own[0].score.soundness.value)
    noise = "the same draws for all inputs" if first.shared_noise else "own draws for each input"
    result.caption = (
        f"{first.inputs} inputs, {first.trials} votes each, alpha {first.alpha:g}, {noise}; "
        f"a score is the envelope of {len(grid.sigmas)} classifiers"
    )
    return result


def _cell(row: Row) -> str:
    """The proved score, and what was read otherwise from the same votes: 1.0052 … 1.0101 ~ 1.02."""
    text = round_down(row.score.value, 4)
    if row.upper is not None:
        text += f" … {round_up(row.upper.value, 4)}"
    return text if row.estimate is None else f"{text} ~ {row.estimate.value:.4g}"


def draw_scores(grid: Grid, rows: Sequence[Row], path: Path) -> Path:
    """The score against the parameter, one panel per norm, since scores of different norms do not compare."""
    order = np.argsort(grid.values)
    with matplotlib.rc_context(STYLE):
        figure, panels = figure_of(len(grid.norms))
        for panel, norm in zip(panels, grid.norms, strict=True):
            own = [row for row in rows if row.score.norm == norm]
            label = own[0].score.soundness
            heights = np.array([row.score.value for row in own])[order]
            panel.plot(
                np.array(grid.values)[order],
                heights,
                marker="o",
                color=COLOURS[0],
                linestyle=STYLES[label],
                label=f"envelope over sigma = {', '.join(map(written, grid.sigmas))} [{label.value}]",
            )
            for other, name in (("upper", "no more than"), ("estimate", "UniCR's estimate")):
                read = [getattr(row, other) for row in own]
                if None not in read:
                    values = np.array([score.value for score in read])[order]
                    heights = np.maximum(heights, values)
                    style: Any = {
                        "color": "grey",
                        "linestyle": STYLES[Soundness.ESTIMATE],
                        "marker": "v^"[other == "upper"],
                    }
                    panel.plot(np.array(grid.values)[order], values, label=name, linewidth=1, markersize=4, **style)
            panel.set(xlabel=grid.parameter, title=f"{grid.law}, l{norm:g}, to R_max = {own[0].score.largest:.4g}")
            panel.set_ylim(0, 1.08 * float(heights.max()) or 1.0)
            panel.legend(fontsize=9)
        figure.axes[0].set_ylabel("robustness score (in units of the radius)")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return path
