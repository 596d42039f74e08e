"""What is said before the first vote: held against scipy, against a run, and against what was asked for."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

import smoothcert as sc
import smoothcert.cli
from smoothcert.data import ArrayDataset
from smoothcert.forecast import forecast, largest_radius, round_radii
from smoothcert.smoother import Batch


class Constant(nn.Module):
    """Always answers class 0, and counts the rows that it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.append(len(x))
        return torch.tensor([[1.0, 0.0]]).expand(len(x), 2)


def smoother(model: nn.Module, **settings: object) -> sc.Smoother:
    given = {"engine": sc.Engine(block=50, workers=1), "estimate": 1000, "identity": "constant", **settings}
    return sc.Smoother(model.eval(), sc.Noise.isotropic("gaussian", 0.25), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("trials", [100, 1000, 20_000])
def test_largest_radius_is_that_of_votes_that_all_agree(trials: int) -> None:
    """Clopper–Pearson of n out of n is alpha^(1/n), at the class's nine tenths of alpha."""
    found = largest_radius(smoother(Constant(), estimate=trials, estimator="fixed"), (4,))
    assert found == pytest.approx(0.25 * norm.ppf(0.0009 ** (1 / trials)), rel=1e-9)


@pytest.mark.parametrize("settings", [{}, {"radii": (0.1, 0.5)}, {"estimator": "fixed"}, {"estimator": "betting"}])
def test_a_run_takes_and_proves_what_was_said(settings: dict[str, object]) -> None:
    certifier, x = smoother(Constant(), **settings), torch.zeros(3, 4)
    certifier.probe(Batch(x, range(3)))
    said = forecast(certifier, x[0], 0, len(x))
    found = certifier.certify(x)
    assert {c.bound.trials for c in found} == {said.agreed}
    assert said.votes == 3 * 1100 >= sum(c.bound.trials for c in found)
    assert max(c.radius for c in found) <= said.largest * (1 + 1e-12)
    if said.agreed == 1000:
        assert found[0].radius == pytest.approx(said.largest)
    assert said.seconds > 0
    if not settings:
        assert said.agreed_by_radii == smoother(Constant(), radii=said.radii).certify(x)[0].bound.trials


def test_radii_out_of_reach_are_said(tmp_path: Path) -> None:
    data = ArrayDataset("zeros", np.zeros((2, 4), dtype=np.float32), [0, 1])
    with pytest.warns(UserWarning, match="radii 5 cannot be proved by 1000 votes .* largest radius is 0.6"):
        sc.certify_all(smoother(Constant(), radii=(0.1, 5.0)), data, tmp_path / "run")


def test_no_more_copies_than_votes() -> None:
    model = Constant()
    smoother(model, estimate=300, engine=sc.Engine(block=300_000, workers=1), check=False).certify(torch.zeros(1, 4))
    assert max(model.rows) <= 300


@pytest.mark.parametrize("largest", [0.003, 0.61, 0.97, 1.0, 3.8, 49.0])
def test_round_radii_are_below(largest: float) -> None:
    radii = round_radii(largest)
    assert 2 <= len(radii) <= 4
    assert max(radii) < largest
    assert round_radii(math.inf) == round_radii(0.0) == ()


def test_dry_run_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mynet.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(4, 2))\n"
    )
    torch.save({"1.weight": torch.ones(2, 4), "1.bias": torch.zeros(2)}, "w.pt")
    np.savez("x.npz", x=np.zeros((3, 4), dtype=np.uint8))
    before = {*tmp_path.iterdir()}
    words = "certify --model mynet:build --weights w.pt --data x.npz --sigma 0.25 -n 1000 --dry-run --out run"
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr(sys, "argv", ["smoothcert", *words.split()])
    with pytest.raises(SystemExit):
        smoothcert.cli.main()
    assert capsys.readouterr().out.startswith("3 inputs: at most 3,300 votes, ")
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == before
