"""Where a run is kept: a directory, a store in words, or an open store; for everything that is done with a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.attacks.check import Effort
from smoothcert.attacks.over_run import attack_run
from smoothcert.data import ArrayDataset
from smoothcert.errors import RunError, SettingError, UnknownName
from smoothcert.explore.explorer import Explorer
from smoothcert.recertify import recertify
from smoothcert.report.comparisons import supersets
from smoothcert.report.runs import read_runs
from smoothcert.report.write import write_report
from smoothcert.store import (
    VOID,
    InMemoryStore,
    ResultStore,
    SqliteStore,
    directory_of,
    new_run,
    open_run,
    opened,
    store_of,
)
from smoothcert.testing.leaks import LocLeak
from smoothcert.testing.problems import HalfSpace
from smoothcert.testing.store_acts import record_at, texts
from smoothcert.testing.stores import LastingStoreSuite
from smoothcert.tuners.reuse import Reuse

DATA = ArrayDataset("four", np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32), [0, 1, 0, 1])
EFFORT = Effort(("random",), 100, 500)


def smoother(**settings: object) -> sc.Smoother:
    noise = sc.Noise("gaussian", np.linspace(0.3, 0.7, 6))
    votes = {"select": 20, "estimate": 400, "engine": sc.Engine(100, workers=1)} | settings
    return sc.Smoother(HalfSpace(torch.eye(6)[0]), noise, **votes)  # type: ignore[arg-type]


def test_a_place_is_written_in_three_ways(tmp_path: Path) -> None:
    for place in (tmp_path / "a", str(tmp_path / "a"), f"sqlite:path={tmp_path / 'a'}", SqliteStore(tmp_path / "a")):
        assert sc.certify_all(smoother(), DATA, place, indices=[0]) is place
        assert directory_of(place) == tmp_path / "a"
        with open_run(place) as store:
            assert store.indices() == {0}
    named = Path("2024:a/run")  # a Path is a directory, whatever it is called
    assert directory_of(named) == named
    with pytest.raises(UnknownName, match="did you mean 'sqlite'"):
        store_of("sqlit:path=a")
    with pytest.raises(SettingError, match="would be lost"), opened("in_memory:label=a"):
        pass


def test_an_open_store_is_left_open(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "run") as store:
        sc.certify_all(smoother(), DATA, store)
        assert "_db" in vars(store)
        with open_run(store) as same:
            assert same is store
        assert "_db" in vars(store)
    assert "_db" not in vars(store)


def test_everything_works_on_a_store_in_memory(tmp_path: Path) -> None:
    """Certified, gone on with, judged again, reported, attacked, explored, used again: as in a directory."""
    store, judged, folder = InMemoryStore("first"), InMemoryStore("second"), tmp_path / "run"
    sc.certify_all(smoother(), DATA, store, indices=[3])
    sc.certify_all(smoother(), DATA, store)
    sc.certify_all(smoother(), DATA, folder)
    with open_run(folder) as plain:
        assert texts(store) == texts(plain)
    assert recertify(store, judged, {"alpha": 0.01}) == 4
    recertify(folder, tmp_path / "judged", {"alpha": 0.01})
    with open_run(tmp_path / "judged") as plain:
        assert texts(judged) == texts(plain)
    assert judged.facts()["configuration"]["recertified_from"] == "in_memory:label=first"
    runs = read_runs([store, judged])
    assert [run.name for run in runs] == ["in_memory:label=first", "in_memory:label=second"]
    page = write_report(runs, [0.1], tmp_path / "report").read_text(encoding="utf-8")
    assert "in_memory:label=second" in page
    shown = supersets([line for run in runs for line in run.lines])
    assert shown is not None
    assert shown.rows[0][0] == "in_memory:label=first ⊇ in_memory:label=second"
    found = attack_run(smoother(), DATA, store, EFFORT, multiples=(1.0, 3.0))
    expected = attack_run(smoother(), DATA, folder, EFFORT, multiples=(1.0, 3.0))
    assert [(one.index, one.times, one.worst) for one in found] == [(o.index, o.times, o.worst) for o in expected]
    assert len(found) == 8
    explorer = Explorer(smoother(), DATA, store)
    assert explorer.input(0)["index"] == 0
    explorer.close()
    again = InMemoryStore()
    sc.certify_all(smoother(seed=1, tuner=Reuse(store)), DATA, again, indices=[0, 1])
    assert [record.scale for record in again.records()] == [record.scale for record in store.records()][:2]


def test_names_tell_stores_apart() -> None:
    stores = [InMemoryStore(), InMemoryStore()]
    for store in stores:
        store.append(record_at(0), 1.0)
    assert [run.name for run in read_runs(stores)] == ["in_memory (1)", "in_memory (2)"]
    with pytest.raises(RunError, match="given twice"):
        read_runs([stores[0], stores[0]])


def test_a_memory_goes_with_a_store_in_memory(tmp_path: Path) -> None:
    """The smoother's own lasts as long as the store; a store that can keep none says so before anything is written."""
    store, own = InMemoryStore(), smoother(tuner=LocLeak(), memory=sc.Memory())
    with pytest.raises(SettingError, match="in_memory can keep no memory"):
        sc.certify_all(smoother(tuner=LocLeak()), DATA, store, memory=store)
    assert not store.begun
    sc.certify_all(own, DATA, store)
    assert {record.soundness.value for record in store.records()} == {"memory"}
    assert not any(finding.violated for finding in attack_run(own, DATA, store, EFFORT))
    with pytest.raises(RunError, match="but no memory; give its file"):
        attack_run(smoother(tuner=LocLeak()), DATA, store, EFFORT)
    with pytest.raises(SettingError, match="ends with this program"):
        sc.certify_all(own, DATA, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    directory = SqliteStore(tmp_path / "kept")
    sc.certify_all(smoother(tuner=LocLeak()), DATA, directory, memory=tmp_path / "kept")  # the same place
    assert attack_run(smoother(tuner=LocLeak()), DATA, directory, EFFORT, limit=1)
    directory.close()


def test_a_void_run_is_refused_in_any_store() -> None:
    store = InMemoryStore()
    sc.certify_all(smoother(), DATA, store, indices=[0])
    store.describe({VOID: "it changed"})
    with pytest.raises(RunError, match=r"in_memory is void \(it changed\)"), open_run(store):
        pass
    with pytest.raises(RunError, match=r"is void"):
        sc.certify_all(smoother(), DATA, store)
    assert store.indices() == {0}


def test_a_new_run_needs_an_empty_place(tmp_path: Path) -> None:
    store = InMemoryStore()
    store.describe({"a": 1})
    with pytest.raises(RunError, match="in_memory exists and is not an empty store"), new_run(store):
        pass
    with new_run(f"sqlite:path={tmp_path / 'run'}") as made:
        made.describe({"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def examples() -> list[str]:
    """The store of another package and its test, as the documentation shows them."""
    text = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    return [code for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "PickledStore" in code]


NETWORK = """
import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
"""


@pytest.mark.slow
def test_the_store_of_the_documentation_passes_the_suite_and_works(tmp_path: Path) -> None:
    """In processes of their own: its two-line test under pytest, and the command line."""
    store, test = examples()
    for name, text in (("my_stores", store), ("test_my_stores", test), ("network", NETWORK)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tests = [name for name in dir(LastingStoreSuite) if name.startswith("test_")]
    assert f"{len(tests)} passed" in run("pytest", "-q", "-p", "no:cacheprovider", "test_my_stores.py")
    place = "my_stores:PickledStore:path=run.pickle"
    votes = ["--sigma", "0.5", "--limit", "3", "-n", "200", "--block", "50", "--select", "20"]
    run("smoothcert", "certify", "--model", "network:build", *votes, "--out", place)
    run("smoothcert", "recertify", place, "--alpha", "0.01", "--out", "again")
    rows = json.loads(run("smoothcert", "report", place, "again", "--json", "--out", "page"))
    assert [(row["run"], row["inputs"], row["alpha"]) for row in rows] == [(place, 3, 0.001), ("again", 3, 0.01)]
    assert not (tmp_path / "run.toml").exists()


def begin(store: ResultStore, number: int) -> None:
    """As merging and judging again do."""
    store.describe({"configuration": {"number": number}})
    store.append(record_at(number), 1.0)


def test_of_two_new_runs_in_one_directory_the_first_that_ends_is_kept(tmp_path: Path) -> None:
    """Each is written apart, so that none has records of the other under its name; nothing else is left behind."""
    place = tmp_path / "run"

    def both() -> None:
        with new_run(place) as one:
            begin(one, 1)
            with new_run(place) as other:
                begin(other, 2)
            one.append(record_at(3), 1.0)

    with pytest.raises(RunError, match="is not an empty directory"):
        both()
    with open_run(place) as store:
        assert (store.facts()["configuration"], store.indices()) == ({"number": 2}, {2})
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_of_two_new_runs_in_one_store_the_first_that_begins_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both found it free."""
    monkeypatch.setattr("smoothcert.store.check_free", lambda out: None)
    place = InMemoryStore()
    with new_run(place) as one:
        with pytest.raises(RunError, match="another program is writing to"), new_run(place):
            pass
        begin(one, 1)
    assert (place.facts()["configuration"], place.indices()) == ({"number": 1}, {1})
