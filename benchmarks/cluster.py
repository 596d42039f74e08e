"""How well a Ray cluster is used, on a simulated device: python benchmarks/cluster.py starts Ray on this machine and prints tables.

The device takes a known time per block, by sleeping, so that eight of them fit on two cores: what is measured is the driver, the
choice of tasks and Ray, not a network. Workers that die, blocks that take twenty times as long and workers that are three times
slower can be mixed in. The last table is a model of larger clusters; its one measured constant is the driver's CPU time per task.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import smoothcert as sc

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
    Case("many inputs, sequential", 48, 1.0, 20_000, "sequential"),
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
    smoother.certify(case.x[:1].repeat(2 * actors, 1), first_index=10_000)
    crew = next(iter(smoother.driver.executor._crews.values()))  # type: ignore[attr-defined]
    while not all(member.proved for member in crew.members):
        smoother.certify(case.x[:1], first_index=20_000)
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


def speed(seconds: float) -> None:
    print(f"A device of {1e3 * seconds:g} ms per block; 1 and 8 actors\n")
    print(
        "| | 1 actor (s) | 8 actors (s) | faster | blocks wasted | driver CPU per task (ms) |\n|---|---|---|---|---|---|"
    )
    for case in CASES:
        one, eight = (measure(case, Device(seconds), actors) for actors in (1, 8))
        ratio = one.seconds / eight.seconds
        cells = [
            f"{one.seconds:.1f}",
            f"{eight.seconds:.1f}",
            f"{ratio:.1f}",
            f"{eight.wasted:.1%}",
            f"{eight.milliseconds:.1f}",
        ]
        print(f"| {case.title} | {' | '.join(cells)} |", flush=True)


def faults(seconds: float) -> None:
    print("\nThe same with faults, many inputs, fixed n, 8 actors\n")
    print("| fault | seconds | blocks done twice or more |\n|---|---|---|")
    kinds = {
        "none": Device(seconds),
        "a worker dies in 1 of 200 blocks": Device(seconds, dies=1 / 200),
        "1 of 50 blocks takes 20 times as long": Device(seconds, sticks=1 / 50),
        "half of the workers are 3 times slower": Device(seconds, slow=0.5),
    }
    for name, device in kinds.items():
        found = measure(CASES[0], device, 8, ",patience=1")
        print(f"| {name} | {found.seconds:.1f} | {found.wasted:.1%} |", flush=True)


def model(gpus: int, inputs: float, blocks: float, block: float, task: float, cpu: float) -> tuple[float, float]:
    """Hours that the devices need, and how many cores one driver would need, with tasks of so many seconds."""
    hours = inputs * blocks * block / gpus / 3600
    return hours, gpus / task * cpu


def larger(cpu: float) -> None:
    """10^6 ImageNet inputs, 1 000 votes of selection and 10 000 of estimation in blocks of 400, 0.1 s each."""
    print(f"\nA model: 10^6 inputs, 28 blocks of 0.1 s each, {1e3 * cpu:.1f} ms of the driver per task\n")
    print("| GPUs | seconds per task | hours | cores of one driver |\n|---|---|---|---|")
    for gpus in (8, 100, 400, 1_000):
        for task in (0.25, 0.5, 2.0):
            hours, cores = model(gpus, 1e6, 28, 0.1, task, cpu)
            print(f"| {gpus} | {task:g} | {hours:.0f} | {cores:.2f} |")


def checked(cpu: float) -> None:
    """The model against the cluster here, where the driver is what limits: devices that take no time."""
    case = Case("no device", 8, 1.0, 40_000, "fixed")
    found = measure(case, Device(0.0), 8, ",task=0.000001")
    print(f"\nDevices of 0 ms, one block per task: {found.tasks / found.seconds:.0f} tasks per second; ", end="")
    print(
        f"the driver used {found.milliseconds:.2f} ms of CPU per task, so one core allows {1e3 / found.milliseconds:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.05, help="of the device per block")
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    torch.set_num_threads(1)
    speed(arguments.seconds)
    faults(arguments.seconds)
    cpu = measure(CASES[0], Device(arguments.seconds), 8).cpu / max(
        1, measure(CASES[0], Device(arguments.seconds), 8).tasks
    )
    checked(cpu)
    larger(cpu)
    ray.shutdown()


if __name__ == "__main__":
    main()
