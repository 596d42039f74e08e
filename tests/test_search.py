"""The search over laws: one set of votes for all norms, the same table after every interruption, clear refusals."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
import smoothcert.cli
from smoothcert import data
from smoothcert.data import ArrayDataset
from smoothcert.errors import RunError, SettingError, UnknownName
from smoothcert.metrics.curves import average_certified_radius
from smoothcert.models import load_model
from smoothcert.noise import Noise
from smoothcert.search import PICTURE, TABLE, Grid, Point, Row, at_norm, best_of, search
from smoothcert.store import open_run
from smoothcert.training import TrainSettings, new_model, train

GRID = Grid(
    "generalized_normal", "beta", (1.0, 2.0), (0.25, 0.5), (1.0, 0.5)
)  # norms with a theorem: no table to build
SUBSET = range(4)


class Killed(Exception):
    """Stands for a process that ends in the middle of something."""


class Workshop:
    """Trains an mlp on 150 digits and certifies 4 with 200 votes; dies after so many epochs and records."""

    def __init__(self, epochs: int = 99, records: int = 99) -> None:
        self.epochs, self.records = epochs, records
        self.digits = {split: data.load("digits", split=split) for split in ("train", "test")}

    def trained(self, point: Point, folder: Path) -> Path:
        source, chosen = self.digits["train"], range(150)
        architecture = {"name": "mlp", "shape": source.shape, "classes": source.classes}

        def count(_: object) -> None:
            self.epochs -= 1
            if not self.epochs:
                raise Killed

        settings = TrainSettings(epochs=2, learning_rate=0.01)
        labels = np.array(source.truths(chosen))
        noise = Noise.isotropic(point.law, point.sigma, grid=1 / 255)
        model = new_model(architecture, 0)
        places: dict[str, Any] = {"noise": noise, "out": folder, "architecture": architecture}
        return train(model, source.inputs(chosen), labels, settings, **places, progress=count)

    def certified(self, point: Point, weights: Path, folder: Path) -> None:
        source = self.digits["test"]

        def count(_: object) -> None:
            self.records -= 1
            if not self.records:
                raise Killed

        noise = Noise.isotropic(point.law, point.sigma, grid=1 / 255)
        model = load_model(str(weights), shape=source.shape, classes=source.classes)
        votes: dict[str, Any] = {
            "estimate": 200,
            "estimator": "fixed:rivals=rest",
            "engine": sc.Engine(shared_noise=True),
        }
        smoother = sc.Smoother(model, noise, GRID.norms[0], **votes)
        sc.certify_all(smoother, source, folder, indices=SUBSET, rows=2, progress=count)

    def search(self, out: Path) -> list[Row]:
        return search(GRID, SUBSET, out, train=self.trained, certify=self.certified)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A search that was never interrupted."""
    out = tmp_path_factory.mktemp("whole")
    return out, Workshop().search(out)


def test_a_killed_search_goes_on_to_the_same_table(whole: tuple[Path, list[Row]], tmp_path: Path) -> None:
    for workshop in (Workshop(epochs=1), Workshop(records=3), Workshop(epochs=3), Workshop(records=6)):
        with pytest.raises(Killed):
            workshop.search(tmp_path)
        assert not (tmp_path / TABLE).exists()
    assert Workshop().search(tmp_path) == whole[1]
    for name in (TABLE, PICTURE):
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes()


def test_the_table_says_what_the_scores_rest_on(whole: tuple[Path, list[Row]]) -> None:
    out, rows = whole
    lines = (out / TABLE).read_text().splitlines()
    names = ["law", "beta", "norm", "robustness_score", "r_max", "upper", "estimate"]
    assert lines[0].split(",")[:7] == names
    assert all(row.upper is not None and row.upper.value >= row.score.value - 1e-12 for row in rows)
    assert {row.upper.soundness.value for row in rows if row.upper} == {"estimate"}
    assert {row.estimate for row in rows} == {None}  # not asked for
    assert len(lines) == 1 + 2 * 2
    assert {(row.score.soundness.value, row.shared_noise, row.trials) for row in rows} == {("global", True, 200)}
    assert {row.score.classifiers for row in rows} == {2}
    for norm, best in best_of(rows).items():
        assert best.score.value == max(row.score.value for row in rows if row.score.norm == norm) > 0


def test_the_envelope_is_at_least_each_sigma(whole: tuple[Path, list[Row]]) -> None:
    """No r_max was given, so the integral is whole and one sigma's share of it is its average certified radius."""
    out, rows = whole
    for row in rows:
        for sigma in GRID.sigmas:
            records = at_norm(out / "runs" / Point(row.law, sigma).folder, row.score.norm, SUBSET)
            assert row.score.value >= average_certified_radius(records) - 1e-12


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_another_norm_is_as_if_certified_in_it(linear_model: nn.Module, tmp_path: Path, norm: float) -> None:
    """Scales and shifts per coordinate too, and the fields of every record."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(4, 1, 28, 28), dtype=np.uint8)
    noise = Noise("gaussian", torch.linspace(0.1, 0.4, 784).reshape(1, 28, 28), grid=1 / 255)
    runs = {}
    for own in (2.0, norm):
        smoother = sc.Smoother(linear_model, noise, own, estimate=500, estimator="fixed:rivals=rest")
        runs[own] = sc.certify_all(smoother, ArrayDataset("noise", pixels), tmp_path / f"l{own:g}", indices=[0, 1, 3])
    with open_run(runs[norm]) as store:
        assert at_norm(runs[2.0], norm, [0, 1, 3]) == list(store.records())


def test_only_the_inputs_asked_for_are_scored(linear_model: nn.Module, tmp_path: Path) -> None:
    """A run may hold more than the search asks for, from an earlier one with a higher limit; never less."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(3, 1, 28, 28), dtype=np.uint8)
    smoother = sc.Smoother(linear_model, Noise("gaussian", 0.2, grid=1 / 255), estimate=200)
    run = sc.certify_all(smoother, ArrayDataset("noise", pixels), tmp_path / "run", indices=[0, 2])
    assert [record.index for record in at_norm(run, 2.0, [2])] == [2]
    with pytest.raises(RunError, match=r"holds no record of the inputs \[1\]"):
        at_norm(run, 2.0, [0, 1])


GOOD: dict[str, Any] = {
    "law": "generalized_normal",
    "parameter": "beta",
    "values": (1.0,),
    "sigmas": (0.5,),
    "norms": (2.0,),
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameter": "gamma"}, "has no parameter 'gamma'; it has beta"),
        ({"law": "gaussian"}, "the law gaussian has no parameter 'beta'; it has none"),
        ({"values": ()}, "one or more values"),
        ({"sigmas": ()}, "one or more sigmas"),
        ({"norms": ()}, "one or more norms"),
        ({"values": (1.0, 1.0)}, "each once"),
        ({"values": (0.01,)}, "beta=0.01 is outside"),
        ({"sigmas": (0.0,)}, "sigma=0.0 must be above 0"),
        ({"norms": (0.0,)}, "norm=0.0"),
        ({"r_max": (1.0, 2.0)}, "one radius for each of the 1 norms"),
        ({"law": "pareto", "values": (1.0,)}, "no standard deviation"),
    ],
)
def test_grids_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Grid(**GOOD | changes)


def test_unknown_laws_say_which_was_meant() -> None:
    with pytest.raises(UnknownName, match="did you mean 'generalized_normal'"):
        Grid(**GOOD | {"law": "generalised_normal"})


class TestCommand:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("warnings.showwarning", None)
        self.patch = monkeypatch

    def run(self, *arguments: object) -> int:
        self.patch.setattr(sys, "argv", ["smoothcert", "search", *map(str, arguments)])
        try:
            smoothcert.cli.main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    def test_search_prints_scores_and_writes_table_and_plot(self, capfd: pytest.CaptureFixture[str]) -> None:
        quick = ("--sigmas", "0.25", "--norms", 1, "--limit", 3, "-n", 100, "--epochs", 1, "--train-limit", 60)
        assert self.run("--parameter", "beta=1,2", *quick, "--out", "s") == 0
        printed = capfd.readouterr()
        assert "robustness score of generalized_normal" in printed.out
        assert "global" in printed.out
        assert "best in l1: generalized_normal:beta=" in printed.err
        assert Path("s", TABLE).is_file()
        assert Path("s", PICTURE).is_file()
        first = Path("s", TABLE).read_bytes()
        assert self.run("--parameter", "beta=1,2", *quick, "--out", "s") == 0
        assert Path("s", TABLE).read_bytes() == first
        assert self.run("--parameter", "beta=1", *quick, "--own-noise", "--out", "s") == 2
        assert "shared_noise: True there, False here" in " ".join(capfd.readouterr().err.split())

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--parameter", "beta"), "must have the form name=values"),
            (("--parameter", "beta="), "one or more values"),
            (("--parameter", "beta=one"), "must be numbers"),
            (("--parameter", "gamma=1"), "has no parameter 'gamma'"),
            (("--parameter", "beta=1", "--noise", "laplace"), "the law laplace has no parameter 'beta'"),
        ],
    )
    def test_mistakes_are_said_before_anything_is_written(
        self, arguments: tuple[str, ...], words: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(*arguments, "--out", "s") == 2
        assert words in " ".join(capfd.readouterr().err.split())
        assert not Path("s").exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        at_norm(tmp_path, 2.0, [0])
