"""How well a Ray cluster is used, on a simulated device: python benchmarks/cluster.py starts Ray on this machine and prints tables.

The device takes a known time per block, by sleeping, so that eight of them fit on two cores: what is measured is the driver, the
choice of tasks and Ray, not a network. Workers that die, blocks that take twenty times as long and workers that are three times
slower can be mixed in. The second table checks a model of the cluster against it, and the last two are what that model says of
1 000 GPUs and of what one driver, one file and one memory can take; their constants are measured here.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.maths.sketch import BLOCKS
from smoothcert.store import SqliteStore
from smoothcert.testing.records import RECORD

SIGMA, BLOCK = 0.5, 200


class Device(nn.Module):
    """A linear classifier that takes so many seconds per block, and its faults."""

    def __init__(self, seconds: float, dies: float = 0.0, sticks: float = 0.0, slow: float = 0.0) -> None:
        super().__init__()
        self.seconds, self.dies, self.sticks, self.slow = seconds, dies, sticks, slow
        self.driver = os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        if os.getpid() != self.driver:
            chance = random.Random()
            if chance.random() < self.dies:
                os._exit(1)
            slow = 3 if random.Random(os.getpid()).random() < self.slow else 1
            time.sleep(self.seconds * slow * (20 if chance.random() < self.sticks else 1))
        score = x.flatten(1)[:, :1]
        return torch.cat([score, -score], dim=1)


@dataclass(frozen=True)
class Case:
    """What is certified: inputs at a distance from the boundary, in units of sigma; votes of each; how they are stopped."""

    title: str
    inputs: int
    distance: float
    votes: int
    estimator: str

    @property
    def x(self) -> Tensor:
        """The inputs: some easier, some harder, around the distance."""
        spread = torch.linspace(0.6, 1.4, self.inputs) if self.inputs > 1 else torch.ones(1)
        return (SIGMA * self.distance * spread)[:, None].repeat(1, 4)


CASES = [
    Case("many inputs, fixed n", 48, 1.0, 4_000, "fixed"),
    Case("one hard input, fixed n", 1, 0.3, 160_000, "fixed"),
    Case("many inputs, sequential", 48, 1.0, 10_000, "sequential"),
]


@dataclass(frozen=True)
class Measured:
    """Seconds, blocks that were computed and that were counted, tasks, and CPU seconds of the driver."""

    seconds: float
    blocks: int
    counted: int
    tasks: int
    cpu: float

    @property
    def wasted(self) -> float:
        return 1 - self.counted / self.blocks

    @property
    def milliseconds(self) -> float:
        """CPU of the driver per task."""
        return 1e3 * self.cpu / self.tasks


@contextmanager
def engaged(case: Case, device: Device, actors: int, more: str = "") -> Iterator[sc.Smoother]:
    """A smoother whose workers are ready."""
    engine = sc.Engine(block=BLOCK, executor=f"ray:actors={actors},cpus=0.1{more}")
    noise = sc.Noise.isotropic("gaussian", SIGMA)
    smoother = sc.Smoother(
        device.eval(), noise, select=BLOCK, estimate=case.votes, estimator=case.estimator, engine=engine, check=False
    )
    smoother.predict(case.x[:1].repeat(2 * actors, 1), votes=4 * BLOCK, first_index=10_000)
    crew = next(iter(smoother.driver.executor._crews.values()))  # type: ignore[attr-defined]
    while not all(member.proved for member in crew.members):
        smoother.predict(case.x[:1], votes=4 * BLOCK, first_index=20_000)
    try:
        yield smoother
    finally:
        smoother.close()


def measure(case: Case, device: Device, actors: int, more: str = "") -> Measured:
    with engaged(case, device, actors, more) as smoother:
        crew = next(iter(smoother.driver.executor._crews.values()))  # type: ignore[attr-defined]
        time.sleep(6 * device.seconds)  # what was left over from before
        for member in crew.members:
            member.blocks = member.answers = 0
        began, cpu = time.perf_counter(), time.process_time()
        certificates = smoother.certify(case.x)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        late = sum(len(member.tasks) for member in crew.members)
        blocks, tasks = (sum(getattr(m, name) for m in crew.members) for name in ("blocks", "answers"))
        counted = sum(-(-c.bound.trials // BLOCK) + 1 for c in certificates)
    return Measured(seconds, blocks + late, counted, tasks + late, cpu)


def speed(seconds: float) -> list[tuple[Measured, Measured]]:
    """The first table, and what each case took on 1 and on 8 actors."""
    print(f"A device of {1e3 * seconds:g} ms per block; 1 and 8 actors\n")
    print(
        "| | 1 actor (s) | 8 actors (s) | faster | blocks wasted | driver CPU per task (ms) |\n|---|---|---|---|---|---|"
    )
    found = []
    for case in CASES:
        one, eight = (measure(case, Device(seconds), actors) for actors in (1, 8))
        found.append((one, eight))
        cells = [f"{one.seconds:.1f}", f"{eight.seconds:.1f}", f"{one.seconds / eight.seconds:.1f}"]
        cells += [f"{eight.wasted:.1%}", f"{eight.milliseconds:.1f}"]
        print(f"| {case.title} | {' | '.join(cells)} |", flush=True)
    return found


@dataclass(frozen=True)
class Cluster:
    """A model of one: devices of so many seconds per block, some of them slower, some blocks late, and one driver.

    overhead: seconds of a worker per task beside its blocks. cpu: seconds of the driver per task.
    """

    devices: int
    seconds: float
    cpu: float
    overhead: float = 0.0
    slow: float = 0.0
    slower: float = 3.0
    late: float = 0.0
    later: float = 20.0

    def per_second(self, blocks_per_task: float) -> float:
        """Tasks that the devices can do, and no more than the driver can hand out."""
        task = blocks_per_task * self.seconds * (1 + self.late * (self.later - 1)) + self.overhead
        devices = self.devices * (1 - self.slow + self.slow / self.slower)
        return min(devices / task, 1 / self.cpu)

    def hours(self, inputs: float, blocks: float, blocks_per_task: float) -> float:
        return inputs * blocks / blocks_per_task / self.per_second(blocks_per_task) / 3600


def faults(seconds: float, one: Measured, eight: Measured) -> None:
    """The model against the cluster here, with its two constants from the first table: the driver's CPU and the worker's rest."""
    case = CASES[0]
    overhead = max(0.0, one.seconds / one.tasks - seconds * one.blocks / one.tasks)
    print("\nThe model against the simulated device: many inputs, fixed n\n")
    print("| actors | | measured (s) | model (s) | blocks done twice or more |\n|---|---|---|---|---|")
    rows = [
        (2, "", Device(seconds), {}),
        (4, "", Device(seconds), {}),
        (8, "half of the workers are 3 times slower", Device(seconds, slow=0.5), {"slow": 0.5}),
        (8, "1 of 50 blocks takes 20 times as long", Device(seconds, sticks=1 / 50), {"late": 1 / 50}),
        (8, "a worker dies in 1 of 200 blocks", Device(seconds, dies=1 / 200), None),
        (8, "no device: the driver is what limits", Device(0.0), {}),
    ]
    for actors, name, device, kind in rows:
        found = measure(case, device, actors, ",patience=1" + (",task=0.000001" if not device.seconds else ""))
        told = "–"
        if kind is not None:
            cpu = found.cpu / found.tasks if not device.seconds else eight.cpu / eight.tasks
            cluster = Cluster(actors, device.seconds, cpu, overhead if device.seconds else 0.0, **kind)
            each = found.blocks / found.tasks
            told = f"{found.counted / each / cluster.per_second(each):.1f}"
        twice = f"{found.wasted:.1%}" if kind is not None else "–"  # the dead take their counts with them
        print(f"| {actors} | {name} | {found.seconds:.1f} | {told} | {twice} |", flush=True)


def appends(number: int = 300) -> float:
    """Records that a run directory takes in a second."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore(folder) as store:
        store.append(replace(RECORD, index=number), 1.0)
        began = time.perf_counter()
        for index in range(number):
            store.append(replace(RECORD, index=index), 1.0)
        return number / (time.perf_counter() - began)


def larger(cpu: float, settles: float) -> None:
    """10^6 ImageNet inputs, 1 000 votes of selection and 10 000 of estimation in blocks of 400, 0.1 s each."""
    inputs, blocks, block, gpus = 1e6, 28, 0.1, 1_000
    print(f"\nThe model of {gpus:,} GPUs: {inputs:,.0f} inputs of {blocks} blocks, {block} s each\n")
    print("| drivers (shards) | seconds per task | hours | driver's core in use |\n|---|---|---|---|")
    for drivers in (1, 4, 16):
        for task in (0.5, 2.0):
            part = Cluster(gpus // drivers, block, cpu)
            per_task = task / block
            used = part.per_second(per_task) * cpu
            print(f"| {drivers} | {task:g} | {part.hours(inputs / drivers, blocks, per_task):.0f} | {used:.0%} |")
    print("\n| one of | does in a second | needed | enough for GPUs |\n|---|---|---|---|")
    done = gpus / (blocks * block)
    for name, able, needed in (
        ("driver, tasks of 0.5 s", 1 / cpu, gpus / 0.5),
        ("memory on Postgres, settled as one goes", settles, done),
        ("run directory, records", appends(), done),
    ):
        print(f"| {name} | {able:,.0f} | {needed:,.0f} | {gpus * able / needed:,.0f} |")
    promise = 8 * (2 * BLOCKS + 1 + 4)
    print(
        f"\nHeld per input: 16 bytes of the data set; with a memory {promise:,} bytes of each process that settles, ",
        end="",
    )
    print(f"{promise * inputs / 1e9:.1f} GB for all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.05, help="of the device per block")
    parser.add_argument("--settles", type=float, default=148, help="per second, as benchmarks/settling.py prints it")
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    torch.set_num_threads(1)
    (one, eight), *_ = speed(arguments.seconds)
    faults(arguments.seconds, one, eight)
    ray.shutdown()
    larger(eight.cpu / eight.tasks, arguments.settles)


if __name__ == "__main__":
    main()
