"""The memory's file: resumed equals unbroken, shared by processes, and never used wrongly or damaged by a refusal."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from smoothcert.certificates import Certificate, Soundness
from smoothcert.errors import RunError, SettingError, StoreError
from smoothcert.estimators.bounds import Bound
from smoothcert.memory.memory import Memory
from smoothcert.regions import Region
from smoothcert.store.sqlite import SqliteStore

BOUND = Bound(0.9, 0.001, 100, 0.1)


def crowd(seed: int, count: int, dim: int = 2) -> list[Certificate]:
    """Certificates that meet each other: ellipsoids, balls and boxes of three labels."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        scale = np.asarray(np.exp(rng.normal(size=dim)) if number % 2 else np.exp(rng.normal()))
        norm = [2.0, 1.0, math.inf][number % 3]
        region = Region(rng.normal(size=dim), scale, float(rng.exponential(0.5)), norm)
        found.append(Certificate(number % 3, BOUND, region, Soundness.FROZEN, "rule"))
    return found


def row(certificate: Certificate) -> tuple[object, ...]:
    region = certificate.region
    assert region is not None
    numbers = (region.radius, region.norm, np.asarray(region.center).tolist(), np.asarray(region.scale).tolist())
    return (
        certificate.label,
        certificate.soundness,
        certificate.rule,
        certificate.bound,
        *numbers,
    )


def settle(memory: Memory, certificates: list[Certificate], first: int = 0) -> list[tuple[object, ...]]:
    return [row(memory.settle(c, index=first + i)) for i, c in enumerate(certificates)]


def test_resumed_equals_unbroken(tmp_path: Path) -> None:
    for seed in range(20):
        items = crowd(seed, 24)
        unbroken = settle(Memory(), items)
        resumed = []
        for start in range(
            0, 24, 8
        ):  # each piece begins with what a crash may leave: the last one settled, not recorded
            with Memory.open(tmp_path / f"{seed}.sqlite", owner="run") as memory:
                again = max(0, start - 1)
                resumed[again:] = settle(memory, items[again : start + 8], again)
        assert resumed == unbroken
        with Memory.open(tmp_path / f"{seed}.sqlite") as memory:
            assert [p.label for p in memory.promises()] == [r[0] for r in unbroken]
            assert [memory.answer(c.region.center) for c in items if c.region is not None] == [r[0] for r in unbroken]


def test_two_memories_on_one_file_take_turns_as_one(tmp_path: Path) -> None:
    for seed in range(10):
        items, path = crowd(seed, 24), tmp_path / f"{seed}.sqlite"
        with Memory.open(path) as one, Memory.open(path) as other:
            given = [row((other if i % 3 else one).settle(c, index=i)) for i, c in enumerate(items)]
        assert given == settle(Memory(), items)


WORKER = """
import json, sys, time
sys.path.insert(0, sys.argv[3])
from test_keeper import crowd, row, Memory
which, path = int(sys.argv[1]), sys.argv[2]
given = {}
with Memory.open(path, dim=2, owner="both") as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for index, certificate in list(enumerate(crowd(5, 80)))[which::2]:
        time.sleep(0.002)
        given[index] = [memory.settle(certificate, index=index).label, memory.settle(certificate, index=index).radius]
print(json.dumps(given))
"""


def started(number: int, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(number), str(path), str(Path(__file__).parent)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_processes_settle_into_one_file(tmp_path: Path) -> None:
    """Both start on a file that does not exist, at the same moment; nothing is lost and nothing contradicts."""
    path = tmp_path / "memory.sqlite"
    workers = [started(number, path) for number in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    given: dict[str, list[float]] = {}
    for worker in workers:
        output, _ = worker.communicate(timeout=100)
        assert worker.returncode == 0
        given |= json.loads(output)
    with Memory.open(path, owner="both") as memory:
        promises = list(memory.promises())
    assert [p.sequence for p in promises] == list(range(1, 81))
    assert sorted(p.index for p in promises if p.index is not None) == list(range(80))
    assert all(given[str(p.index)] == [p.label, p.region.inner_radius] for p in promises)
    for one, other in combinations(promises, 2):
        assert one.label == other.label or one.region.clearance(other.region) > one.region.radius


def test_a_reader_sees_what_a_writer_adds(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as writer, Memory.open(tmp_path / "m.sqlite") as reader:
        assert reader.answer([0.0, 0.0]) is None
        settled = writer.settle(crowd(1, 1)[0])
        assert settled.region is not None
        assert reader.answer(settled.region.center) == settled.label


def test_threads_take_turns() -> None:
    memory, items = Memory(), crowd(9, 40)
    threads = [threading.Thread(target=settle, args=(memory, items[i::4], 100 * i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory) == 40


def test_a_memory_inside_a_runs_results(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with SqliteStore(tmp_path) as store:
        store.describe({"configuration": {"a": 1}})
        with Memory.open(path, owner="run") as memory:
            expected = settle(memory, crowd(2, 5))
    with SqliteStore(tmp_path) as store, Memory.open(path, owner="run") as memory:
        assert store.facts()["configuration"] == {"a": 1}
        assert settle(memory, crowd(2, 5)) == expected


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"dim": 3}, "dim: 2 there, 3 here"),
        ({"norm": 2}, "norm: 1.0 and 2.0"),
        ({"owner": "b"}, "owner: a there, b here"),
    ],
)
def test_a_memory_of_something_else_is_refused_and_untouched(
    tmp_path: Path, settings: dict[str, object], word: str
) -> None:
    path = tmp_path / "m.sqlite"
    with Memory.open(path, owner="a") as memory:
        settle(memory, crowd(3, 4))
    before = path.read_bytes()
    with pytest.raises(RunError, match=word):
        Memory.open(path, **settings)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.sqlite"]


def test_a_memory_without_owner_is_not_taken_over(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite", norm=2, dim=2) as memory:
        memory.settle(crowd(3, 1)[0])
        with pytest.raises(SettingError, match=r"norm 1\.0, this memory of norm 2\.0"):
            memory.settle(crowd(3, 2)[1])
    with pytest.raises(RunError, match="owner: nobody there"):
        Memory.open(tmp_path / "m.sqlite", owner="b")
    with pytest.raises(SettingError, match="not convex"):
        Memory.open(tmp_path / "n.sqlite", norm=0.5)
    assert not (tmp_path / "n.sqlite").exists()


def damaged(kind: str, path: Path) -> None:
    """A file that is no good memory."""
    if kind == "text":
        path.write_text("not a database, but long enough to have a header" * 50)
    elif kind == "empty":
        path.touch()
    elif kind == "directory":
        path.mkdir()
    elif kind == "foreign":
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE facts (name, value)")
    else:
        with Memory.open(path) as memory:
            settle(memory, crowd(4, 30, dim=400))
        change = {
            "radius": "UPDATE memory_promises SET radius = 9 WHERE sequence = 3",
            "lost": "DELETE FROM memory_promises WHERE sequence = 3",
            "newer": "UPDATE memory_facts SET value = '99' WHERE name = 'format'",
        }
        if kind == "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(change[kind])


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("text", "not a database"),
        ("empty", "empty"),
        ("directory", "directory"),
        ("foreign", "holds the tables"),
        ("cut", "malformed|damaged"),
        ("radius", "promise 3 does not match"),
        ("lost", "lacks promise 3"),
        ("newer", "format 99"),
    ],
)
def test_a_damaged_file_is_refused_and_untouched(tmp_path: Path, kind: str, word: str) -> None:
    path = tmp_path / "m.sqlite"
    damaged(kind, path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=word):
        Memory.open(path)
    assert not path.is_file() or path.read_bytes() == before


def test_a_failed_settling_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        settle(memory, crowd(6, 3))
        monkeypatch.setattr(memory._file, "add", lambda promise: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            memory.settle(crowd(6, 4)[3], index=3)
        monkeypatch.undo()
        assert len(memory) == 3
        settle(memory, crowd(6, 4))
        assert len(memory) == 4
    with pytest.raises(StoreError, match="closed"):
        memory.answer([0.0, 0.0])


def test_an_unwritable_place_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot use"):
        Memory.open(tmp_path / "file" / "m.sqlite")
