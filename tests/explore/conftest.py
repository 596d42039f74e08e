"""A small run of the embedded digits, with noise of its own in every pixel."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.cli.build import dataset_of, settings_of_run, smoother_of
from smoothcert.explore.explorer import Explorer
from smoothcert.explore.server import Server
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture


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
def explorer(run: Path) -> Iterator[Explorer]:
    settings = settings_of_run(run, {})
    dataset = dataset_of(settings.data)
    made = Explorer(smoother_of(settings, dataset), dataset, run)
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(explorer: Explorer) -> Iterator[Server]:
    with Server(explorer) as started:
        thread = threading.Thread(target=started.serve_forever, daemon=True)
        thread.start()
        yield started
        started.shutdown()
        thread.join()
