"""Runs and memories on a real Postgres: the suite, settlers at once, crashes of both sides, and what is refused."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import smoothcert as sc
from helpers.servers import PASSWORD, URL_PASSWORD, PostgresServer
from helpers.settlers import certificate_at, contradictions, settlers
from smoothcert.data import ArrayDataset
from smoothcert.errors import RunError, SettingError, StoreError, without_passwords
from smoothcert.memory.memory import Memory
from smoothcert.records.promise import Promise
from smoothcert.store import PostgresStore, SqliteStore, directory_of, open_run, store_of
from smoothcert.store import server as server_module
from smoothcert.store.keeper import checksum, packed
from smoothcert.store.server import lock_key, named, parted
from smoothcert.store.server_keeper import ServerKeeper
from smoothcert.testing.leaks import LocLeak
from smoothcert.testing.problems import HalfSpace
from smoothcert.testing.store_acts import record_at, texts
from smoothcert.testing.stores import LastingStoreSuite

URL = ""
DIM = 2


@pytest.fixture(autouse=True)
def _server(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server for all; who makes a store again from its text has the password from the environment."""
    global URL
    URL = postgres.url
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


class TestPostgres(LastingStoreSuite):
    members = (lambda path: PostgresStore(URL, str(path)),)


# A memory on a server


def promises(place: str) -> list[Promise]:
    with Memory.open(place, create=False) as memory:
        return list(memory.promises())


def settle_in_threads(memories: list[Memory], count: int) -> None:
    """Each memory in a thread of its own settles its share of a crowd."""

    def settle(number: int) -> None:
        for index in range(number, count, len(memories)):
            memories[number].settle(certificate_at(index, DIM), index=index)

    threads = [threading.Thread(target=settle, args=(number,)) for number in range(len(memories))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Unlocked(ServerKeeper):
    """Takes no lock that anybody else takes, and the next number that is free: as a serial column would."""

    def transaction(self) -> Any:
        return self._server.transaction(lock_key(str(time.monotonic_ns())))

    def add(self, promise: Promise) -> None:
        for sequence in range(promise.sequence, promise.sequence + 1000):
            row = packed(replace(promise, sequence=sequence))
            query = (
                f"INSERT INTO smoothcert.memory_promises VALUES (%s{', %s' * 12}) ON CONFLICT DO NOTHING RETURNING 1"
            )
            if self._server.rows(query, self._memory, *row, checksum(row)):
                return


class Careless(ServerKeeper):
    """Takes no lock, but numbers its promises as it should."""

    transaction = Unlocked.transaction


def test_settlers_at_once_contradict_each_other_without_the_lock_alone() -> None:
    """Four threads settle 120 regions of the plane that meet: with the lock never, without it many times."""

    def found(kind: type[ServerKeeper], name: str) -> int:
        memories = [Memory(kind(URL, name)) for _ in range(4)]
        settle_in_threads(memories, 120)
        for memory in memories:
            memory.close()
        made = promises(f"{URL}#{name}")
        assert [promise.sequence for promise in made] == list(range(1, 121))
        return contradictions(made)

    assert found(ServerKeeper, "locked") == 0
    # On a busy machine the threads may happen to take turns, though hardly five times.
    assert any(found(Unlocked, f"unlocked {time}") for time in range(5)), (
        "the control cannot fail, so the test says nothing"
    )


def test_a_number_given_twice_is_refused() -> None:
    """Who settles without the lock meets the primary key: an error, and no contradiction."""
    one, other = (Memory(Careless(URL, "careless")) for _ in range(2))
    with one, other:
        one.settle(certificate_at(0, DIM))
        first = one._file.add

        def late(promise: Promise) -> None:  # another settles between the refresh and the insertion
            other.settle(certificate_at(1, DIM))
            first(promise)

        one._file.add = late  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="refused .*duplicate key.*; nothing of this step was kept"):
            one.settle(certificate_at(2, DIM))
    assert len(promises(f"{URL}#careless")) == 2


def test_it_settles_as_a_file_does(tmp_path: Path) -> None:
    """The same promises, to the last bit; a reader sees what a writer adds; a second asking gets the first answer."""
    with (
        Memory.open(tmp_path / "m.sqlite", dim=DIM, owner={"a": 1}) as file,
        Memory.open(f"{URL}#same", dim=DIM, owner={"a": 1}) as there,
    ):
        for index in range(40):
            given = [memory.settle(certificate_at(index, DIM), index=index) for memory in (file, there)]
            assert packed_certificate(given[0]) == packed_certificate(given[1])
        assert [packed(p) for p in file.promises()] == [packed(p) for p in there.promises()]
        with Memory.open(f"{URL}#same", create=False) as reader:
            for index in range(60):
                x = np.asarray(certificate_at(index, DIM).region.center)  # type: ignore[union-attr]
                assert reader.answer(x) == file.answer(x)
            new = there.settle(certificate_at(77, DIM))
            assert reader.answer(new.region.center) == new.label  # type: ignore[union-attr]
            again = reader.settle(certificate_at(5, DIM), index=5)
            assert packed_certificate(again) == packed_certificate(file.settle(certificate_at(5, DIM), index=5))
        assert there.indices() == set(range(40))
    for settings, word in (({"owner": {"a": 2}}, "another owner"), ({"dim": 3}, "another dim: 2 there, 3 here")):
        with pytest.raises(RunError, match=word):
            Memory.open(f"{URL}#same", **settings)  # type: ignore[arg-type]


def packed_certificate(certificate: sc.Certificate) -> tuple[Any, ...]:
    region = certificate.region
    assert region is not None
    return certificate.label, certificate.rule, certificate.soundness, region.radius, region.center.tolist()


def test_snapshots_are_taken_after_the_lock_whatever_the_database_prefers() -> None:
    """Under REPEATABLE READ a waiting settler would see the memory as it was before it waited."""
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("CREATE DATABASE prefers")
        db.execute("ALTER DATABASE prefers SET default_transaction_isolation = 'repeatable read'")
        db.execute("ALTER DATABASE prefers SET synchronous_commit = off")
    url = URL.replace("/postgres", "/prefers")
    memories = [Memory.open(f"{url}#m") for _ in range(4)]
    settle_in_threads(memories, 80)
    for memory in memories:
        memory.close()
    made = promises(f"{url}#m")
    assert (len(made), contradictions(made)) == (80, 0)


def test_of_many_that_make_the_tables_at_once_one_does() -> None:
    """Threads that begin a memory at the same moment in a database without tables; five times."""
    for number in range(5):
        with psycopg.connect(URL, autocommit=True) as db:
            db.execute(f"CREATE DATABASE fresh{number}")
        place, gate = f"{URL.replace('/postgres', f'/fresh{number}')}#m", threading.Barrier(6)
        settled: list[int | None] = []

        def begin(number: int, place: str = place, gate: Any = gate, settled: list[int | None] = settled) -> None:
            gate.wait()
            with Memory.open(place, dim=DIM) as memory:
                settled.append(memory.settle(certificate_at(number, DIM)).label)

        threads = [threading.Thread(target=begin, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(settled) == len(promises(place)) == 6


# Crashes


def check_kept(place: str, told: list[list[Any]], killed: int = 0) -> None:
    """Every answer is a promise, none is there twice, and none contradicts another; a killed settler may have one untold."""
    made = promises(place)
    kept = {packed(promise)[3:] for promise in made}
    assert len(kept) == len(made), "a promise was doubled"
    by_center = {promise.region.center.tobytes(): promise for promise in made}
    for index, label, radius, _ in told:
        region = certificate_at(index, DIM).region
        assert region is not None
        promise = by_center[np.asarray(region.center).tobytes()]
        assert (promise.label, promise.region.radius) == (label, radius), f"the promise at {index} was not kept"
    assert len(told) <= len(made) <= len(told) + killed
    assert contradictions(made) == 0


@pytest.mark.slow
def test_every_acknowledged_promise_survives_crashes_of_the_server_and_of_settlers() -> None:
    """SIGKILL to all of the server, twice, and to two of four settlers, under load; a third of the promises has no index."""
    with PostgresServer() as server:
        place = f"{server.url}#load"
        with settlers(place, dim=DIM, count=800) as group:
            group.go()
            group.wait_for(100)
            server.crash()
            server.start()
            group.wait_for(200)
            for process in group.processes[:2]:
                process.kill()
            group.wait_for(250)
            server.crash()
            time.sleep(1)
            server.start()
            assert group.join() == [-signal.SIGKILL, -signal.SIGKILL, 0, 0]
            told = group.told()
        assert len(told) > 420
        check_kept(place, told, killed=2)


@contextmanager
def losing(memory: Memory, word: str, *, done: bool) -> Iterator[None]:
    """The next statement of this kind loses the connection: before it is done, or after it and before anybody is told."""
    server = memory._file._server  # type: ignore[attr-defined]
    connection = server._connected()
    plain = connection.execute

    def execute(query: Any, *values: Any, **how: Any) -> Any:
        if str(query) == word if word == "COMMIT" else word in str(query):
            connection.execute = plain
            if done:
                plain(query, *values, **how)
            connection.close()
        return plain(query, *values, **how)

    connection.execute = execute
    with pytest.warns(UserWarning, match="lost the connection to postgresql://smoothcert@127"):
        yield


@pytest.mark.parametrize("index", [None, 7])
@pytest.mark.parametrize(
    ("word", "done"), [("BEGIN", False), ("memory_facts", False), ("COMMIT", False), ("COMMIT", True)]
)
def test_a_lost_connection_neither_forgets_nor_doubles(word: str, done: bool, index: int | None) -> None:
    name = f"{URL}#lost-{word}-{done}-{index}"
    with Memory.open(name) as memory:
        memory.settle(certificate_at(0, DIM))
        with losing(memory, word, done=done):
            settled = memory.settle(certificate_at(1, DIM), index=index)
        made = promises(name)
        assert len(made) == 2
        assert settled.region is not None
        assert (made[1].label, made[1].region.radius) == (settled.label, settled.region.radius)


def test_a_store_goes_on_after_a_lost_connection() -> None:
    with PostgresStore(URL, "goes-on") as store:
        store.append(record_at(0), 1.0)
        store._server._connected().close()
        with pytest.warns(UserWarning, match="trying again"):
            store.append(record_at(1), 1.0)
        assert store.indices() == {0, 1}


def test_a_server_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PATIENCE", 0.2)
    with PostgresServer() as server, Memory.open(f"{server.url}#m") as memory:
        memory.settle(certificate_at(0, DIM))
        server.crash()
        warnings.simplefilter("ignore")
        with pytest.raises(StoreError, match="lost the connection .* all that was acknowledged is kept") as told:
            memory.settle(certificate_at(1, DIM))
        assert_secret(str(told.value))
        server.start()
        assert len(memory) == 1


@contextmanager
def gone_back(name: str, read: int, left: int) -> Iterator[Memory]:
    """A memory that has read so many promises, of which the server holds fewer now."""
    with Memory.open(f"{URL}#{name}") as memory, psycopg.connect(URL, autocommit=True) as db:
        for index in range(read):
            memory.settle(certificate_at(index, DIM))
        assert len(memory) == read
        db.execute("DELETE FROM smoothcert.memory_promises WHERE memory = %s AND sequence > %s", (name, left))
        yield memory


def test_a_server_that_went_back_is_refused() -> None:
    """A promise that was read here and is there no more, or another in its place: a standby that lagged, a backup."""
    with gone_back("back", read=3, left=2) as memory:
        with pytest.raises(StoreError, match="has lost promise 3"):
            memory.answer([0.0, 0.0])
        with Memory.open(f"{URL}#back") as other:
            other.settle(certificate_at(9, DIM))
        with pytest.raises(StoreError, match="has lost promise 3"):
            memory.settle(certificate_at(4, DIM))


def test_a_list_of_promises_makes_nothing_forgotten() -> None:
    """Who has read five promises, and lists them when the server holds three, must not go on as if it had read three."""
    with gone_back("listed", read=5, left=3) as memory:
        assert len(list(memory.promises())) == 3
        with Memory.open(f"{URL}#listed") as other:
            for index in (8, 9):
                other.settle(certificate_at(index, DIM))
        with pytest.raises(StoreError, match="has lost promise 5"):
            memory.settle(certificate_at(6, DIM))


def test_a_settler_that_stands_still_loses_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for the lock, not for ever; what it had not committed is no promise."""
    short = server_module.BEGIN.replace("60s", "300ms")
    with Memory.open(f"{URL}#still") as still, Memory.open(f"{URL}#still") as other:
        monkeypatch.setattr(server_module, "BEGIN", short)
        first = still._file.add

        def wait(promise: Promise) -> None:
            still._file.add = first  # type: ignore[method-assign]
            monkeypatch.setattr(server_module, "BEGIN", short.replace("lock_timeout = '300ms'", "lock_timeout = '5s'"))
            other.settle(certificate_at(1, DIM))  # has the lock once the server has ended the other's transaction
            first(promise)

        still._file.add = wait  # type: ignore[method-assign]
        with pytest.warns(UserWarning, match="lost the connection"):
            still.settle(certificate_at(0, DIM))
    made = promises(f"{URL}#still")
    assert [p.region.center.tolist() for p in made] == [certificate_at(i, DIM).region.center.tolist() for i in (1, 0)]  # type: ignore[union-attr]
    assert contradictions(made) == 0


def test_a_lock_that_is_never_free_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BEGIN", server_module.BEGIN.replace("60s", "200ms"))
    with Memory.open(f"{URL}#held") as memory, psycopg.connect(URL) as db:
        db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key("memory held"),))
        with pytest.raises(StoreError, match="has held a lock .* for more than 60 s"):
            memory.settle(certificate_at(0, DIM))
        db.rollback()
        memory.settle(certificate_at(0, DIM))


def test_a_fork_has_a_connection_of_its_own() -> None:
    with Memory.open(f"{URL}#fork") as memory:
        memory.settle(certificate_at(0, DIM))
        with warnings.catch_warnings(action="ignore"):
            child = os.fork()
        if not child:
            with memory:
                memory.settle(certificate_at(1, DIM))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        memory.settle(certificate_at(2, DIM))
        assert len(memory) == 3


# What is refused, and what is never told


def assert_secret(text: str) -> None:
    assert "secret" not in text
    assert URL_PASSWORD not in text


def test_bad_addresses_are_explained_and_leave_nothing(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = taken.getsockname()[1]
    wrong = postgres.place.replace("@", ":not%20my%20secret@")
    for url, word in (
        (f"postgresql://me:secret@127.0.0.1:{nobody}/db", "cannot reach postgresql://me@127.0.0.1:.*refused"),
        (wrong, "password authentication failed for user .*PGPASSWORD"),
        (postgres.place, "no password supplied"),
        (postgres.url.replace("/postgres", "/nowhere"), 'database "nowhere" does not exist'),
        ("postgresql://me:a%secret@host/db", "cannot reach|not postgresql"),
        ("postgresql://me:se/cret@host/db", "write / as %2F"),
        ("postgresql://me:se#cret@host/db", "# as %23"),
    ):
        for act in (lambda url=url: Memory.open(url), lambda url=url: certified(tmp_path / "run", url), lambda url=url: certified(f"{url}#run")):  # fmt: skip
            with pytest.raises((StoreError, SettingError), match=word) as told:
                act()
            assert_secret(str(told.value))
            assert "cret@" not in str(told.value)
    assert not list(tmp_path.iterdir())


def test_tables_of_another_version_are_refused_untouched() -> None:
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("CREATE DATABASE newer")
    url = URL.replace("/postgres", "/newer")
    with PostgresStore(url, "a") as store:
        store.append(record_at(0), 1.0)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("UPDATE smoothcert.format SET version = 99")
        for act in (
            lambda: Memory.open(url),
            lambda: PostgresStore(url, "b").describe({"a": 1}),
            lambda: PostgresStore(url, "a").indices(),
        ):
            with pytest.raises(StoreError, match=r"version 99; this smoothcert reads version 2 alone"):
                act()
        for table in ("facts", "memory_facts"):
            assert db.execute(f"SELECT count(*) FROM smoothcert.{table}").fetchall() == [(0,)]


def test_tables_that_changed_while_the_connection_was_lost_are_refused() -> None:
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("CREATE DATABASE changing")
    url = URL.replace("/postgres", "/changing")
    with PostgresStore(url, "a") as store, psycopg.connect(url, autocommit=True) as db:
        store.append(record_at(0), 1.0)
        db.execute("UPDATE smoothcert.format SET version = 99")
        store._server._connected().close()
        with pytest.warns(UserWarning, match="trying again"), pytest.raises(StoreError, match="have version 99"):
            store.append(record_at(1), 1.0)
        assert db.execute("SELECT count(*) FROM smoothcert.records").fetchall() == [(1,)]


def test_a_memory_of_another_format_is_refused() -> None:
    place = f"{URL}#format"
    with Memory.open(place) as memory, psycopg.connect(URL, autocommit=True) as db:
        memory.settle(certificate_at(0, DIM))
        db.execute("UPDATE smoothcert.memory_facts SET value = '2' WHERE memory = 'format' AND name = 'format'")
    for create in (True, False):
        with pytest.raises(StoreError, match="has format 2; this smoothcert reads format 1 alone"):
            Memory.open(place, create=create)


def test_how_a_database_tells_texts_and_numbers_changes_nothing() -> None:
    """Without an encoding texts would come as bytes, and a void run as one that is not; rounded floats as damage."""
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("CREATE DATABASE tells ENCODING 'SQL_ASCII' TEMPLATE template0")
        db.execute("ALTER DATABASE tells SET extra_float_digits = 0")
        db.execute("ALTER DATABASE tells SET bytea_output = escape")
    url = URL.replace("/postgres", "/tells")
    with PostgresStore(url, "rün") as store, Memory.open(f"{url}#rün", owner={"a": 1}) as memory:
        assert store.claim("configuration", {"a": "ü"}) == {"a": "ü"}
        store.append(record_at(0), 0.1 + 0.2)
        store.describe({"void": "for a reason"})
        assert store.facts() == {"configuration": {"a": "ü"}, "void": "for a reason"}
        assert (texts(store), store.seconds()) == ([record_at(0).to_json()], {0: 0.1 + 0.2})
        given = [packed_certificate(memory.settle(certificate_at(index, DIM), index=index)) for index in range(9)]
        assert [
            packed_certificate(memory.settle(certificate_at(index, DIM), index=index)) for index in range(9)
        ] == given


def test_a_server_that_forgets_and_one_that_only_reads_are_refused() -> None:
    with PostgresServer(fsync="off") as server, pytest.raises(StoreError, match="fsync = off"):
        Memory.open(server.url)
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("CREATE DATABASE readonly")
        db.execute("ALTER DATABASE readonly SET default_transaction_read_only = on")
    with pytest.raises(StoreError, match="session is read-only"):
        Memory.open(URL.replace("/postgres", "/readonly"))


def test_a_damaged_promise_is_refused() -> None:
    with Memory.open(f"{URL}#damaged") as memory:
        memory.settle(certificate_at(0, DIM))
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("UPDATE smoothcert.memory_promises SET radius = 99 WHERE memory = 'damaged'")
    with pytest.raises(StoreError, match="promise 1 does not match its checksum"):
        Memory.open(f"{URL}#damaged")
    with pytest.raises(StoreError, match="there is no memory at postgresql://smoothcert@127.*#missing"):
        Memory.open(f"{URL}#missing", create=False)


def test_places_on_a_server() -> None:
    store = store_of("postgresql://me:secret@host/db?sslmode=require#runs/a")
    assert str(store) == "postgres:url=postgresql://me@host/db?sslmode=require,run=runs/a"
    assert_secret(repr(store))
    assert directory_of(store) is None
    assert parted("postgresql:///db?host=/run/pg&password=secret") == ("postgresql:///db?host=/run/pg", "secret")
    assert named("postgresql://host/db", "memory") == ("postgresql://host/db", "memory")
    with pytest.raises(SettingError, match="followed by #name"):
        store_of("postgresql://me:secret@host/db")
    assert without_passwords("a postgresql://u:p@h/d b") == "a postgresql://u@h/d b"


# Runs

DATA = ArrayDataset("six", np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32), [0, 1, 0, 1, 0, 1])


def smoother(**settings: object) -> sc.Smoother:
    import torch

    votes = {"select": 20, "estimate": 400, "engine": sc.Engine(100, workers=1), "tuner": LocLeak()} | settings
    return sc.Smoother(HalfSpace(torch.eye(2)[0]), sc.Noise("gaussian", 0.5), **votes)  # type: ignore[arg-type]


def certified(place: Path | str, memory: Path | str | None = None, **settings: object) -> list[str]:
    with open_run(sc.certify_all(smoother(**settings), DATA, place, memory=memory)) as store:
        return texts(store)


def test_a_run_and_its_memory_are_the_same_on_a_server(tmp_path: Path) -> None:
    """Both there, one of them there, both in a directory: the same records and the same promises."""
    plain = certified(tmp_path / "plain", tmp_path / "plain")
    assert certified(f"{URL}#both", f"{URL}#both") == plain
    assert certified(f"{URL}#both", f"{URL}#both") == plain  # again: nothing is left to do
    assert certified(tmp_path / "half", f"{URL}#half-memory") == plain
    assert certified(f"{URL}#other-half", tmp_path / "m.sqlite") == plain
    with SqliteStore(tmp_path / "plain") as store:
        keeper = store.keeper()
        assert keeper is not None
        expected = [packed(promise) for promise in keeper.after(0)]
        keeper.close()
    assert len(expected) == 6
    for name in ("both", "half-memory"):
        assert [packed(promise) for promise in promises(f"{URL}#{name}")] == expected
    with pytest.raises(RunError, match="another configuration") as told:
        certified(f"{URL}#both", f"{URL}#both", select=30)
    assert_secret(str(told.value))
    with pytest.raises(RunError, match="another owner"):
        certified(tmp_path / "refused", f"{URL}#half-memory", seed=1)
    assert not (tmp_path / "refused").exists()


NETWORK = """
import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
"""


@pytest.mark.slow
def test_the_command_line_keeps_a_run_on_a_server_and_tells_nobody_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / "network.py").write_text(NETWORK, encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    def run(*words: str, status: int = 0) -> str:
        command = [sys.executable, "-m", "smoothcert", *words]
        environment = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert_secret(done.stdout + done.stderr)
        return done.stdout + done.stderr

    votes = [
        "--model",
        "network:build",
        "--sigma",
        "0.5",
        "--limit",
        "2",
        "-n",
        "200",
        "--block",
        "50",
        "--select",
        "20",
    ]
    run("certify", *votes, "--memory", f"{URL}#cli", "--out", "here")
    told = run("certify", *votes, "--memory", "--store", URL, "--out", "there")
    assert f"smoothcert report {without_passwords(URL)}#there" in told
    wrong = URL.replace(URL_PASSWORD, "another%20secret")
    assert "password authentication failed" in run("certify", *votes, "--store", wrong, "--out", "wrong", status=2)
    assert "no URL of Postgres" in run("certify", *votes, "--store", "mysql://x", "--out", "wrong", status=2)
    with open_run(tmp_path / "here") as here, open_run(f"{URL}#there") as there:
        assert texts(here) == texts(there)
        assert there.facts()["notes"]["settings"] == (tmp_path / "here" / "run.toml").read_text().replace(
            f'memory = "{without_passwords(URL)}#cli"', 'memory = "run"'
        )
        assert_secret(repr([here.facts(), there.facts()]))
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"secret" not in file.read_bytes()
