"""Parts of a run put together are the run: records, arrays, pictures and promises; and what does not fit is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import smoothcert as sc
from helpers.servers import PostgresServer
from smoothcert.cli import app
from smoothcert.data import ArrayDataset
from smoothcert.data.selection import shard_of
from smoothcert.errors import RunError, SettingError
from smoothcert.memory.memory import Memory
from smoothcert.merge import merge, owner_of
from smoothcert.run import describe
from smoothcert.store import InMemoryStore, Place, open_run
from smoothcert.store.keeper import packed
from smoothcert.testing.leaks import LocLeak
from smoothcert.testing.store_acts import texts

PIXELS = np.random.default_rng(0).integers(0, 256, size=(8, 1, 2, 3)).astype(np.uint8)
DATA = ArrayDataset("eight", PIXELS, [0, 1] * 4)
REAL = ArrayDataset("real", np.random.default_rng(1).normal(size=(8, 1, 2, 3)).astype(np.float32), [0, 1] * 4)
ASKED = [0, 1, 2, 3, 5, 6, 7]
METHODS = {
    "fixed": {"estimator": "fixed"},
    "sequential": {"estimator": "sequential", "radii": (0.1, 0.5)},
    "ancer": {"estimator": "fixed", "tuner": sc.Ancer(steps=2)},
    "leak": {"estimator": "fixed", "tuner": LocLeak()},
}


def smoother(method: str = "fixed", **more: object) -> sc.Smoother:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 2)).eval()
    votes = {"select": 20, "estimate": 400, "engine": sc.Engine(100, workers=1)} | METHODS[method] | more
    grid = None if method == "leak" else 1 / 255
    return sc.Smoother(model, sc.Noise.isotropic("gaussian", 0.5, grid), **votes)  # type: ignore[arg-type]


def data_of(method: str) -> ArrayDataset:
    return REAL if method == "leak" else DATA


def parts(folder: Path, method: str = "fixed", shards: int = 3, **more: object) -> list[Path]:
    """The inputs but one of a data set, certified in shards."""
    return [
        sc.certify_all(
            smoother(method, **more), data_of(method), folder / f"part-{i}", indices=shard_of(ASKED, f"{i}/{shards}")
        )
        for i in range(1, shards + 1)
    ]


def hashed(run: Place) -> str:
    """All records, their arrays and pictures, in one hash."""
    digest = hashlib.sha256()
    with open_run(run) as store:
        for record, text in zip(store.records(), texts(store), strict=True):
            digest.update(text.encode())
            for value in (record.scale, record.loc):
                digest.update(store.get(value).tobytes() if isinstance(value, str) else b"")
            digest.update(store.picture(record.index).pixels.tobytes())
        digest.update(repr([store.facts()[name] for name in ("configuration", "subset", "shape", "classes")]).encode())
    return digest.hexdigest()


def promises(run: Place) -> list[tuple[object, ...]]:
    with open_run(run) as store:
        keeper = store.keeper()
    assert keeper is not None
    with Memory.open(keeper) as memory:
        return [packed(promise) for promise in memory.promises()]


@pytest.mark.parametrize(
    "method", [pytest.param(method, marks=[pytest.mark.slow] if method == "ancer" else []) for method in METHODS]
)
def test_three_parts_are_one_run(method: str, tmp_path: Path) -> None:
    """With and without a memory, however the parts are ordered."""
    made, data = parts(tmp_path, method), data_of(method)
    sc.certify_all(smoother(method), data, tmp_path / "plain", indices=ASKED)
    sc.certify_all(smoother(method), data, tmp_path / "settled", indices=ASKED, memory=tmp_path / "settled")
    assert merge(made, tmp_path / "merged") == 7
    assert hashed(tmp_path / "merged") == hashed(tmp_path / "plain")
    later = tmp_path / "later"
    assert merge(made[::-1], later, dataset=data, memory=later) == 7
    assert hashed(later) == hashed(tmp_path / "settled")
    assert promises(later) == promises(tmp_path / "settled")
    for place in (later, tmp_path / "settled"):  # a merged run goes on as any other
        sc.certify_all(smoother(method), data, place, memory=place)
    assert hashed(later) == hashed(tmp_path / "settled")


def test_settling_afterwards_does_something(tmp_path: Path) -> None:
    """The leak's regions contradict each other, so settled records differ from those of the parts."""
    made = parts(tmp_path, "leak")
    merge(made, tmp_path / "plain")
    merge(made, tmp_path / "settled", dataset=REAL, memory=tmp_path / "m.sqlite")
    with open_run(tmp_path / "plain") as plain, open_run(tmp_path / "settled") as settled:
        assert {record.soundness for record in plain.records()} == {"frozen"}
        pairs = zip(settled.records(), plain.records(), strict=True)
        assert sum(kept.rule == "memory" or kept.radius < made.radius for kept, made in pairs) > 0


def test_parts_and_memory_on_a_server(tmp_path: Path, postgres: PostgresServer) -> None:
    made, whole = parts(tmp_path, "leak", shards=2), tmp_path / "whole"
    sc.certify_all(smoother("leak"), REAL, whole, indices=ASKED, memory=whole)
    place = f"{postgres.url}#merged"
    assert merge(made, place, dataset=REAL, memory=place) == 7
    assert hashed(place) == hashed(whole)
    assert promises(place) == promises(whole)


@pytest.mark.parametrize("method", METHODS)
def test_the_owner_of_a_memory_is_read_from_the_configuration(method: str) -> None:
    assert owner_of(describe(smoother(method), DATA)) == smoother(method).identity


def refused(runs: Sequence[Place], out: Path, word: str, **options: object) -> None:
    before = sorted(path.name for path in out.parent.iterdir())
    with pytest.raises((RunError, SettingError), match=word):
        merge(runs, out, **options)  # type: ignore[arg-type]
    assert sorted(path.name for path in out.parent.iterdir()) == before


def test_what_is_no_part_of_one_run_is_refused_and_nothing_written(tmp_path: Path) -> None:
    first, second, third = parts(tmp_path)
    out = tmp_path / "out"
    other = sc.certify_all(smoother(seed=1), DATA, tmp_path / "other", indices=[7])
    settled = sc.certify_all(smoother(), DATA, tmp_path / "settled", indices=[4], memory=tmp_path / "settled")
    refused([first, second, first], out, "overlap: both hold input 0 and 2 more")
    refused([first, other], out, r"other is of another configuration .*seed: 0 there, 1 here")
    refused([first, settled], out, "memory: None there, settled here")
    refused([settled], out, "certify the parts without --memory")
    refused([], out, "nothing to merge")
    refused([first, tmp_path / "nowhere"], out, "is not a run")
    refused([first, second], third, "exists and is not an empty directory")
    refused([first, second], out, "the inputs are needed", memory=out)
    shifted = ArrayDataset("eight", PIXELS[::-1].copy(), [0, 1] * 4)
    refused([first, second], out, "not that of the runs", memory=out, dataset=shifted)
    store = InMemoryStore()
    with pytest.raises(SettingError, match="can keep no memory"):
        merge([first, second], store, dataset=DATA, memory=store)
    assert not store.begun
    with open_run(third) as part:
        part.describe({"subset": [2, 6, 4]})
    refused([first, third], out, r"1 inputs were asked for .*index 4", memory=out, dataset=DATA)


@pytest.mark.parametrize("text", ["4/3", "0/3", "1/0", "1", "a/b", "-1/3", "1/2/3", ""])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="write I/N with I from 1 to N"):
        shard_of(range(10), text)


def test_the_shards_are_all_inputs_once() -> None:
    for shards in (1, 3, 7, 12):
        found = [index for i in range(1, shards + 1) for index in shard_of(range(10), f"{i}/{shards}")]
        assert sorted(found) == list(range(10))


NETWORK = """
import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
"""


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "merged_network.py").write_text(NETWORK, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> None:
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    votes = [
        "--model",
        "merged_network:build",
        "--sigma",
        "0.5",
        "--limit",
        "5",
        "-n",
        "200",
        "--block",
        "50",
        "--select",
        "20",
    ]
    votes += ["--method", "data_dependent:votes=50", "--set", "engine.workers=1"]
    for i in (1, 2):
        run("certify", *votes, "--shard", f"{i}/2", "--out", f"part-{i}")
    run("certify", *votes, "--memory", "--out", "whole")
    run("merge", "part-1", "part-2", "--memory", "--out", "merged")
    assert hashed("merged") == hashed("whole")
    assert promises("merged") == promises("whole")
    assert "shard" not in (tmp_path / "merged" / "run.toml").read_text()
    run("certify", *votes, "--memory", "--out", "merged")
    for words, word in (
        (("certify", *votes, "--shard", "4/3", "--out", "wrong"), "write I/N"),
        (("merge", "part-1", "part-1", "--out", "wrong"), "overlap"),
    ):
        with pytest.raises((SettingError, RunError), match=word):
            run(*words)
    assert not (tmp_path / "wrong").exists()
