"""Records, store and runs: exact, resumable, the same bytes however the work was divided."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import smoothcert as sc
from smoothcert.data import ArrayDataset, Dataset
from smoothcert.errors import InputError, ModelError, RunError, SettingError, StoreError
from smoothcert.identity import name_for
from smoothcert.records.record import Record
from smoothcert.run import Progress
from smoothcert.store import RESULTS, SqliteStore, open_run
from smoothcert.store.pictures import Picture


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Twelve random 8-bit images with labels."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(12, 1, 28, 28), dtype=np.uint8)
    return ArrayDataset("noise", pixels, np.arange(12) % 2, classes=10)


def smoother(model: nn.Module, **settings: object) -> sc.Smoother:
    noise = sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255)
    return sc.Smoother(model, noise, **{"estimator": "fixed", "estimate": 500, "engine": sc.Engine(64), **settings})  # type: ignore[arg-type]


def bodies(directory: Path) -> list[str]:
    """The records as they are stored, byte for byte."""
    with sqlite3.connect(f"file:{directory / RESULTS}?mode=ro", uri=True) as db:
        rows = [body for (body,) in db.execute("SELECT body FROM records ORDER BY idx")]
    db.close()
    return rows


def records(directory: Path) -> list[Record]:
    with open_run(directory) as store:
        return list(store.records())


class TestRecords:
    def test_text_and_back_is_exact(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        sc.certify_all(smoother(linear_model, norm=float("inf")), dataset, tmp_path / "run")
        for record, body in zip(records(tmp_path / "run"), bodies(tmp_path / "run"), strict=True):
            assert record.to_json() == body
            assert Record.from_json(body) == record
            assert json.loads(body)["version"] == 3
            assert sum(record.selection) == 100
            assert sum(record.estimation[-1]) == record.trials == 500
            assert record.domain == "grid 1/255"
            assert record.norm == float("inf")
            assert record.leader == record.label or record.label is None

    @pytest.mark.parametrize(("version", "advice"), [(99, "install a newer one"), (1, "certify anew")])
    def test_another_version_is_refused(
        self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path, version: int, advice: str
    ) -> None:
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "run", indices=[0])
        other = json.loads(bodies(tmp_path / "run")[0]) | {"version": version}
        with pytest.raises(StoreError, match=f"version {version}, .*version 3 alone.*{advice}"):
            Record.from_json(json.dumps(other))


class TestSameBytes:
    def test_for_every_number_of_rows(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        for rows in (1, 7, 64):
            sc.certify_all(smoother(linear_model), dataset, tmp_path / str(rows), rows=rows)
        first, second, third = (bodies(tmp_path / name) for name in ("1", "7", "64"))
        assert len(first) == 12
        assert first == second == third

    def test_for_any_order_and_interruption(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "whole")
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "parts", indices=[7, 3])
        seen = []

        def stop(progress: object) -> None:
            seen.append(progress)
            if len(seen) == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sc.certify_all(smoother(linear_model), dataset, tmp_path / "parts", progress=stop)
        assert len(bodies(tmp_path / "parts")) == 6
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "parts")
        assert bodies(tmp_path / "parts") == bodies(tmp_path / "whole")

    def test_another_seed_gives_other_votes(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        for seed in (0, 1):
            sc.certify_all(smoother(linear_model, seed=seed), dataset, tmp_path / str(seed), indices=[0, 1, 2])
        assert bodies(tmp_path / "0") != bodies(tmp_path / "1")

    def test_per_coordinate_noise_is_kept_once(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        scale = np.random.default_rng(1).uniform(0.1, 0.4, size=(1, 28, 28))
        noise = sc.Noise("gaussian", scale, grid=1 / 255)
        sc.certify_all(
            sc.Smoother(linear_model, noise, estimator="fixed", estimate=200), dataset, tmp_path / "run", indices=[0, 1]
        )
        with open_run(tmp_path / "run") as store:
            addresses = {record.scale for record in store.records()}
            assert len(addresses) == 1
            np.testing.assert_array_equal(store.get(str(addresses.pop())), scale)
            with pytest.raises(StoreError, match="holds no array"):
                store.get("0" * 64)


class TestRefusals:
    def test_another_configuration_is_named(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "run", indices=[0])
        before = bodies(tmp_path / "run")
        with pytest.raises(RunError, match=r"alpha: 0\.001 there, 0\.01 here"):
            sc.certify_all(smoother(linear_model, alpha=0.01), dataset, tmp_path / "run", indices=[1])
        other = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
        with pytest.raises(RunError, match="model: .* there"):
            sc.certify_all(smoother(other), dataset, tmp_path / "run", indices=[1])
        changed = ArrayDataset("noise", np.zeros((12, 1, 28, 28), dtype=np.uint8), np.arange(12) % 2, classes=10)
        with pytest.raises(RunError, match="data: .* there"):
            sc.certify_all(smoother(linear_model), changed, tmp_path / "run", indices=[1])
        assert bodies(tmp_path / "run") == before

    def test_a_directory_of_something_else(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        (tmp_path / "letters.txt").write_text("dear")
        with pytest.raises(RunError, match="is not empty and is not a run"):
            sc.certify_all(smoother(linear_model), dataset, tmp_path)
        with pytest.raises(RunError, match="is not a run"), open_run(tmp_path):
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]

    def test_a_file_of_something_else(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        (tmp_path / RESULTS).write_bytes(b"not a database at all, but long enough to be one" * 10)
        with pytest.raises(StoreError, match="is not a file of results"):
            sc.certify_all(smoother(linear_model), dataset, tmp_path)
        (tmp_path / RESULTS).unlink()
        with sqlite3.connect(tmp_path / RESULTS) as db:
            db.execute("CREATE TABLE recipes (cake TEXT)")
        db.close()
        for use in (SqliteStore.facts, lambda store: store.describe({"a": 1})):
            with pytest.raises(StoreError, match="database of something else"):
                use(SqliteStore(tmp_path))

    @pytest.mark.parametrize("format_", [1, 99])
    def test_another_format(self, tmp_path: Path, format_: int) -> None:
        with SqliteStore(tmp_path) as store:
            store.describe({"format": format_})
        with pytest.raises(StoreError, match=f"has format {format_}"):
            SqliteStore(tmp_path).facts()

    def test_a_full_disk(
        self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SQLite's own limit of pages raises the error of a full disk; what was written before stays."""
        original = SqliteStore.append

        def limited(store: SqliteStore, record: Record, seconds: float, picture: Picture | None = None) -> None:
            if record.index == 3:
                store._db.execute("PRAGMA max_page_count=1")
                store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                record = Record(**{**record.__dict__, "rule": "x" * 100_000})
            original(store, record, seconds, picture)

        monkeypatch.setattr(SqliteStore, "append", limited)
        with pytest.raises(StoreError, match=r"disk of .* is full or failing .* free some space"):
            sc.certify_all(smoother(linear_model), dataset, tmp_path / "run")
        monkeypatch.undo()
        assert len(bodies(tmp_path / "run")) == 3
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "run")
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "whole")
        assert bodies(tmp_path / "run") == bodies(tmp_path / "whole")

    def test_repeated_indices_and_rows_of_noise(
        self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path
    ) -> None:
        with pytest.raises(SettingError, match="repeat an input"):
            sc.certify_all(smoother(linear_model), dataset, tmp_path / "run", indices=[1, 1])
        noise = sc.Noise("gaussian", np.full((12, 1, 28, 28), 0.25))
        with pytest.raises(SettingError, match="belongs to one batch"):
            sc.certify_all(sc.Smoother(linear_model, noise), dataset, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_labels_that_the_network_does_not_have(self, linear_model: nn.Module, tmp_path: Path) -> None:
        data = ArrayDataset("many", np.zeros((3, 1, 28, 28), dtype=np.uint8), [3, 10, 4])
        with pytest.raises(
            ModelError, match=r"has 10 classes, 0 to 9, and 'many' has an input of class 10; .*classes=…"
        ):
            sc.certify_all(smoother(linear_model), data, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_another_number_of_classes_is_said_before_the_votes(self, linear_model: nn.Module, tmp_path: Path) -> None:
        data = ArrayDataset("two", np.zeros((3, 1, 28, 28), dtype=np.uint8), [0, 1, 0])
        with pytest.warns(UserWarning, match="has 10 classes and 'two' 2; .* every accuracy is wrong"):
            sc.certify_all(smoother(linear_model), data, tmp_path / "run")

    def test_an_empty_file_of_results_is_a_new_run(
        self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path
    ) -> None:
        """What a kill leaves that came before the tables were made."""
        (tmp_path / RESULTS).touch()
        with pytest.raises(StoreError, match="nothing in it yet"), SqliteStore(tmp_path) as store:
            store.facts()
        sc.certify_all(smoother(linear_model), dataset, tmp_path, indices=[0])
        assert len(bodies(tmp_path)) == 1


class TestStore:
    def test_facts_are_kept(self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path) -> None:
        sc.certify_all(smoother(linear_model), dataset, tmp_path / "run", indices=[5, 2], notes={"command": "by hand"})
        with open_run(tmp_path / "run") as store:
            facts = store.facts()
        assert facts["subset"] == [2, 5]
        assert facts["notes"] == {"command": "by hand"}
        assert {"model", "data", "torch", "device", "precision", "runtime", "seed", "block"} <= set(
            facts["configuration"]
        )

    def test_inputs_without_labels(self, linear_model: nn.Module, tmp_path: Path) -> None:
        plain = ArrayDataset("plain", np.zeros((2, 1, 28, 28), dtype=np.uint8))
        sc.certify_all(smoother(linear_model), plain, tmp_path / "run")
        assert [record.truth for record in records(tmp_path / "run")] == [None, None]


CHILD = """
import sys, numpy as np, torch
from torch import nn
import smoothcert as sc
from smoothcert.data import ArrayDataset
generator = torch.Generator().manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
with torch.no_grad():
    model[1].weight.copy_(torch.randn(10, 784, generator=generator) / 10)
    model[1].bias.zero_()
count = 400 if sys.argv[1] == "views" else 40
pixels = np.random.default_rng(0).integers(0, 256, size=(count, 1, 28, 28), dtype=np.uint8)
noise = sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255)
if sys.argv[1] == "views":
    smoother = sc.Smoother(model.eval(), sc.Splitting(lam=2), norm=1)
else:
    engine = sc.Engine(runtime=sys.argv[1])
    smoother = sc.Smoother(model.eval(), noise, estimator="fixed", estimate=2000, engine=engine)
print("ready", flush=True)
sc.certify_all(smoother, ArrayDataset("noise", pixels), sys.argv[2])
print("done", flush=True)
"""


def killed_and_resumed(tmp_path: Path, kills: int, kind: str = "torch") -> tuple[list[str], list[str], int]:
    """The records of an unbroken run and of one killed so many times; and how many kills left a part of them.

    A kill comes a random moment after up to two more records: what counts is how far the run is, not the machine's pace.
    """
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [sys.executable, "-c", CHILD, kind]
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    chance, hits, kept = random.Random(0), 0, 0
    for _ in range(kills):
        with subprocess.Popen([*command, str(broken)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            target = kept + chance.randint(0, 2)
            while child.poll() is None and written(broken) < target:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
        kept = written(broken)
        hits += 0 < kept < written(whole)
    subprocess.run([*command, str(broken)], check=True, capture_output=True)
    return bodies(whole), bodies(broken), hits


def written(directory: Path) -> int:
    """How many records a run has stored, which may not have begun."""
    try:
        return len(bodies(directory))
    except sqlite3.OperationalError:
        return 0


@pytest.mark.slow
def test_a_run_killed_at_twenty_random_moments_gives_the_same_bytes(tmp_path: Path) -> None:
    whole, broken, hits = killed_and_resumed(tmp_path, kills=20)
    print(f"{hits} of 20 kills left a part of the records; {len(broken)} records, identical: {whole == broken}")
    assert hits >= 10
    assert len(whole) == 40
    assert any('"echo":0' in body for body in whole)
    assert whole == broken


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_killed_run_under_another_runtime_gives_the_same_bytes(tmp_path: Path, runtime: str) -> None:
    pytest.importorskip(runtime)
    whole, broken, hits = killed_and_resumed(tmp_path, kills=6, kind=runtime)
    assert hits >= 3
    assert len(whole) == 40
    assert whole == broken


@pytest.mark.slow
def test_a_killed_run_of_views_gives_the_same_bytes(tmp_path: Path) -> None:
    """Quick records are written several at a time: those that a kill takes are made again."""
    whole, broken, hits = killed_and_resumed(tmp_path, kills=8, kind="views")
    assert hits >= 4
    assert len(whole) == 400
    assert all('"alpha":0.0' in body for body in whole)
    assert whole == broken


def test_quick_records_are_written_together_and_all_of_them(
    linear_model: nn.Module, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first at once, since it claims the run; the others in few writes, and what waits when votes end badly too."""
    writes: list[int] = []
    append_all = SqliteStore.append_all

    def counted(store: SqliteStore, rows: Iterable[Any]) -> None:
        given = list(rows)
        writes.append(len(given))
        append_all(store, given)

    monkeypatch.setattr(SqliteStore, "append_all", counted)
    monkeypatch.setattr("smoothcert.run.TOGETHER", 1e9)

    def stop(progress: Progress) -> None:
        if progress.done == 5:
            raise KeyboardInterrupt

    viewed = sc.Smoother(linear_model, sc.Bands(width=4), threat="patch:1")
    with pytest.raises(KeyboardInterrupt):
        sc.certify_all(viewed, dataset, tmp_path / "run", progress=stop)
    assert writes == [1, 4]
    assert [record.index for record in records(tmp_path / "run")] == [0, 1, 2, 3, 4]
    sc.certify_all(smoother(linear_model), dataset, tmp_path / "noise", indices=[0, 1, 2])
    assert writes == [1, 4, 1, 1, 1]


class TestAStartThatFailed:
    """A run without records belongs to nobody; one with records to its configuration alone."""

    def test_leaves_the_place_free(self, linear_model: nn.Module, tmp_path: Path) -> None:
        values = np.random.default_rng(0).random((3, 1, 28, 28), dtype=np.float32)
        values[1, 0, 0, 0] = np.nan
        broken, whole = ArrayDataset("mine", values), ArrayDataset("mine", np.nan_to_num(values))
        certifier = smoother(linear_model, estimate=100)
        certifier.noise = sc.Noise.isotropic("gaussian", 0.25)
        with pytest.raises(InputError, match="NaN"):
            sc.certify_all(certifier, broken, tmp_path / "run")
        sc.certify_all(certifier, whole, tmp_path / "run", indices=[0, 2])
        with open_run(tmp_path / "run") as store:
            assert store.indices() == {0, 2}
            assert store.facts()["configuration"]["data"] == whole.fingerprint()
            assert store.facts()["subset"] == [0, 2]

    @pytest.mark.parametrize("memory", [False, True])
    def test_the_first_record_decides_whose_it_is(
        self, linear_model: nn.Module, dataset: Dataset, tmp_path: Path, memory: bool
    ) -> None:
        """Two configurations vote for one run: it becomes that of the first to have a record, and holds nothing of the other."""
        there = tmp_path / "run"
        own = {"memory": tmp_path / "memory.sqlite"} if memory else {}

        class Meeting(SqliteStore):
            def claim(self, name: str, value: Any) -> Any:
                if name == "configuration":
                    sc.certify_all(smoother(linear_model, select=7), dataset, SqliteStore(there), indices=[1], **own)
                return super().claim(name, value)

        with pytest.raises(RunError, match="holds another configuration .select: 7 there"):
            sc.certify_all(smoother(linear_model), dataset, Meeting(there), indices=[0], **own)
        with open_run(there) as store:
            assert (store.indices(), store.facts()["subset"]) == ({1}, [1])
            assert store.facts()["configuration"]["select"] == 7
            run = name_for(store.facts()["configuration"])
        if memory:
            with sc.Memory.open(own["memory"]) as kept:
                assert (len(kept), kept.indices(run)) == (1, {1})
        sc.certify_all(smoother(linear_model, select=7), dataset, there, indices=[0], **own)
        assert [record.index for record in records(there)] == [0, 1]
