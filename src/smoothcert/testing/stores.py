"""What every store of results must pass: durable, idempotent, one claim, exact; and a run in it is a run anywhere."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from smoothcert.certificates import Certificate, Soundness
from smoothcert.errors import StoreError
from smoothcert.estimators.bounds import Bound
from smoothcert.maths import FloatArray
from smoothcert.memory.memory import Memory
from smoothcert.records.record import Record
from smoothcert.regions import Region
from smoothcert.store import REGISTRY, InMemoryStore
from smoothcert.store.pictures import Picture
from smoothcert.testing.store_acts import (
    ATTEMPT,
    PICTURE,
    Factory,
    address_at,
    certify_into,
    finding_at,
    places,
    record_at,
    started,
    status,
    texts,
)
from smoothcert.testing.suite import Suite, reads_back

ARRAYS: dict[str, FloatArray] = {
    "flat": np.array([1.0, 2.0, 3.0, 4.0]),
    "square": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "across": np.array([[1.0, 3.0], [2.0, 4.0]]).T,
    "edges": np.array([-0.0, 0.0, np.inf, -np.inf, 5e-324, 0.1]),
    "number": np.array(0.1),
    "nothing": np.empty((0, 3)),
}


class StoreSuite(Suite):
    """For stores that end with the program; LastingStoreSuite is for all others.

    A member opens a store: it is given a path where nothing is yet, and given the same path twice it opens the same place
    twice. A class that takes a path is one: ``class TestMine(LastingStoreSuite): members = [MyStore]``.
    """

    lasting: ClassVar[bool] = False

    def test_it_says_whether_it_lasts(self, member: Factory) -> None:
        """A store that lasts must pass LastingStoreSuite."""
        with places(member) as (_, store, _):
            assert store.lasting is self.lasting, f"{store} says lasting = {store.lasting}; run the other suite"

    def test_it_begins_with_the_first_write(self, member: Factory) -> None:
        """Making the object leaves nothing behind."""
        with places(member) as (place, store, again):
            assert store.begun is again.begun is False
            assert not list(place.parent.iterdir()), f"{store} leaves something behind before anything is written"
            store.claim("configuration", {})
            assert (store.begun, again.begun) == (True, True)
            empty = (
                list(again.records()),
                again.indices(),
                again.seconds(),
                again.pictured(),
                list(again.findings("")),
            )
            assert empty == ([], set(), {}, [], [])

    def test_records_come_back_by_index(self, member: Factory) -> None:
        """To the last bit, in the order of the indices, with their seconds; for whoever opens the place."""
        with places(member) as (_, store, again):
            for index in (7, 0, 3):
                store.append(record_at(index), index / 10)
                assert index in again.indices(), f"{store} forgot input {index}, or keeps it for later"
            for each in (store, again):
                assert texts(each) == [record_at(index).to_json() for index in (0, 3, 7)]
                assert list(each.seconds().items()) == [(0, 0.0), (3, 0.3), (7, 0.7)]
                assert each.indices() == {0, 3, 7}

    def test_an_index_is_recorded_once(self, member: Factory) -> None:
        """Appending it again, alone or among others, changes nothing of it."""
        with places(member) as (_, store, again):
            store.append(record_at(1), 1.0)
            other = replace(record_at(1), label=0, radius=9.0)
            again.append(other, 9.0, PICTURE)
            again.append_all([(other, 9.0, PICTURE), (record_at(2), 2.0, None), (replace(other, index=2), 9.0, None)])
            assert texts(store) == [record_at(1).to_json(), record_at(2).to_json()]
            assert store.seconds() == {1: 1.0, 2: 2.0}
            assert store.pictured() == []

    def test_append_all_keeps_all_or_none(self, member: Factory) -> None:
        """An error among the rows leaves the store as it was."""

        def rows() -> Iterator[tuple[Record, float, Picture | None]]:
            yield record_at(4), 1.0, PICTURE
            yield record_at(5), 1.0, None
            raise KeyboardInterrupt

        with places(member) as (_, store, again):
            store.append(record_at(0), 1.0)
            with suppress(KeyboardInterrupt):
                store.append_all(rows())
            assert (store.indices(), again.indices(), again.pictured()) == ({0}, {0}, []), f"{store} keeps a part"
            store.append_all([(record_at(4), 1.0, PICTURE), (record_at(5), 1.0, None)])
            assert again.indices() == {0, 4, 5}

    def test_the_first_claim_stands(self, member: Factory) -> None:
        """Whoever comes later is told what was claimed."""
        with places(member) as (_, store, again):
            assert store.claim("configuration", {"alpha": 0.1, "radii": (1, 2)}) == {"alpha": 0.1, "radii": [1, 2]}
            assert again.claim("configuration", {"alpha": 0.2}) == {"alpha": 0.1, "radii": [1, 2]}
            assert (
                store.claim("configuration", None) == again.facts()["configuration"] == {"alpha": 0.1, "radii": [1, 2]}
            )

    def test_facts_are_replaced_by_name(self, member: Factory) -> None:
        """Others stay; a value of another name is another fact."""
        with places(member) as (_, store, again):
            store.describe({"notes": {"a": 1}, "shape": [1, 2]})
            again.describe({"notes": {"b": 0.1}, "classes": None})
            assert store.facts() == {"notes": {"b": 0.1}, "shape": [1, 2], "classes": None}

    def test_a_list_grows(self, member: Factory) -> None:
        """What two callers add is there from both, once and in order; other facts stay."""
        with places(member) as (_, store, again):
            store.describe({"shape": [1, 2]})
            store.enlarge("subset", [5, 3])
            again.enlarge("subset", range(3, 5))
            assert store.facts() == {"shape": [1, 2], "subset": [3, 4, 5]}

    def test_what_was_handed_over_may_change(self, member: Factory) -> None:
        """What is kept is a copy, and so is what is given out."""
        with places(member) as (_, store, _):
            given, array = {"a": [1]}, np.ones(3)
            store.claim("configuration", given)
            address = store.put(array)
            given["a"].append(2)
            array[0] = 7.0
            store.facts()["configuration"]["a"].append(3)
            store.get(address)[1] = 7.0
            assert store.facts()["configuration"] == {"a": [1]}
            assert store.get(address).tolist() == [1.0, 1.0, 1.0]

    def test_arrays_are_known_by_their_content(self, member: Factory) -> None:
        """The address is the SHA-256 of shape and numbers, and the numbers come back exactly."""
        with places(member) as (_, store, again):
            addresses = {name: store.put(array) for name, array in ARRAYS.items()}
            for name, array in ARRAYS.items():
                plain = np.array(array, dtype="<f8", order="C")
                expected = hashlib.sha256(json.dumps(plain.shape).encode() + plain.tobytes()).hexdigest()
                assert addresses[name] == expected, f"{store} keeps {name} under another address than its hash"
                found = again.get(addresses[name])
                assert (found.shape, str(found.dtype), found.tobytes()) == (array.shape, "float64", plain.tobytes()), (
                    name
                )
            assert addresses["across"] == addresses["square"]
            assert again.put(ARRAYS["flat"].astype(np.float32)) == addresses["flat"]

    def test_what_is_missing_is_refused(self, member: Factory) -> None:
        """With a StoreError, not with something else's."""
        with places(member) as (_, store, _):
            store.append(record_at(0), 1.0)
            for ask in (lambda: store.get("0" * 64), lambda: store.picture(0)):
                try:
                    found = ask()
                except StoreError:
                    continue
                raise AssertionError(f"{store} gives {found} for what it does not hold")

    def test_pictures_come_back(self, member: Factory) -> None:
        """Exactly, for the inputs that have one."""
        colours = Picture(np.arange(24, dtype=np.uint8).reshape(2, 4, 3), 0.0, 1.0)
        with places(member) as (_, store, again):
            store.append_all([(record_at(5), 1.0, colours), (record_at(2), 1.0, PICTURE), (record_at(3), 1.0, None)])
            assert again.pictured() == [2, 5]
            for index, picture in ((2, PICTURE), (5, colours)):
                found = again.picture(index)
                assert np.array_equal(found.pixels, picture.pixels)
                assert (str(found.pixels.dtype), found.low, found.high) == ("uint8", picture.low, picture.high)

    def test_findings_come_back(self, member: Factory) -> None:
        """By multiple and index, each effort apart; a later one takes the place of an earlier one."""
        with places(member) as (_, store, again):
            for times, index in ((2.0, 0), (1.0, 3), (1.0, 1)):
                store.keep("hard", finding_at(index, times))
            store.keep("harder", finding_at(8, 1.0))
            store.keep("hard", replace(finding_at(3, 1.0), alpha=0.5))
            found = list(again.findings("hard"))
            assert [(one.times, one.index, one.alpha) for one in found] == [(1, 1, 0.001), (1, 3, 0.5), (2, 0, 0.001)]
            assert [one.index for one in again.findings("harder")] == [8]
            assert [one.index for one in again.findings()] == [1, 3, 0, 8]
            assert found[0].attempts == (ATTEMPT,)
            assert found[0].offset.tolist() == [1.0, 0.1]

    def test_it_is_used_again_after_close(self, member: Factory) -> None:
        """Closing lets go and loses nothing."""
        with places(member) as (_, store, again):
            store.append(record_at(1), 1.0)
            store.close()
            store.append(record_at(2), 1.0)
            store.close()
            again.close()
            assert again.indices() == store.indices() == {1, 2}

    def test_of_many_claims_at_once_one_stands(self, member: Factory) -> None:
        """Threads, each with a store of its own at one place; ten times."""
        for _ in range(10):
            with places(member) as (place, store, _):
                gate, kept = threading.Barrier(4), dict[int, int]()

                def claim(number: int, place: Path = place, gate: Any = gate, kept: dict[int, int] = kept) -> None:
                    with member(place) as own:
                        gate.wait()
                        kept[number] = own.claim("number", number)
                        own.enlarge("subset", [number])

                threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len(kept) == 4, f"{len(kept)} of 4 claims came back"
                assert len(set(kept.values())) == 1, f"several claims were told that they stand: {kept}"
                assert store.facts()["subset"] == [0, 1, 2, 3], f"{store} lost what one of several added"

    def test_a_memory_is_kept_if_it_says_so(self, member: Factory) -> None:
        """Promises inside the run outlive the object that made them, and as long as the run."""
        region = Region(np.zeros(2), np.array(1.0), 1.0, 2.0)
        with places(member) as (_, store, again):
            store.claim("configuration", {})
            assert store.keeper() is None
            keeper = store.keeper(create=True)
            assert (keeper is not None) is store.keeps_memory
            if keeper is None:
                return
            assert keeper.lasting == store.lasting
            with Memory(keeper) as memory:
                memory.settle(Certificate(1, Bound(0.9, 0.001, 100), region, Soundness.FROZEN), index=3, run="r")
            kept = again.keeper()
            assert kept is not None
            with Memory(kept) as memory:
                assert (memory.answer([0.5, 0.5]), memory.indices("r")) == (1, {3})

    def test_a_run_is_the_same_in_it(self, member: Factory) -> None:
        """Certified in two goes, judged again and read for a report: byte for byte what another store holds."""
        from smoothcert.recertify import recertify
        from smoothcert.report.runs import read_runs

        with places(member) as (_, store, again), places(member) as (_, other, _):
            plain, judged = InMemoryStore(), InMemoryStore()
            certify_into(plain)
            certify_into(store, indices=[2])
            certify_into(again)
            assert texts(store) == texts(plain)
            for name in ("configuration", "subset", "shape", "classes"):
                assert store.facts()[name] == plain.facts()[name]
            assert recertify(again, other, {"alpha": 0.01}) == recertify(plain, judged, {"alpha": 0.01}) == 3
            assert texts(other) == texts(judged)
            for run, expected in zip(read_runs([store, other]), read_runs([plain, judged]), strict=True):
                assert [line.records for line in run.lines] == [line.records for line in expected.lines]


class LastingStoreSuite(StoreSuite):
    """For stores whose content outlives the program. Their text must make them again, in any process."""

    lasting: ClassVar[bool] = True

    def test_its_text_reads_back(self, member: Factory) -> None:
        """The store that it makes is at the same place."""
        with places(member) as (_, store, _):
            reads_back(store, REGISTRY)
            store.append(record_at(6), 1.0)
            with REGISTRY.make(str(store)) as made:
                assert made.indices() == {6}, f"{store} reads back as a store of another place"

    def test_what_was_written_survives_a_kill(self, member: Factory) -> None:
        """SIGKILL right after the writes have returned, without a close; then once more, over what is there."""
        with places(member) as (_, store, _):
            for first in (0, 10):
                assert status(store, f"write_and_die(store, {first})") == -signal.SIGKILL
                assert store.indices() >= {first, first + 1, first + 2}, f"{store} lost records in a kill"
                assert store.facts()["configuration"] == {"first": 0}, f"{store} lost a claim in a kill"
                assert store.facts()["notes"] == {"first": first}, f"{store} lost facts in a kill"
                assert [one.index for one in store.findings("hard")][-1] == first, f"{store} lost a finding in a kill"
                assert store.get(address_at(first)).tolist() == [float(first)], f"{store} lost an array in a kill"
                assert first in store.pictured(), f"{store} lost a picture in a kill"

    def test_a_kill_amid_append_all_leaves_none(self, member: Factory) -> None:
        """SIGKILL between two rows of one call; the store is good for the next writer."""
        with places(member) as (_, store, again):
            store.append(record_at(50), 1.0)
            store.close()
            assert status(store, "die_amid(store)") == -signal.SIGKILL
            assert again.indices() == {50}, f"{store} keeps a part of what was cut off"
            again.append(record_at(60), 1.0)
            assert store.indices() == {50, 60}

    def test_of_processes_that_claim_at_once_one_stands(self, member: Factory) -> None:
        """Three processes on one place that is not there yet; each also appends its own and a common input."""
        with places(member) as (_, store, _), ExitStack() as stack:
            acts = [started(store, f"claim_and_append(store, {number})") for number in range(3)]
            running = [stack.enter_context(act) for act in acts]
            for one in running:
                assert one.stdout is not None
                assert one.stdout.readline() == "ready\n"
            for one in running:
                assert one.stdin is not None
                one.stdin.write("go\n")
                one.stdin.flush()
            told = [one.communicate(timeout=120)[0].strip() for one in running]
            assert [one.returncode for one in running] == [0, 0, 0]
            assert set(told) == {str(store.facts()["number"])}, f"several claims were told that they stand: {told}"
            assert store.indices() == {0, 1, 2, 9}, f"{store} lost what one of several writers appended"
