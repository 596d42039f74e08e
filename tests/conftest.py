"""What all tests share: one thread, also in child processes, and hypothesis without deadlines on noisy machines."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # the networks here are tiny; threads would only wait for each other

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import nn

from helpers.servers import PostgresServer
from smoothcert.errors import MissingExtra
from smoothcert.report.figures import COLUMN

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
torch.set_num_threads(1)


FONTS_OF_PAPERS = COLUMN["pdf.fonttype"]
COLUMN["pdf.fonttype"] = 3  # to cut the other kind out of a font takes a third of a second per figure


@pytest.fixture
def fonts_of_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fonts that a report outside of the tests has."""
    monkeypatch.setitem(COLUMN, "pdf.fonttype", FONTS_OF_PAPERS)


@pytest.fixture(scope="session")
def linear_model() -> nn.Module:
    """Ten classes on (1, 28, 28), deterministic, with answers that depend on the input."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(10, 784, generator=generator) / 10)
        model[1].bias.zero_()
    return model.eval()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One Postgres for all tests, which it outlives by nothing; skipped where none is installed."""
    try:
        server = PostgresServer()
    except MissingExtra as problem:
        pytest.skip(str(problem))
    with server:
        yield server


@pytest.fixture
def serious() -> Callable[..., list[str]]:
    """serious(page, part): what axe finds on a page of a browser, or on a part, that keeps some people from using it."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing: pip install 'smoothcert[dev]'"
    )

    def found(page: Any, part: str | None = None) -> list[str]:
        violations = axe.Axe().run(page, part).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html']}" for one in violations if one["impact"] in ("serious", "critical")
        ]

    return found
