"""The run directory: crash-safe by its settings, damage found, and nothing made by reading."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from smoothcert.errors import StoreError
from smoothcert.store import RESULTS, SqliteStore, open_run
from smoothcert.testing.store_acts import PICTURE, finding_at, record_at


def test_it_is_crash_safe_by_its_settings(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "run") as store:
        store.describe({})
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    with SqliteStore(tmp_path / "run") as store:  # also where it was not made by this program
        store.append(record_at(0), 1.0)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_reading_makes_nothing(tmp_path: Path) -> None:
    for ask in (SqliteStore.facts, lambda store: list(store.records()), SqliteStore.seconds, SqliteStore.pictured):
        with pytest.raises(StoreError, match="there is no file of results"):
            ask(SqliteStore(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_file_that_was_left_without_tables_is_begun_anew(tmp_path: Path) -> None:
    """Killed between making the file and its tables."""
    (tmp_path / "results.sqlite").touch()
    with SqliteStore(tmp_path) as store:
        assert not store.begun
        with pytest.raises(StoreError, match="nothing in it yet"):
            store.facts()
        store.append(record_at(0), 1.0)
        assert store.begun
        assert store.indices() == {0}


def test_whether_it_is_begun_is_asked_of_the_file_once(tmp_path: Path) -> None:
    """And again after it was closed, or where there was nothing yet: another process may have made it."""
    with SqliteStore(tmp_path / "run") as maker:
        maker.append(record_at(0), 1.0)
    store, asked = SqliteStore(tmp_path / "run"), []
    store._db.set_trace_callback(asked.append)
    assert (store.begun, store.begun, store.indices()) == (True, True, {0})
    assert len([words for words in asked if "sqlite_master" in words]) == 1
    store.close()
    for left in (tmp_path / "run").iterdir():
        left.unlink()
    assert not store.begun
    (tmp_path / "run" / RESULTS).touch()
    assert not store.begun
    store.close()


def test_an_array_of_many_records_is_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []
    plain = zlib.compress
    monkeypatch.setattr(
        "smoothcert.store.sql.zlib.compress", lambda data, *rest: packed.append(len(data)) or plain(data, *rest)
    )
    with SqliteStore(tmp_path) as store:
        addresses = {store.put(np.arange(9.0)) for _ in range(3)}
        assert store.get(addresses.pop()).tolist() == list(range(9))
    assert (packed, addresses) == ([72], set())


def test_a_reader_in_another_thread_or_process_is_not_in_the_way(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store, SqliteStore(tmp_path) as reader:
        store.append_all((record_at(index), 1.0, None) for index in range(3))
        rows = reader.records()
        assert next(rows).index == 0
        store.append(record_at(9), 1.0)
        assert [record.index for record in rows] in ([1, 2], [1, 2, 9])
        assert reader.indices() == {0, 1, 2, 9}


def other(array: np.ndarray) -> str:
    return zlib.compress(array.tobytes(), 1).hex()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            f"UPDATE arrays SET data = x'{other(np.array([7.0, 8.0]))}'",
            "array .* damaged: its content has another hash",
        ),
        ("UPDATE arrays SET data = x'00ff00'", "array .* damaged"),
        ("UPDATE arrays SET shape = '[3]'", "array .* damaged"),
        ("UPDATE arrays SET shape = '[2, 1]'", "array .* damaged: its content has another hash"),
        ("UPDATE records SET body = substr(body, 1, 40)", "the record of input 4 in .* is damaged"),
        ("UPDATE records SET body = json_remove(body, '$.radius')", "the record of input 4 in .* is damaged"),
        ("UPDATE records SET body = json_set(body, '$.index', 5)", "damaged .*it is that of input 5"),
        ("UPDATE records SET body = json_set(body, '$.soundness', 'proved')", "the record of input 4 in .* is damaged"),
        ("UPDATE pictures SET data = x'00'", "the picture of input 4 in .* is damaged"),
        ("UPDATE pictures SET shape = '[1, 1]'", "the picture of input 4 in .* is damaged"),
        ("UPDATE facts SET value = '{' WHERE name = 'notes'", "a fact in .* is damaged"),
        ("UPDATE findings SET body = '{}'", "a finding at input 4 in .* is damaged"),
        ("DELETE FROM arrays", "holds no array"),
    ],
)
def test_damage_is_found(change: str, words: str, tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        store.describe({"notes": {}})
        store.append(record_at(4), 1.0, PICTURE)
        address = store.put(np.array([1.0, 2.0]))
        store.keep("hard", finding_at(4, 1.0))
    with closing(sqlite3.connect(tmp_path / RESULTS)) as db, db:
        db.execute(change)
    with pytest.raises(StoreError, match=words), open_run(tmp_path) as store:
        list(store.records()), store.get(address), store.picture(4), store.facts(), list(store.findings("hard"))


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        store.append_all((record_at(index), 1.0, PICTURE) for index in range(60))
    file = tmp_path / RESULTS
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(StoreError, match="not a file of results"), SqliteStore(tmp_path) as store:
        list(store.records())
