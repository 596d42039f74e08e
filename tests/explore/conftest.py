"""A small run of the embedded digits, with noise of its own in every pixel."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.cli.flags import Given
from smoothcert.cli.of_run import certified_with
from smoothcert.data.rows import ArrayDataset
from smoothcert.engine import Engine
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.server import Server
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.noise import Noise
from smoothcert.run import certify_all
from smoothcert.smoother import Smoother
from smoothcert.testing.leaks import LocLeak
from smoothcert.testing.problems import HalfSpace


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four inputs of an untrained network."""
    folder = tmp_path_factory.mktemp("explore")
    torch.manual_seed(0)
    architecture = Architecture.of({"name": "mlp", "shape": (1, 28, 28), "classes": 10})
    save_file(architecture.build().state_dict(), folder / "m.safetensors", {ARCHITECTURE_KEY: architecture.to_json()})
    np.save(folder / "scale.npy", np.random.default_rng(0).uniform(0.02, 0.08, (1, 28, 28)))
    words = ["certify", "--model", folder / "m.safetensors", "--scale", folder / "scale.npy", "-n", 500, "--limit", 4]
    done = CliRunner().invoke(app, [*map(str, words), "--out", str(folder / "run")], catch_exceptions=False)
    assert done.exit_code == 0
    return folder / "run"


@pytest.fixture(scope="session")
def leaking() -> tuple[Smoother, ArrayDataset]:
    """The example of theory §3: the noise is moved to the side that the input lies on; the second input lies on neither."""
    x = np.zeros((2, 6), dtype=np.float32)
    x[0, 0], x[1, 1] = 0.05, 100.0
    smoother = Smoother(
        HalfSpace(torch.eye(6)[0]),
        Noise("gaussian", 1.0),
        estimate=1_000,
        engine=Engine(block=500, workers=1),
        tuner=LocLeak(),
    )
    return smoother, ArrayDataset("leak", x, np.array([1, 0]))


@pytest.fixture(scope="session")
def leak(leaking: tuple[Smoother, ArrayDataset], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """Its certificates, settled by a memory in a file of its own."""
    folder = tmp_path_factory.mktemp("leak")
    certify_all(*leaking, folder / "run", memory=folder / "memory.sqlite")
    made = Explorer(*leaking, folder / "run", folder / "memory.sqlite")
    yield made
    made.close()


@contextmanager
def served(explorer: Explorer) -> Iterator[Server]:
    """The explorer's server, on a thread."""
    with Server(explorer) as started:
        thread = threading.Thread(target=started.serve_forever, daemon=True)
        thread.start()
        yield started
        started.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def explorer(run: Path) -> Iterator[Explorer]:
    made = Explorer(*certified_with(run, Given()), run)
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(explorer: Explorer) -> Iterator[Server]:
    with served(explorer) as started:
        yield started


@pytest.fixture(scope="session")
def leak_server(leak: Explorer) -> Iterator[Server]:
    with served(leak) as started:
        yield started
