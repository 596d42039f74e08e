"""Step 7: the memory that makes per-input noise sound, by keeping every promise it has made."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.certificates import Certificate, Soundness
from smoothcert.errors import InputError, RunError, SettingError, StoreError
from smoothcert.estimators.bounds import Bound
from smoothcert.identity import differences
from smoothcert.maths import FloatArray
from smoothcert.maths.grid import certified_point
from smoothcert.maths.overlap import check_convex
from smoothcert.memory.index import MARGIN, Shelf
from smoothcert.records.promise import (
    Promise,
    center_of,
    check,
    check_center,
    given_before,
    promise_of,
    taken_over,
    worth_once_settled,
)
from smoothcert.regions import Region
from smoothcert.store.base import Keeper
from smoothcert.store.keeper import MemoryFile, packed
from smoothcert.store.server import is_server, named
from smoothcert.store.server_keeper import ServerKeeper

MEMORY = "memory"  # what a memory on a server is called, if it is not said


class Memory:
    """What was promised where: regions of different labels never meet (Alfarra et al. 2022, Algorithm 3, any shape).

    ``settle`` turns a certificate into a promise: every *later* query in its region, answered through *this* memory,
    gets its label. ``answer`` keeps the promises without asking the model. ``Memory()`` lives as long as the object,
    ``Memory.open(path)`` on disk; processes may share the file, and machines a server.

    >>> def certificate(label, center, radius):
    ...     region = Region(np.array([center]), np.array(1.0), radius, norm=2)
    ...     return Certificate(label, Bound(0.9, 0.001, 100), region, Soundness.FROZEN)
    >>> memory = Memory()
    >>> first = memory.settle(certificate(0, 0.0, 1.0))
    >>> near = memory.settle(certificate(1, 3.0, 2.5))       # would meet the first
    >>> within = memory.settle(certificate(1, 0.5, 2.5))     # the first has already promised its label there
    >>> [(c.label, round(c.radius, 6), c.soundness.value) for c in (first, near, within)]
    [(0, 1.0, 'memory'), (1, 2.0, 'memory'), (0, 0.5, 'memory')]
    >>> memory.answer([0.9]), memory.answer([1.1]), memory.answer([-9.0])
    (0, 1, None)
    """

    def __init__(self, place: Path | str | Keeper | None = None, *, create: bool = True) -> None:
        self._lock = threading.RLock()
        self._facts: dict[str, Any] = {}  # as of the last refresh
        self._spent = 0.0
        self._tried: Promise | None = None
        self._file = _keeper(place, create)
        self._shelf = Shelf(lambda position: self._file.at(position + 1).region)
        try:
            self._refresh()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        place: Path | str | Keeper,
        *,
        dim: int | None = None,
        norm: float | None = None,
        owner: Mapping[str, Any] | None = None,
        create: bool = True,
    ) -> Memory:
        """The memory in this file, or at this URL#name of a server, made if it is missing and ``create``; or a run's own.

        dim, norm and owner are those of ``bind``.
        """
        if norm is not None:
            check_convex(norm)
        memory = cls(place, create=create)
        try:
            memory.bind(dim=dim, norm=norm, owner=owner)
        except BaseException:
            memory.close()
            raise
        return memory

    @property
    def name(self) -> str:
        """Where it is kept, in words."""
        return self._file.name

    @property
    def lasting(self) -> bool:
        """Do its promises outlive the program?"""
        return self._file.lasting

    def void(self, reason: str) -> None:
        """Never answer from this memory again: the classifier that it belongs to is not one fixed function."""
        with self._lock:
            self._file.insist(lambda: self._describe({"void": reason}))

    def _describe(self, facts: dict[str, Any]) -> None:
        with self._file.transaction():
            self._file.describe(facts)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            self._refresh()
            return len(self._shelf)

    @property
    def tally(self) -> tuple[int, float]:
        """How many promises have been heard of, and their alphas together: of all that was tried no more are wrong, on average."""
        return len(self._shelf), self._spent

    def promises(self) -> Iterator[Promise]:
        """Every promise, in the order in which they were made."""
        return self._file.after(0)

    def indices(self, run: str = "") -> set[int]:
        """The inputs of a run for which a promise was made."""
        return set(self.settled(run))

    def settled(self, run: str = "") -> dict[int, tuple[int, float]]:
        """Label and radius of the promise for each input of a run that has one, by index."""
        return self._file.settled(run)

    def answer(self, x: ArrayLike) -> int | None:
        """The label promised at this input, without asking the model; None where nothing was promised.

        The input is taken as the bound classifier is certified at it: on its pixel grid, or in float32.
        """
        with self._lock:
            self._refresh()
            inside = self._shelf.containing(self._point(x))
            return self._shelf.label(inside[0]) if inside else None

    def hit(self, x: ArrayLike) -> tuple[Certificate, Promise] | None:
        """The certificate that an earlier promise gives this input, and that promise; None where nothing was promised.

        Its region is the largest copy around the input, of radius R - gauge, inside a region that was promised: it says
        nothing new, so nothing is stored. Votes and bound are those of the promise.
        """
        with self._lock:
            self._refresh()
            point = self._point(x)
            inside = self._shelf.containing(point)
            if not inside:
                return None
            region, where = self._shelf.largest_around(point, inside)
            promise = self._file.at(where + 1)
            return replace(given_before(promise), region=region), promise

    def promise(self, sequence: int) -> Promise | None:
        """The promise with this number."""
        with self._lock:
            self._refresh()
            return self._file.at(sequence) if 1 <= sequence <= len(self._shelf) else None

    def made(self, run: str, index: int) -> Promise | None:
        """The promise that was made for an input of a run."""
        with self._lock:
            self._refresh()
            return self._file.of(run, index)

    def settle(
        self, certificate: Certificate, *, index: int | None = None, center: ArrayLike | None = None, run: str = ""
    ) -> Certificate:
        """The certificate that may be given out, after it has been made a promise that contradicts no earlier one.

        In order: 0. a stored region that contains the center gives the label, whatever the model says; 1. if the model
        said otherwise, the region becomes its largest copy inside the one with most room; 2. else it shrinks until it
        touches no region of another label; 3. it is stored, even as a point. An abstention carries no region, so give
        its ``center``: inside a stored region it gets that label, for the point alone (the model vouches for no
        more); outside, it stays an abstention, and nothing is stored. An ``index`` that ``run`` settled before gets
        its first result again.

        Soundness: ``frozen`` becomes ``memory``. ``global`` stays while the label is the model's own (part of a
        region on which the fixed classifier is constant); an answer taken over from a stored region is ``memory``, has
        rule 'memory', and is no better than what it was taken from: its bound still speaks of the model's own label.
        Weaker labels stay.
        """
        region = check(certificate)
        with self._lock:
            self._tried = None
            return self._file.insist(lambda: self._settle(certificate, region, index, center, run))

    def _settle(
        self, certificate: Certificate, region: Region | None, index: int | None, center: ArrayLike | None, run: str
    ) -> Certificate:
        """One try, which finds out whether an earlier one was kept although the connection broke."""
        with self._file.transaction():
            self._refresh()
            point = self._point(center_of(certificate, None if center is None else self._point(center)))
            self._check_norm(region)
            done = self._made(run, index)
            if done is not None:
                check_center(done, point)
                return given_before(done)
            inside = self._shelf.containing(point)
            label = self._shelf.label(inside[0]) if inside else certificate.label
            if label is None:
                return replace(certificate, soundness=worth_once_settled(certificate.soundness))
            if region is None:
                source = self._file.at(inside[0] + 1)
                return taken_over(certificate, source, Region(point, np.array(1.0), 0.0, source.region.norm))
            settled = self._conclude(certificate, region, label, inside)
            self._store(settled, run, index)
            return settled

    def _made(self, run: str, index: int | None) -> Promise | None:
        """The promise that was made for this input already: in an earlier call, or in a try whose end is not known."""
        tried = self._tried
        if tried is not None and tried.sequence <= len(self._shelf):
            there = self._file.at(tried.sequence)
            if packed(there) == packed(tried):
                return there
        return None if index is None else self._file.of(run, index)

    def settle_answer(self, x: ArrayLike, label: int, soundness: Soundness = Soundness.FROZEN) -> int:
        """The label to give out for a query that was answered without a certificate: it is kept as a point.

        soundness: what a certificate of the classifier would be worth before it is settled.

        >>> memory = Memory()
        >>> memory.settle_answer([0.0], 3), memory.settle_answer([0.0], 4), len(memory)
        (3, 3, 1)
        """
        promised = self.answer(x)
        if promised is not None:
            return promised
        point = Region(self._point(x), np.array(1.0), 0.0, float(self._facts.get("norm", 2.0)))
        settled = self.settle(Certificate(label, Bound(0.0, 1.0, 0), point, soundness, "prediction"))
        assert settled.label is not None
        return settled.label

    def _conclude(self, certificate: Certificate, region: Region, label: int, inside: list[int]) -> Certificate:
        """Steps 1 and 2: the label answered and the region kept."""
        if label == certificate.label:
            clear = self._shelf.clear_radius(region, label)
            kept = region.resized(min(region.radius, clear * (1 - MARGIN)))
            return replace(certificate, region=kept, soundness=worth_once_settled(certificate.soundness))
        room, where = self._shelf.most_room(region, inside)
        kept = region.resized(min(region.radius, room * (1 - MARGIN)))
        return taken_over(certificate, self._file.at(where + 1), kept)

    def _store(self, settled: Certificate, run: str, index: int | None) -> None:
        """Step 3."""
        promise = promise_of(settled, len(self._shelf) + 1, run, index)
        if promise.sequence == 1:
            self._file.describe({"dim": promise.region.dim})
        self._tried = promise
        self._file.add(promise)  # _refresh will find it there, once it is kept

    def _refresh(self) -> None:
        """Rebuild what is known from the file: at first all of it, later what others have added."""
        self._facts = self._file.facts()
        reason = self._facts.get("void")
        if reason is not None:
            raise RunError(f"the memory {self._file.name} is void ({reason}); begin a new one")
        for promise in self._file.after(len(self._shelf)):
            if promise.sequence != len(self._shelf) + 1:
                raise StoreError(
                    f"the memory {self._file.name} lacks promise {len(self._shelf) + 1}; restore it from a copy: "
                    "without it, earlier promises cannot be kept"
                )
            self._shelf.add(promise.label, promise.region)
            bound = promise.details["bound"]
            self._spent += bound["alpha"] if bound["trials"] else 0.0  # a label without votes claims nothing

    def bind(
        self, *, dim: int | None = None, norm: float | None = None, owner: Mapping[str, Any] | None = None
    ) -> None:
        """Agree on what all promises have in common, or refuse: a new memory takes it over, an old one must agree.

        owner is the deployed classifier, all that its identity says: promises are kept by answering in its place.
        """
        if norm is not None:
            check_convex(norm)
        asked = {"dim": dim, "norm": None if norm is None else str(float(norm)), "owner": owner}
        given = {name: value for name, value in asked.items() if value is not None}
        with self._lock:
            self._file.insist(lambda: self._bind(given))

    def _bind(self, given: dict[str, Any]) -> None:
        with self._file.transaction():
            self._refresh()
            found: dict[str, Any] = {"dim": None, "norm": None, "owner": None} | self._facts
            if found["norm"] is None and len(self._shelf):
                found["norm"] = " and ".join(str(norm) for norm in sorted(self._shelf.norms))
            if found["owner"] is None and len(self._shelf):
                found["owner"] = "nobody"
            for name, value in given.items():
                if found[name] not in (None, value):
                    raise RunError(
                        f"the memory {self._file.name} is of another {name}: {_changes(found[name], value)}; its "
                        "promises would be kept wrongly. Give another file, or the settings it was begun with"
                    )
            self._file.describe({name: value for name, value in given.items() if found[name] is None})

    def _check_norm(self, region: Region | None) -> None:
        """Refuse a region of another norm than the memory was opened for."""
        norm = self._facts.get("norm")
        if region is not None and norm is not None and float(norm) != region.norm:
            raise SettingError(f"the region is of norm {region.norm}, this memory of norm {norm}; use another memory")

    def _point(self, x: ArrayLike) -> FloatArray:
        """An input as a vector, of this memory's dimension, as the classifier that it is bound to is certified at it."""
        facts = {"dim": None, "owner": None} | self._facts
        point, dim = np.asarray(x, dtype=float).ravel(), facts["dim"]
        if dim not in (None, point.size):
            raise InputError(f"the input has {point.size} coordinates, this memory's have {dim}; use another memory")
        if not np.all(np.isfinite(point)):
            raise InputError("the input holds NaN or infinite values; every coordinate must be a finite number")
        owner = facts["owner"] if isinstance(facts["owner"], dict) else {}
        if "domain" not in owner or "front" in owner:  # behind a front numbers lie on its grid, not on that of inputs
            return point
        return certified_point(point, owner["domain"])


def _keeper(place: Path | str | Keeper | None, create: bool) -> Keeper:
    """Where a memory is kept: in this program, in a file, on a server, or wherever a keeper says."""
    if is_server(place):
        return ServerKeeper(*named(str(place), MEMORY), create=create)
    if place is None or isinstance(place, str | Path):
        return MemoryFile(None if place is None else Path(place), create=create)
    return place


def _changes(there: object, here: object) -> str:
    """What does not agree, in words."""
    if isinstance(there, dict) and isinstance(here, Mapping):
        return "; ".join(differences(there, here))
    return f"{there} there, {here} here"
