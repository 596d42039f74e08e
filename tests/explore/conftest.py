"""A small run of the embedded digits, with noise of its own in every pixel."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

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
from smoothcert.explore.slices import Asked
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.noise import Noise
from smoothcert.run import certify_all
from smoothcert.smoother import Smoother
from smoothcert.testing.leaks import LocLeak
from smoothcert.testing.problems import HalfSpace
from smoothcert.views import view_named


def whole(explorer: Explorer, asked: Asked) -> dict[str, Any]:
    """A slice, once all of it is there."""
    for _ in range(600):
        state = explorer.slice(asked)
        assert state["problem"] is None
        if state["whole"]:
            return dict(state["slice"])
        time.sleep(0.05)
    raise AssertionError("the slice never ended")


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


def marks(x: torch.Tensor) -> torch.Tensor:
    """Class 1 where any number that is shown is one, else class 0."""
    found = (x.flatten(1) == 1).any(1).float()
    return torch.stack([1 - found, found], dim=1) + 0 * x.flatten(1).sum(1, keepdim=True)


def bright(x: torch.Tensor) -> torch.Tensor:
    """Class 1 as far as the numbers of the first two rows are large on average."""
    level = x[:, 0, :2].mean(dim=(1, 2))
    return torch.stack([0.5 - level, level - 0.5], dim=1) * 8


@pytest.fixture(scope="session")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Explorer]]:
    """viewed(views, …): the explorer of two dark pictures of 8 × 8 pixels, certified with these views.

    The classifier is ``bright`` in the l1 norm, and else ``marks``.
    """
    made: dict[str, Explorer] = {}

    def explorer_of(views: str, **against: Any) -> Explorer:
        key = f"{views} {against}"
        if key not in made:
            x = np.zeros((2, 1, 8, 8), dtype=np.float32)
            x[1, 0, 2, 3] = 0.2  # on the grid of 1/255
            data = ArrayDataset("dark", x, np.zeros(2, int), classes=2)
            model = bright if against.get("norm") == 1 else marks
            smoother = Smoother(model, view_named(views), **against, estimate=2_000, engine=Engine(workers=1))
            place = tmp_path_factory.mktemp("viewed") / "run"
            certify_all(smoother, data, place)
            made[key] = Explorer(smoother, data, place)
        return made[key]

    yield explorer_of
    for explorer in made.values():
        explorer.close()


@contextmanager
def served(explorer: Explorer, beside: Explorer | None = None) -> Iterator[Server]:
    """The explorer's server, on a thread."""
    with Server(explorer, beside) as started:
        thread = threading.Thread(target=started.serve_forever, daemon=True)
        thread.start()
        yield started
        started.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractContextManager[Server]]:
    """serve(explorer, beside): the server of one run, or of two."""
    return served


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
