"""A guest executor, the one of the page: it gives what threads give, and a worker that is unlike is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import smoothcert as sc
from smoothcert.errors import ClusterError
from smoothcert.execution.worker import Worker

PAGE = Path(__file__).parents[2] / "docs/extending.md"


@pytest.fixture
def _page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n# myexecutors\.py\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "myexecutors.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)


def certified(executor: str, **more: Any) -> list[tuple[int | None, float]]:
    torch.manual_seed(0)
    model, x = torch.nn.Linear(8, 4).eval(), torch.randn(3, 8)
    engine = sc.Engine(executor=executor, block=100, workers=1)
    noise = sc.Noise.isotropic("gaussian", sigma=0.5)
    smoother = sc.Smoother(model, noise, select=100, estimate=1050, engine=engine, **more)
    return [(found.label, found.radius) for found in smoother.certify(x)]


@pytest.mark.slow
@pytest.mark.usefixtures("_page")
def test_the_executor_of_the_page_gives_what_threads_give() -> None:
    """Votes, and noise that is tuned for an input."""
    guest = "myexecutors:Processes:number=1"
    for more in ({}, {"tuner": sc.Ancer(steps=2)}):
        assert certified(guest, **more) == certified("threads", **more)


@pytest.mark.slow
@pytest.mark.usefixtures("_page")
def test_a_worker_with_other_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import myexecutors  # type: ignore[import-not-found]

    monkeypatch.setattr(myexecutors, "hire", hire_another)
    with pytest.raises(ClusterError, match="does not compute what this process does: model .*logits bits"):
        certified("myexecutors:Processes:number=1")


def hire_another(recipe: bytes) -> None:
    """In the other process: a classifier whose weights are not those that were sent."""
    import myexecutors

    myexecutors.worker = Worker(recipe)
    with torch.no_grad():
        for weight in myexecutors.worker.caster.model.parameters():
            weight += 1
