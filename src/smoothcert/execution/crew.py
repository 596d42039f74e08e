"""The actors of one classifier on a Ray cluster: engaged once, proved, kept busy, replaced when they are lost."""

from __future__ import annotations

import threading
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from smoothcert.asks import Ask, Task
from smoothcert.errors import ClusterError
from smoothcert.execution.base import Caster
from smoothcert.execution.desk import Desk
from smoothcert.execution.worker import Worker, trial, unlike

LATE = 5.0  # times what a task should take: then another worker gets it as well
LARGEST = 10_000  # blocks of a task
START = 600.0  # seconds that a worker may take to load the model
DEATHS = 3  # of workers in a row, for each of them, before the fault is sought elsewhere


@dataclass(eq=False)
class Member:
    """One actor: what it is doing, and what it has done."""

    bundle: int
    actor: Any
    proof: Any  # where its proof will be
    node: str = ""
    proved: bool = False
    tasks: dict[Any, tuple[Task, Desk]] = field(default_factory=dict)  # by where the answer will be, in order
    since: float = 0.0  # when the first of them was begun
    late: bool = False
    answers: int = 0
    blocks: int = 0

    @property
    def free(self) -> bool:
        """May it be given tasks?"""
        return self.proved and not self.late


class Crew:
    """Gives tasks of about ``task`` seconds to its members, no more than ``ahead`` to each."""

    def __init__(
        self,
        ray: Any,
        caster: Caster,
        *,
        number: int,
        needs: dict[str, float],
        ahead: int,
        task: float,
        place: float,
        patience: float,
    ) -> None:
        self.ray, self.number, self.needs, self.ahead, self.task = ray, number, needs, ahead, task
        self.patience = patience
        self.usual: dict[type, float] = {}  # seconds of a block, or of a tuning
        self.deaths, self.refused, self.idle_since = 0, "", time.monotonic()
        self.recipe = ray.put(_packed(caster))
        self.group = self._room(place)
        self.references: tuple[Any, Any] = (None, None)  # as they are here, and where they are in the cluster
        self.asked: Any = None  # the block that every worker proves itself by
        self.expected: dict[str, str] = {}
        self.members: list[Member] = []
        self.desks: list[Desk] = []
        self.changing = threading.Lock()

    def _room(self, seconds: float) -> Any:
        """A place for every worker, or a ClusterError in time."""
        from ray.util.placement_group import placement_group, remove_placement_group

        group = placement_group([self.needs or {"CPU": 0.001}] * self.number, strategy="PACK")
        if group.wait(seconds):
            return group
        remove_placement_group(group)
        free, whole = self.ray.available_resources(), self.ray.cluster_resources()
        has = ", ".join(f"{free.get(name, 0):g} of {whole.get(name, 0):g} {name} free" for name in self.needs)
        each = " and ".join(f"{value:g} {name}" for name, value in self.needs.items())
        raise ClusterError(
            f"the cluster found no room for {self.number} actors of {each} each within {seconds:g} s: it has {has}; give fewer "
            "actors (--engine ray:actors=…), or place=… seconds if it grows on demand"
        )

    def _engage(self, bundle: int) -> Member:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        place = PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=bundle)
        kind = self.ray.remote(Worker).options(
            num_cpus=self.needs.get("CPU", 0), num_gpus=self.needs.get("GPU", 0), scheduling_strategy=place
        )
        actor = kind.remote(self.recipe)
        return Member(bundle, actor, actor.prove.remote(self.asked))

    def open(self, desk: Desk, caster: Caster) -> None:
        """Begin to do what is at this desk; a desk that was opened while another is open comes first."""
        with self.changing:
            self.desks.insert(0, desk)
            if len(self.desks) == 1:
                self.thread = threading.Thread(target=self._work, args=(caster,), daemon=True)
                self.thread.start()

    def leave(self, desk: Desk) -> None:
        """Have nothing more to do with this desk, which is over."""
        with self.changing:
            self.desks.remove(desk)
            last = not self.desks
        if last:
            self.thread.join()

    def _work(self, caster: Caster) -> None:
        """Do what is at the desks until there is none."""
        try:
            while self.desks:
                if self.members or self._begin(caster):
                    self._fill(caster)
                    self._collect()
        except BaseException as problem:  # handed to the caller's thread
            for desk in tuple(self.desks):
                desk.failed(problem)

    def _next(self, most: int, *, speculate: bool, wait: float = 0.0) -> tuple[Task, Desk] | None:
        """A task of the first desk that has one."""
        for sure in (True, False) if speculate else (True,):
            for desk in tuple(self.desks):
                task = desk.take(most, speculate=not sure, wait=wait)
                if task is not None:
                    return task, desk
        return None

    def _begin(self, caster: Caster) -> bool:
        """Engage the workers when the first task is there, which says what inputs look like."""
        first, desk = self._next(1, speculate=False, wait=0.05) or (None, None)
        if first is None or desk is None:
            return False
        desk.lost(first)
        ask, self.expected = trial(first, caster)
        self.asked = self.ray.put(ask)
        self.members = [self._engage(bundle) for bundle in range(self.number)]
        return True

    def _fill(self, caster: Caster) -> None:
        """Give every worker something to do, and then something ahead that is sure to be needed."""
        for depth in range(self.ahead):
            for member in self.members:
                if not member.free or len(member.tasks) > depth:
                    continue
                given = self._next(self._blocks(), speculate=depth == 0)
                if given is None:
                    break
                self._send(member, *given, caster)

    def _send(self, member: Member, task: Task, desk: Desk, caster: Caster) -> None:
        if isinstance(task, Ask):
            answer = member.actor.do.remote(task)
        else:
            if self.references[0] is not caster.references or self.references[1] is None:
                self.references = caster.references, self.ray.put(caster.references)
            answer = member.actor.do.remote(task, self.references[1])
        if not member.tasks:
            member.since = time.monotonic()
        member.tasks[answer] = task, desk

    def _blocks(self) -> int:
        usual = self.usual.get(Ask)
        return 1 if usual is None else max(1, min(LARGEST, round(self.task / max(usual, 1e-9))))

    def _collect(self) -> None:
        """Take in what is there, waiting a little if nothing is; see who is late."""
        waiting = {answer: member for member in self.members for answer in member.tasks}
        waiting |= {member.proof: member for member in self.members if not member.proved}
        idle = any(member.free and not member.tasks for member in self.members)
        ready, _ = self.ray.wait(list(waiting), num_returns=1, timeout=0.01 if idle else 0.2)
        if ready:
            ready, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        for answer in ready:
            member = waiting[answer]
            if member in self.members:  # not lost with another answer
                self._take(member, answer)
        self._look_for_late()

    def _take(self, member: Member, answer: Any) -> None:
        from ray.exceptions import RayError, RayTaskError

        try:
            found = self.ray.get(answer)
        except RayTaskError as problem:  # the model or the tuner raised, as it would here
            raise problem.cause if isinstance(problem.cause, Exception) else problem from None
        except RayError as problem:
            self._replace(member, problem)
            return
        if answer is member.proof:
            self._judge(member, found)
            return
        task, desk = member.tasks.pop(answer)
        found, seconds = found
        self.deaths, member.late, member.since = 0, False, time.monotonic()
        number = task.number if isinstance(task, Ask) else 1
        before = self.usual.get(type(task), seconds / number)
        self.usual[type(task)] = 0.8 * before + 0.2 * seconds / number
        member.blocks += number if isinstance(task, Ask) else 0
        member.answers += 1
        desk.done(task, found, seconds)

    def _judge(self, member: Member, proof: dict[str, str]) -> None:
        """Let in a worker that computes the same numbers as the driver; leave out any other, and say why."""
        member.node = proof.pop("node", "")
        wrong = unlike(proof, self.expected)
        if not wrong:
            member.proved = True
            return
        self.members.remove(member)
        self.ray.kill(member.actor)
        self.refused = f"the worker on {member.node} does not compute what the driver does: {'; '.join(wrong)}"
        if not self.members:
            raise ClusterError(
                f"{self.refused}; no worker is left. Records would differ from those of one machine: use nodes of one kind, with "
                "the same libraries and instruction set, and start the driver on one of them"
            )
        warnings.warn(f"{self.refused}; it is left out", stacklevel=2)

    def _replace(self, member: Member, problem: Exception) -> None:
        """A worker is gone: its tasks are for others, and another worker takes its place once there is room for it."""
        for task, desk in member.tasks.values():
            desk.lost(task)
        if "creation task" in str(problem):
            raise ClusterError(
                f"a worker could not make the classifier: {str(problem).strip().splitlines()[-1]}; every node needs the same "
                "libraries, and the modules that the model or the method comes from"
            )
        self.deaths += 1
        if self.deaths > DEATHS * self.number:
            reason = " ".join(str(problem).split())[:500]
            raise ClusterError(
                f"{self.deaths} workers died one after the other without an answer ({reason}); usually the model does not fit "
                "into their memory: give fewer actors, or a smaller --block"
            )
        self.members[self.members.index(member)] = self._engage(member.bundle)

    def _look_for_late(self) -> None:
        """Give what is late to others as well, the first answer counts; refuse to wait for workers that never come."""
        now = time.monotonic()
        for member in self.members:
            if (
                member.tasks
                and not member.late
                and now - member.since > self._allowed(next(iter(member.tasks.values()))[0])
            ):
                member.late = True
                for task, desk in member.tasks.values():
                    desk.lost(task)
        if any(member.free for member in self.members):
            self.idle_since = now
        elif now - self.idle_since > START:
            raise ClusterError(f"no worker was ready for {START:g} s; look at the cluster with ray status")

    def _allowed(self, task: Task) -> float:
        usual = self.usual.get(type(task))
        if usual is None:
            return START
        return max(self.patience, LATE * usual * (task.number if isinstance(task, Ask) else 1))

    def told(self) -> str:
        """How many blocks each worker has done."""
        done = " ".join(str(member.blocks) for member in self.members)
        return f"{sum(member.free for member in self.members)} of {self.number} actors, blocks {done}"

    def close(self) -> None:
        """Let the workers go."""
        from ray.util.placement_group import remove_placement_group

        if self.ray.is_initialized():
            for member in self.members:
                self.ray.kill(member.actor)
            remove_placement_group(self.group)


def _packed(caster: Caster) -> bytes:
    """What makes a copy of the classifier, as bytes."""
    from ray import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps(caster.elsewhere())  # type: ignore[no-untyped-call]
    except Exception as problem:  # whatever a model holds
        raise ClusterError(
            f"the classifier cannot be sent to other machines ({type(problem).__name__}: {problem}); give a model file, a factory "
            "(package.module:name), or a callable that captures nothing but what pickles"
        ) from problem
    return packed
