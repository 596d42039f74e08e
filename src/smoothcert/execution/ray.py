"""Votes on a Ray cluster: actors that hold the model, a few tasks ahead of each, everything lost done again elsewhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from smoothcert.errors import ClusterError
from smoothcert.execution.base import Caster, Executor
from smoothcert.execution.crew import Crew
from smoothcert.execution.desk import Desk
from smoothcert.extras import import_extra
from smoothcert.polling import Pollster
from smoothcert.registry import setting

# Read by Ray when it is imported: it sends no statistics anywhere, and leaves the GPUs of a worker without one alone.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
CONNECT = 5.0  # seconds


@dataclass(frozen=True)
class Ray(Executor):
    """Actors of a Ray cluster, each with the model; see docs/cluster.md."""

    name = "ray"
    ahead: ClassVar[int] = 2

    address: str = setting("auto", "the cluster: auto (the one of this machine), host:port, or local to start one")
    actors: int = setting(1, "workers, each with a copy of the model", least=1)
    cpus: float = setting(1.0, "cores of each", least=0)
    gpus: float = setting(0.0, "GPUs of each; give --device cuda as well", least=0)
    task: float = setting(0.25, "seconds that a task takes, about", above=0, most=60)
    place: float = setting(25.0, "seconds that the cluster has to find room for all of them", above=0)
    patience: float = setting(10.0, "seconds, at least, before a late task is given to another as well", above=0)
    _crews: WeakKeyDictionary[Pollster, Crew] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    def places(self, caster: Caster) -> int:
        return self.actors

    @contextmanager
    def serve(self, desk: Desk, caster: Caster) -> Iterator[None]:
        self.open(caster)
        crew = self._crews[caster.pollster]
        try:
            crew.open(desk, caster)
            yield
        finally:
            desk.finish()
            crew.leave(desk)

    def open(self, caster: Caster) -> None:
        if caster.pollster in self._crews:
            return
        ray = connected(self.address)
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        self._crews[caster.pollster] = Crew(
            ray,
            caster,
            number=self.actors,
            needs={name: value for name, value in needs.items() if value},
            ahead=self.ahead,
            task=self.task,
            place=self.place,
            patience=self.patience,
        )

    def close(self, caster: Caster) -> None:
        crew = self._crews.pop(caster.pollster, None)
        if crew is not None:
            crew.close()

    def told(self, caster: Caster) -> str:
        crew = self._crews.get(caster.pollster)
        return "" if crew is None else crew.told()


def connected(address: str) -> Any:
    """Ray, connected to the cluster, or a ClusterError that says why not."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    ray = import_extra("ray", "clusters")
    if ray.is_initialized():
        return ray
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        _knock(address, host, int(port))
    try:
        ray.init(address=address, logging_level="error", log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        reason = " ".join(str(problem).split())
        raise ClusterError(
            f"cannot join the Ray cluster at {address!r}: {reason}; start one (ray start --head), give its address "
            "(--engine ray:address=host:port), or address=local for one that ends with this program"
        ) from problem
    return ray


def _knock(address: str, host: str, port: int) -> None:
    """Refuse an address where nothing listens at once: Ray would try for a minute."""
    try:
        socket.create_connection((host, port), timeout=CONNECT).close()
    except OSError as problem:
        raise ClusterError(
            f"nothing listens at {address} ({problem}); give the address that ray start --head printed, host:port"
        ) from problem
