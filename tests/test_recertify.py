"""Certify from the log: the same as certifying with those settings, or refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.errors import InputError, RunError, SettingError
from smoothcert.estimators import Plan, check_votes
from smoothcert.fronts import BlockSums
from smoothcert.maths.boxed import Box
from smoothcert.recertify import recertify
from smoothcert.records.record import Record
from smoothcert.store import SqliteStore, open_run
from smoothcert.testing.problems import HalfSpace
from smoothcert.views import view_named
from smoothcert.votes import Votes


def certified(model: nn.Module, out: Path, **settings: object) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, size=(6, 1, 28, 28), dtype=np.uint8)
    noise = sc.Noise("gaussian", np.linspace(0.1, 0.4, 784).reshape(1, 28, 28), grid=1 / 255)
    smoother = sc.Smoother(model, noise, **{"estimate": 3_000, **settings})  # type: ignore[arg-type]
    return sc.certify_all(smoother, ArrayDataset("noise", pixels), out)


def records(run: Path) -> list[Record]:
    with open_run(run) as store:
        return list(store.records())


@pytest.mark.parametrize(
    "changes",
    [
        {"alpha": 0.01},
        {"estimator": "sequential:rivals=runner_up"},
        {"estimator": "sequential", "radii": (0.05, 0.1)},
        {"estimator": "sequential", "radii": (0.05,)},
        {"estimator": "betting"},
    ],
)
def test_all_the_votes_support_any_bound(linear_model: nn.Module, tmp_path: Path, changes: dict[str, object]) -> None:
    """From a run with every vote: what a stopped run claims at its stop is never more than the log shows in full."""
    run = certified(linear_model, tmp_path / "fixed", estimator="fixed")
    assert recertify(run, tmp_path / "again", changes) == 6
    direct = certified(linear_model, tmp_path / "direct", **{"estimator": "fixed", **changes})
    for again, other in zip(records(tmp_path / "again"), records(direct), strict=True):
        assert again.selection == other.selection
        assert again.estimation[: len(other.estimation)] == other.estimation
        assert again.lower >= other.lower
        if len(other.estimation) == len(again.estimation):
            # The votes on references are cast for certificates alone: one that was an abstention has none.
            assert again == (other if again.echo is not None else replace(other, echo=None))


def test_a_stopped_run_takes_another_alpha(linear_model: nn.Module, tmp_path: Path) -> None:
    run = certified(linear_model, tmp_path / "run", radii=(0.02, 0.1))
    recertify(run, tmp_path / "again", {"alpha": 0.01})
    for again, before in zip(records(tmp_path / "again"), records(run), strict=True):
        assert again.alpha == 0.01
        assert again.lower > before.lower
        assert again.estimation == before.estimation
    with open_run(tmp_path / "again") as store:
        facts = store.facts()
        assert facts["configuration"]["alpha"] == 0.01
        assert facts["configuration"]["recertified_from"] == str(run)
        store.get(str(records(tmp_path / "again")[0].scale))


def test_the_same_plan_gives_the_same_records(linear_model: nn.Module, tmp_path: Path) -> None:
    run = certified(linear_model, tmp_path / "run", radii=(0.02, 0.1))
    recertify(run, tmp_path / "again", {"alpha": 0.001})
    assert records(tmp_path / "again") == records(run)


class TestBoxes:
    """Votes that were cast without a box, judged as those of the classifier that clips."""

    def run(self, out: Path, **noise: object) -> Path:
        pixels = np.random.default_rng(0).integers(0, 256, size=(6, 1, 4, 4), dtype=np.uint8)
        smoother = sc.Smoother(
            HalfSpace(torch.ones(16), offset=-5.0),
            sc.Noise(**{"law": "uniform", "scale": 3.0, "grid": 1 / 255, **noise}),  # type: ignore[arg-type]
            norm=1,
            estimate=3_000,
            estimator="fixed",
        )
        return sc.certify_all(smoother, ArrayDataset("noise", pixels), out)

    def test_the_same_as_certifying_in_the_box(self, tmp_path: Path) -> None:
        old, direct = self.run(tmp_path / "old"), self.run(tmp_path / "direct", box=(0, 1))
        recertify(old, tmp_path / "again", {"box": Box(0, 1)})
        assert records(tmp_path / "again") == records(direct)
        larger = [
            a.radius > b.radius for a, b in zip(records(direct), records(old), strict=True) if a.label is not None
        ]
        assert any(larger)
        with open_run(tmp_path / "again") as store:
            assert store.facts()["configuration"]["domain"] == "grid 1/255, clipped to 0..1"

    def test_a_box_that_does_not_hold_the_inputs(self, tmp_path: Path) -> None:
        run = self.run(tmp_path / "run")
        with pytest.raises(InputError, match=r"the box 0\.\.0\.5 must hold every input"):
            recertify(run, tmp_path / "again", {"box": Box(0, 0.5)})

    def test_votes_behind_a_front(self, tmp_path: Path) -> None:
        """Its numbers do not lie in the box of the inputs: within it the radius came out as 3.96, and the plane is at 3.5."""
        plane = HalfSpace(torch.eye(4)[0], offset=-0.25)
        front = BlockSums(2).over((1, 4, 4), pixels=True, box=None)
        smoother = sc.Smoother(plane, sc.Noise("uniform", 2.0), norm=1, front=front, estimate=10_000, estimator="fixed")
        run = sc.certify_all(smoother, np.full((1, 1, 4, 4), 255, np.uint8), tmp_path / "run")
        assert 3.0 < records(run)[0].radius < 3.5
        with pytest.raises(SettingError, match="behind a front"):
            recertify(run, tmp_path / "again", {"box": Box(0, 1)})

    def test_inputs_that_are_no_pictures(self, tmp_path: Path) -> None:
        smoother = sc.Smoother(HalfSpace(torch.eye(4)[0]), sc.Noise("uniform", 1.0), norm=1, estimate=100)
        run = sc.certify_all(smoother, np.ones((1, 4), np.float32), tmp_path / "run")
        with pytest.raises(InputError, match="kept no picture"):
            recertify(run, tmp_path / "again", {"box": Box(0, 1)})

    def test_a_law_without_such_a_theorem(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="proves nothing more in a box"):
            recertify(self.run(tmp_path / "run", law="laplace"), tmp_path / "again", {"box": Box(0, 1)})

    def test_another_box_than_the_votes_were_cast_in(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"clipped to 0\.\.1, not to -1\.\.1"):
            recertify(self.run(tmp_path / "run", box=(0, 1)), tmp_path / "again", {"box": Box(-1, 1)})


class TestRefusals:
    def test_a_stopped_sample_has_no_fixed_bound(self, linear_model: nn.Module, tmp_path: Path) -> None:
        run = certified(linear_model, tmp_path / "run")
        with pytest.raises(SettingError, match="wrong on a sample that chose when to stop"):
            recertify(run, tmp_path / "again", {"estimator": "fixed"})
        assert not (tmp_path / "again").exists()

    def test_a_random_number_cannot_be_drawn_afterwards(self, linear_model: nn.Module, tmp_path: Path) -> None:
        run = certified(linear_model, tmp_path / "run", estimator="fixed")
        with pytest.raises(SettingError, match="needs its random number drawn with the votes"):
            recertify(run, tmp_path / "again", {"estimator": "randomized"})
        own = certified(linear_model, tmp_path / "own", estimator="randomized")
        assert len({record.uniform for record in records(own)}) == 6
        recertify(own, tmp_path / "again", {"alpha": 0.01})
        assert [r.uniform for r in records(tmp_path / "again")] == [r.uniform for r in records(own)]

    def test_the_place_is_taken(self, linear_model: nn.Module, tmp_path: Path) -> None:
        run = certified(linear_model, tmp_path / "run", estimator="fixed")
        with pytest.raises(RunError, match="not an empty directory"):
            recertify(run, run, {"alpha": 0.01})


class TestWhatTheLogCannotSupport:
    def test_views_of_another_file(self, tmp_path: Path) -> None:
        """With cells twice as long in a file of the same name the exact radius came out twice as large."""
        np.save(tmp_path / "cells.npy", np.array([128, 256]))
        view = view_named(f"splitting:file={tmp_path / 'cells.npy'}")
        smoother = sc.Smoother(HalfSpace(torch.eye(2)[0], offset=-0.5), view, norm=1)
        run = sc.certify_all(smoother, ArrayDataset("corner", np.float32([[1, 0]])), tmp_path / "run")
        recertify(run, tmp_path / "same", {})
        assert records(tmp_path / "same") == records(run)
        np.save(tmp_path / "cells.npy", np.array([256, 256]))
        with pytest.raises(SettingError, match="holds other numbers now"):
            recertify(run, tmp_path / "again", {})

    def test_other_looks_are_refused(self, linear_model: nn.Module, tmp_path: Path) -> None:
        """Counts taken every 200 votes, read as if every 100, would turn a minority into a certainty."""
        run = certified(linear_model, tmp_path / "run", estimator="fixed")
        for changes in ({"block": 100}, {"trials": 1_000}):
            with pytest.raises(SettingError, match="unknown setting to judge the votes anew by"):
                recertify(run, tmp_path / "again", changes)
        [votes] = [
            Votes(np.array([record.estimation]), np.array([record.estimation_invalid])) for record in records(run)[:1]
        ]
        with pytest.raises(SettingError, match="looks are fixed before the first vote"):
            check_votes(Plan("sequential", 3_000, block=100), votes)

    def test_a_failure_leaves_nothing(
        self, linear_model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = certified(linear_model, tmp_path / "run", estimator="fixed")

        def broken(store: SqliteStore, rows: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(SqliteStore, "append_all", broken)
        with pytest.raises(KeyboardInterrupt):
            recertify(run, tmp_path / "again", {"alpha": 0.01})
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    def test_a_recertified_run_is_not_continued(self, linear_model: nn.Module, tmp_path: Path) -> None:
        run = certified(linear_model, tmp_path / "run", estimator="fixed")
        recertify(run, tmp_path / "again", {"alpha": 0.01})
        with pytest.raises(RunError, match="recertified_from"):
            certified(linear_model, tmp_path / "again", estimator="fixed", alpha=0.01)

    def test_off_the_grid_the_scale_is_certified_as_it_is(self, tmp_path: Path) -> None:
        """Draws are multiplied by 0.7 in float64; judged again, the radius is the same."""
        rows = ArrayDataset("rows", np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32))
        noise = sc.Noise("gaussian", 0.7)
        model = nn.Linear(6, 3).eval()
        run = sc.certify_all(sc.Smoother(model, noise, estimate=2_000), rows, tmp_path / "run")
        recertify(run, tmp_path / "again", {"alpha": 0.001})
        assert records(tmp_path / "again") == records(run)


def test_an_empty_run_is_refused(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "run") as store:
        store.describe({})
    with pytest.raises(RunError, match="holds no records yet"):
        recertify(tmp_path / "run", tmp_path / "new", {"alpha": 0.01})
    assert not (tmp_path / "new").exists()
