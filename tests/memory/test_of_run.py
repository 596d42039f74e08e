"""Runs and predictions through a memory: leaks overruled, resumed equals unbroken, files of something else untouched."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.errors import InputError, RunError, SettingError, StoreError
from smoothcert.identity import name_for
from smoothcert.memory.of_run import check_kept
from smoothcert.recertify import recertify
from smoothcert.records.promise import Promise
from smoothcert.records.record import Record
from smoothcert.report.runs import read_runs
from smoothcert.report.tables import summary
from smoothcert.search import at_norm
from smoothcert.smoother import Smoother
from smoothcert.store import RESULTS, SqliteStore, open_run


class Sign(nn.Module):
    """Class 1 where the first coordinate is positive; counts its calls."""

    calls = 0

    def forward(self, z: Tensor) -> Tensor:
        self.calls += 1
        return torch.stack([-z[:, 0], z[:, 0]], dim=1)


class Outside(nn.Module):
    """Class 1 where the first coordinate is beyond 1 either way."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.stack([1 - z[:, 0].abs(), z[:, 0].abs() - 1], dim=1)


class LeakyLoc(sc.Tuner):
    """loc = 5·sign x: the noise carries the label (theory of the frozen label)."""

    name, reads_input = "leaky_loc", True

    def choose(self, smoother: Smoother, x: Tensor, start: sc.Noise, indices: Sequence[int]) -> sc.Noise:
        return sc.Noise(start.law, start.scale, 5 * x.double().sign())


class LeakyScale(sc.Tuner):
    """A scale that is large on one side of zero and small on the other."""

    name, reads_input = "leaky_scale", True

    def choose(self, smoother: Smoother, x: Tensor, start: sc.Noise, indices: Sequence[int]) -> sc.Noise:
        return sc.Noise(start.law, torch.where(x[:, :1].double() > 0, 10.0, 0.01).expand_as(x.double()))


LEAKS = {"loc": (Sign, LeakyLoc), "scale": (Outside, LeakyScale)}


def leaky(leak: str = "loc", **settings: object) -> sc.Smoother:
    model, tuner = LEAKS[leak]
    noise = sc.Noise("gaussian", settings.pop("scale", 1.0))  # type: ignore[arg-type]
    plan = {"estimator": "fixed", "estimate": 2_000, "engine": sc.Engine(workers=1), "tuner": tuner()}
    return sc.Smoother(model().eval(), noise, **{**plan, **settings})  # type: ignore[arg-type]


def rows(*values: float, dim: int = 1) -> ArrayDataset:
    inputs = np.zeros((len(values), dim), dtype=np.float32)
    inputs[:, 0] = values
    return ArrayDataset("rows", inputs, np.zeros(len(values), dtype=int), classes=2)


def crowd() -> ArrayDataset:
    return rows(*np.random.default_rng(3).normal(size=24).round(2))


def records(run: Path) -> list[Record]:
    with open_run(run) as store:
        return list(store.records())


def promises(path: Path) -> list[tuple[object, ...]]:
    def row(p: Promise) -> tuple[object, ...]:
        return (p.sequence, p.index, p.label, p.soundness, p.region.radius, p.region.center.tolist(), p.details)

    with sc.Memory.open(path, create=False) as memory:
        return [row(promise) for promise in memory.promises()]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_frozen_without_memory_and_overruled_with_it(leak: str, tmp_path: Path) -> None:
    data = rows(0.05, -0.01)
    first, second = records(sc.certify_all(leaky(leak), data, tmp_path / "frozen"))
    assert (first.soundness, second.soundness) == ("frozen", "frozen")
    assert (first.label, second.label) == (1, 0)
    assert first.radius > 0.06  # the second lies inside, with another label: frozen certificates contradict
    run = tmp_path / "settled"
    kept, later = records(sc.certify_all(leaky(leak), data, run, memory=run))
    assert (kept.label, kept.radius, kept.soundness) == (1, first.radius, "memory")
    assert (later.label, later.soundness, later.rule) == (1, "memory", "memory")
    assert later.radius <= min(second.radius, first.radius)
    with sc.Memory.open(run / RESULTS) as memory:
        assert memory.answer([-0.01]) == 1
    own = leaky(leak, memory=sc.Memory()).certify(torch.tensor([[0.05], [-0.01]]))
    assert [(c.label, c.radius, c.soundness) for c in own] == [(r.label, r.radius, r.soundness) for r in (kept, later)]


@pytest.mark.parametrize("where", ["inside", "file"])
def test_an_interrupted_run_equals_an_unbroken_one(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between the promise and the record, and after a record, several times; in any order of the indices."""

    def certify(name: str, **options: object) -> tuple[list[Record], list[tuple[object, ...]]]:
        run, data = tmp_path / name, crowd()
        memory = run if where == "inside" else tmp_path / f"{name}.sqlite"
        sc.certify_all(leaky(), data, run, memory=memory, rows=5, **options)  # type: ignore[arg-type]
        return records(run), promises(run / RESULTS if where == "inside" else memory)

    whole = certify("whole")
    original = SqliteStore.append
    for stop in (0, 4, 5, 17):

        def broken(store: SqliteStore, record: Record, *more: object, stop: int = stop) -> None:
            if record.index == stop:
                raise KeyboardInterrupt
            original(store, record, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(SqliteStore, "append", broken)
        with pytest.raises(KeyboardInterrupt):
            certify("parts", indices=range(23, -1, -1))
    monkeypatch.undo()
    assert certify("parts") == whole
    assert len(whole[1]) == 24
    assert sum(r.rule == "memory" for r in whole[0]) > 3  # the conflicts were real


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
from test_of_run import *
stop, original = int(sys.argv[2]), SqliteStore.append
def append(store, record, *more, **named):
    if record.index == stop:
        os.kill(os.getpid(), signal.SIGKILL)
    original(store, record, *more, **named)
SqliteStore.append = append
sc.certify_all(leaky(), crowd(), sys.argv[1], memory=sys.argv[1])
"""


def test_a_killed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    """SIGKILL after the promise and before its record."""
    for stop, status in ((11, -signal.SIGKILL), (-1, 0)):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(stop), str(Path(__file__).parent)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == status
    sc.certify_all(leaky(), crowd(), tmp_path / "whole", memory=tmp_path / "whole")
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    assert promises(tmp_path / "killed" / RESULTS) == promises(tmp_path / "whole" / RESULTS)


def test_runs_of_one_classifier_share_a_file(tmp_path: Path) -> None:
    memory = tmp_path / "m.sqlite"
    [first] = records(sc.certify_all(leaky(), rows(0.05), tmp_path / "a", memory=memory))
    [second] = records(sc.certify_all(leaky(), rows(-0.01), tmp_path / "b", memory=memory))  # other data, same index
    assert (first.label, second.label, second.rule) == (1, 1, "memory")
    [again] = records(sc.certify_all(leaky(), rows(0.05), tmp_path / "c", memory=memory))  # the same run elsewhere
    assert again == first
    assert [p[:3] for p in promises(memory)] == [(1, 0, 1), (2, 0, 1)]


def test_a_run_is_not_continued_without_its_memory(tmp_path: Path) -> None:
    run, memory = tmp_path / "run", tmp_path / "m.sqlite"
    sc.certify_all(leaky(), rows(0.05, -0.01), run, memory=memory, indices=[0])
    with pytest.raises(RunError, match="memory: settled there, None here"):
        sc.certify_all(leaky(), rows(0.05, -0.01), run)
    memory.unlink()
    with pytest.raises(RunError, match="lacks the promises of 1 inputs"):
        sc.certify_all(leaky(), rows(0.05, -0.01), run, memory=memory)
    assert len(records(run)) == 1
    with pytest.raises(SettingError, match="settled by a memory"):
        recertify(run, tmp_path / "again", {"alpha": 0.01})


def test_a_run_is_not_continued_with_a_memory_that_promised_otherwise(tmp_path: Path) -> None:
    """A memory begun anew, and settled in another order by the same run elsewhere: it has every index, and other promises."""
    data, memory = rows(0.05, -0.01, -0.3), tmp_path / "m.sqlite"
    sc.certify_all(leaky(), data, tmp_path / "old", memory=memory, indices=[0, 1])
    memory.unlink()
    for index in (1, 0):
        sc.certify_all(leaky(), data, tmp_path / "new", memory=memory, indices=[index])
    told = [[(record.label, record.region_radius) for record in records(tmp_path / name)] for name in ("old", "new")]
    assert told[0][0][0] != told[1][0][0]  # the same input, another label
    with pytest.raises(RunError, match="lacks the promises of 2 inputs .* or has others for them .index 0"):
        sc.certify_all(leaky(), data, tmp_path / "old", memory=memory)
    sc.certify_all(leaky(), data, tmp_path / "new", memory=memory)
    own = records(tmp_path / "new")[0]
    with open_run(tmp_path / "new") as store, sc.Memory.open(memory) as kept:
        run = name_for(store.facts()["configuration"])
        check_kept(kept, run, [own], "here")

        def just_settled() -> Iterator[Record]:  # by another process, while the records are read
            settled = sc.Certificate(1, sc.Bound(0.9, 0.001, 100), region, sc.Soundness.FROZEN)
            kept.settle(settled, index=99, run=run)
            yield replace(own, index=99, label=1, region_radius=0.25)

        region = sc.Region(np.array([40.0]), np.array(1.0), 0.25, 2.0)
        check_kept(kept, run, just_settled(), "here")
        with pytest.raises(RunError, match="or has others for them"):
            check_kept(kept, run, [replace(own, region_radius=1.001 * own.region_radius)], "here")


@pytest.mark.parametrize(
    ("settings", "dim", "word"),
    [
        ({"scale": 2.0}, 1, r"another owner: scale: 1\.0 there, 2\.0 here"),
        ({"seed": 1}, 1, "another owner: seed: 0 there, 1 here"),
        ({}, 2, "another dim: 1 there, 2 here"),
        ({"norm": 1}, 1, r"another norm: 2\.0 there, 1\.0 here"),
        ({"norm": 0.5}, 1, "not convex"),
    ],
)
def test_a_memory_of_something_else_is_refused(
    settings: dict[str, object], dim: int, word: str, tmp_path: Path
) -> None:
    memory = tmp_path / "m.sqlite"
    sc.certify_all(leaky(), rows(0.05), tmp_path / "a", memory=memory)
    before = memory.read_bytes()
    with pytest.raises((RunError, SettingError), match=word):
        sc.certify_all(leaky(**settings), rows(0.05, dim=dim), tmp_path / "b", memory=memory)
    assert memory.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "m.sqlite"]


def test_a_damaged_memory_and_a_run_without_one_are_refused(tmp_path: Path) -> None:
    memory = tmp_path / "m.sqlite"
    sc.certify_all(leaky(), rows(0.05), tmp_path / "a", memory=memory)
    with sqlite3.connect(memory) as db:
        db.execute("UPDATE memory_promises SET radius = 99")
    db.close()
    with pytest.raises(StoreError, match="does not match its checksum"):
        sc.certify_all(leaky(), rows(0.05), tmp_path / "b", memory=memory)
    for place, word in ((tmp_path / "a", "holds no memory"), (tmp_path / "text", "not a database")):
        (tmp_path / "text").write_text("not a database, but long enough to have a header" * 50)
        with pytest.raises(StoreError, match=word):
            sc.certify_all(leaky(), rows(0.05), tmp_path / "b", memory=place)
    assert not (tmp_path / "b").exists()
    with pytest.raises(SettingError, match="ends with this program"):
        sc.certify_all(leaky(memory=sc.Memory()), rows(0.05), tmp_path / "b")
    with pytest.raises(SettingError, match="is another; give one of them"):
        sc.certify_all(leaky(memory=sc.Memory()), rows(0.05), tmp_path / "b", memory=memory)
    assert not (tmp_path / "b").exists()


def test_predict_keeps_promises_without_the_model() -> None:
    smoother = leaky(memory=sc.Memory())
    assert smoother.memory is not None
    smoother.certify(torch.tensor([[0.05]]))
    model = smoother.model.model
    assert isinstance(model, Sign)
    calls = model.calls
    assert smoother.predict(torch.tensor([[-0.01], [0.5]])) == [1, 1]
    assert model.calls == calls
    assert smoother.predict(torch.tensor([[-0.01], [-9.0], [-9.0]])) == [1, 0, 0]
    assert model.calls > calls
    assert len(smoother.memory) == 2  # the region, and -9 once
    assert smoother.memory.answer([-9.0]) == 0
    assert leaky().predict(torch.tensor([[-0.01]])) == [0]  # what the leak says without a memory


def test_an_undecided_prediction_is_no_promise() -> None:
    memory = sc.Memory()
    undecided = sc.Smoother(Sign().eval(), sc.Noise("gaussian", 1.0), memory=memory, engine=sc.Engine(workers=1))
    assert undecided.predict(torch.tensor([[0.0]])) == [None]
    assert len(memory) == 0


def test_a_settled_run_is_one_line_of_a_report(tmp_path: Path) -> None:
    """Abstentions count in it: fixed noise with a memory, and per-input noise that abstains at zero."""
    smoother = sc.Smoother(
        Sign().eval(), sc.Noise("gaussian", 1.0), estimator="fixed", estimate=2_000, engine=sc.Engine(workers=1)
    )
    data = rows(1.0, 0.0, -1.0)
    sc.certify_all(smoother, data, tmp_path / "fixed", memory=tmp_path / "fixed")
    sc.certify_all(leaky(), data, tmp_path / "leaky", memory=tmp_path / "leaky")
    lines = [line for run in read_runs([tmp_path / "fixed", tmp_path / "leaky"]) for line in run.lines]
    assert [(line.name, line.soundness.value, len(line.records)) for line in lines] == [
        ("fixed", "memory", 3),
        ("leaky", "memory", 3),
    ]
    assert summary(lines[0], [0.0])["abstention"] == pytest.approx(1 / 3)


def test_a_settled_run_is_not_judged_again_in_another_norm(tmp_path: Path) -> None:
    """Its votes alone would give two regions that overlap and disagree, and call both kept."""
    sc.certify_all(leaky(), rows(0.05, -0.05), tmp_path / "run", memory=tmp_path / "run")
    with pytest.raises(SettingError, match="settled by a memory"):
        at_norm(tmp_path / "run", 2.0, [0, 1])


def test_a_memory_knows_its_classifier_to_the_last_setting() -> None:
    """Settings beyond the first letters of a name tell two classifiers apart."""
    model, memory = Sign().eval(), sc.Memory()
    sc.Smoother(model, sc.Noise("gaussian", 1.0), tuner=sc.DataDependent(votes=400), memory=memory)
    for other in (sc.DataDependent(votes=4000), sc.DataDependent(votes=400, largest=5.0), sc.Ancer()):
        with pytest.raises(RunError, match="another owner"):
            sc.Smoother(model, sc.Noise("gaussian", 1.0), tuner=other, memory=memory)


@pytest.mark.parametrize("grid", [1 / 255, None])
def test_a_memory_takes_an_input_as_certify_does(grid: float | None, tmp_path: Path) -> None:
    """float32 has no 1/255, and no 0.1: the promise at an input is kept for it in either precision, and from the file."""
    pixels = np.arange(1, 255, 23)[:, None] / 255
    smoother = sc.Smoother(
        Sign().eval(), sc.Noise("gaussian", 0.01, grid=grid), tuner=sc.DataDependent(), engine=sc.Engine(workers=1),
        memory=sc.Memory.open(tmp_path / "memory.sqlite"), estimate=1_000,
    )  # fmt: skip
    assert smoother.memory is not None
    labels = smoother.predict(torch.from_numpy(pixels))
    assert labels == [1] * len(pixels)
    with sc.Memory.open(tmp_path / "memory.sqlite") as again:
        for memory in (smoother.memory, again):
            assert [memory.answer(x) for x in pixels] == labels
            assert [memory.answer(x.astype(np.float32)) for x in pixels] == labels
            assert memory.answer(pixels[0] + 2 / 255) is None
            assert memory.settle_answer(pixels[1].astype(np.float32), 0) == 1
    abstention = sc.Certificate(None, sc.Bound(0.4, 0.001, 100), None, sc.Soundness.FROZEN)
    assert smoother.memory.settle(abstention, center=pixels[0].astype(np.float32)).label == 1
    if grid is not None:
        with pytest.raises(InputError, match="off the grid"):
            smoother.memory.answer(pixels[0] + 0.3 / 255)
