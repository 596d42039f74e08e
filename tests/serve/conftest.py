"""Servers on a thread of this process: a half-space, whose smoothed version is known exactly."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from smoothcert.client import Client
from smoothcert.data import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.memory.memory import Memory
from smoothcert.noise import Noise
from smoothcert.serve.server import listening_at, server_of
from smoothcert.serve.service import Service
from smoothcert.serve.settings import Serving
from smoothcert.smoother import Smoother
from smoothcert.testing.problems import HalfSpace

DIM = 4
PLANE = HalfSpace(torch.eye(DIM)[0])


def smoother_with(model: Any = PLANE, **options: Any) -> Smoother:
    """Votes on the side of the first coordinate, under noise of scale 1; alpha is the false-alarm rate of what is expected of one."""
    usual = {"estimate": 2_000, "alpha": 1e-6, "engine": Engine(block=50, workers=2)}
    return Smoother(model, Noise("gaussian", 1.0), **usual | options)


def at(first: float, second: float = 0.0) -> np.ndarray:
    """An input at this distance from the plane, in whole 64ths, which float32 holds."""
    return np.array([round(first * 64) / 64, round(second * 64) / 64, 0.0, 0.0])


DATA = ArrayDataset("points", np.float32([at(1.0), at(-1.0)]), np.array([1, 0]))


@dataclass
class Running:
    """A server, and a client of it."""

    address: str
    port: int
    service: Service
    client: Client


@contextmanager
def serving(
    smoother: Smoother | None = None, memory: Memory | None = None, data: ArrayDataset = DATA, **settings: Any
) -> Iterator[Running]:
    """A server as the command runs it, on a thread and a free port."""
    chosen = Serving(port=0, **settings)
    kept = Memory() if memory is None else memory
    server, state = server_of(lambda: Service(smoother or smoother_with(), data, kept, chosen), chosen)
    listening = listening_at(chosen)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    port = listening.getsockname()[1]
    until(lambda: state.service is not None or state.problem is not None)
    if state.problem is not None:
        raise state.problem
    assert state.service is not None
    address = f"http://127.0.0.1:{port}"
    try:
        with Client(address) as client:
            yield Running(address, port, state.service, client)
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive(), "the server does not stop"


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """One server for tests that leave no trace in each other."""
    with serving() as started:
        yield started
