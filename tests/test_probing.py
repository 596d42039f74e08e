"""The probe: what it refuses and says, what it costs, and what follows for certificates, runs and memories."""

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import smoothcert as sc
import smoothcert.cli
from smoothcert.answers import differences
from smoothcert.data import ArrayDataset, Dataset
from smoothcert.engine import Engine
from smoothcert.errors import NotFixed, RunError
from smoothcert.memory.memory import Memory
from smoothcert.probing import ROUNDING, Probe, RandomProbe
from smoothcert.report.runs import read_runs
from smoothcert.run import describe
from smoothcert.seeds import Stage, draws_for
from smoothcert.smoother import Batch, Smoother
from smoothcert.store import open_run

NOISE = sc.Noise("gaussian", 1.0)
X = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [3.0, 1.0]])


def honest(batch: Tensor) -> Tensor:
    score = batch.flatten(1)[:, 0]
    return torch.stack([-score, score], dim=1)


def batch_mean(batch: Tensor) -> Tensor:
    """Every row is answered by the sign of the block's mean."""
    return honest(batch.mean(dim=0, keepdim=True).expand_as(batch))


def smoother(model: Callable[[Tensor], Any] = honest, **settings: Any) -> Smoother:
    return Smoother(model, NOISE, **{"estimator": "fixed", "estimate": 1_000, "engine": Engine(workers=1), **settings})


class Turning(nn.Module):
    """Turns its answers round once it was called so many times."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.left = calls

    def forward(self, batch: Tensor) -> Tensor:
        self.left -= 1
        return honest(batch) * (1 if self.left >= 0 else -1)


class TestWhatWasFalse:
    def test_the_sign_of_the_batch_mean(self) -> None:
        """At a tie half of 300 inputs got a certified label where alpha allows 0.3; now none, and unchecked no promise."""
        tie = torch.zeros(300, 1)
        settings: dict[str, Any] = {"engine": Engine(200, workers=1), "alpha": 0.001}
        unchecked = smoother(batch_mean, check=False, **settings).certify(tie)
        assert [sum(c.label == label for c in unchecked) for label in (0, 1)] == [79, 78]
        assert {c.soundness.value for c in unchecked} == {"estimate"}
        with pytest.raises(NotFixed, match=r"half of the block's rows replaced.* 100 of 100 rows .*batch norm"):
            smoother(batch_mean, **settings).certify(tie)

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (lambda batch: honest(batch) + torch.linspace(0, 2, len(batch))[:, None] * torch.tensor([0, 1]), "order"),
            (lambda batch: honest(functional.dropout(batch, 0.9, training=True)), "asked twice.*dropout.*random layer"),
            (lambda batch: honest(functional.batch_norm(batch, None, None, training=True)), "replaced.*batch norm"),
            (Turning(2).eval(), "asked twice.*state that changes"),
            (Turning(9).eval(), "again at the end.*a counter"),
        ],
        ids=["place", "dropout", "norm", "early", "late"],
    )
    def test_each_is_refused_and_named(self, model: Callable[[Tensor], Any], words: str) -> None:
        torch.manual_seed(0)
        with pytest.raises(NotFixed, match=words):
            smoother(model).certify(X)

    def test_the_error_says_what_was_seen_and_what_to_do(self) -> None:
        with pytest.raises(NotFixed) as caught:
            smoother(batch_mean).certify(X)
        for words in ("100 of 100 rows", "of their size", "votes moved", "Usual cause", "check=False", "--no-check"):
            assert words in str(caught.value)


class TestDifferences:
    def test_in_units_of_the_logits_that_decide(self) -> None:
        before = torch.tensor([[1.0, 4.0, -1e30], [2.0, -4.0, -1e30], [8.0, 0.0, -1e30]])
        after = before + torch.tensor([[0.0, 0.4, 0.0], [0.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
        off, margin, moved = differences(before, after)
        assert off.tolist() == pytest.approx([0.1, 0.0, 9 / 4])
        assert margin.tolist() == pytest.approx([3 / 4, 6 / 4, 1.0])
        assert moved.tolist() == [False, False, True]

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_nan_and_infinity(self, dtype: torch.dtype) -> None:
        nan, inf = torch.nan, torch.inf
        before = torch.tensor([[nan, 1.0], [nan, 1.0], [inf, 0.0], [0.0, 1.0], [inf, -inf]], dtype=dtype)
        after = torch.tensor([[nan, 1.0], [0.0, 1.0], [inf, 0.0], [0.0, inf], [-inf, inf]], dtype=dtype)
        off, margin, moved = differences(before, after)
        assert off.tolist() == [0, inf, 0, inf, inf]
        assert not margin.isnan().any()
        assert moved.tolist() == [False, True, False, False, True]


class TestCost:
    def test_five_calls_and_no_vote_changes(self) -> None:
        seen: list[Tensor] = []

        def model(batch: Tensor) -> Tensor:
            seen.append(batch.clone())
            return honest(batch)

        checked, plain = smoother(model), smoother(check=False)
        votes = [poll.ballot.estimation.counts.tolist() for poll in checked.polls([Batch(X, [0, 1, 2])])]
        assert votes == [poll.ballot.estimation.counts.tolist() for poll in plain.polls([Batch(X, [0, 1, 2])])]
        assert len(seen) == 3 * (1 + 5) + 5
        [probe] = checked.probes.values()
        assert probe.facts["calls"] == 5
        assert 0 < probe.facts["seconds"] < 60
        assert 0 < probe.facts["rounding"] < ROUNDING
        assert torch.equal(seen[0], seen[3])
        assert torch.equal(seen[0], seen[-1])
        again = {tuple(block.flatten().tolist()) for block in (*seen[:4], seen[-1])}
        assert not again & {tuple(block.flatten().tolist()) for block in seen[4:-1]}, "the probe has draws of its own"

    def test_once_per_shape_and_again_after_every_call(self) -> None:
        calls = [0]

        def model(batch: Tensor) -> Tensor:
            calls[0] += 1
            return honest(batch)

        smoothed = smoother(model, select=200, estimate=200)
        for x, expected in ((X, 4 + 6 + 1), (X, 6 + 1), (torch.ones(1, 3), 4 + 2 + 2)):
            before = calls[0]
            smoothed.certify(x)
            assert calls[0] - before == expected
        before = calls[0]
        smoothed.predict(X)
        assert calls[0] - before == 3
        assert set(smoothed.probes) == {(2,), (3,)}

    def test_the_draws_of_the_probe_are_nobody_elses(self) -> None:
        drawn = {tuple(draws_for(0, 0, stage, 0, dtype=torch.float32).normal((9,)).tolist()) for stage in Stage}
        assert len(drawn) == len(Stage)
        assert Stage.PROBE == 6

    def test_predictions_are_probed(self) -> None:
        with pytest.raises(NotFixed, match="replaced by others"):
            smoother(batch_mean).predict(X)
        assert smoother(batch_mean, check=False).predict(X) == [1, 0, 1]

    def test_one_input_alone_and_no_input(self) -> None:
        assert smoother().certify(X[:1])[0].label == 1
        assert smoother().certify(X[:0]) == []
        with pytest.raises(NotFixed, match="replaced by others"):
            smoother(batch_mean).certify(X[:1])

    @pytest.mark.parametrize("engine", [Engine(shared_noise=True), Engine(workers=3), Engine(1), Engine(2)])
    def test_every_way_to_vote_is_probed(self, engine: Engine) -> None:
        assert [c.label for c in smoother(engine=engine).certify(X)] == [1, 0, 1]

    def test_the_pixel_grid_and_per_input_noise(self) -> None:
        noise = sc.Noise("gaussian", torch.tensor([[0.5], [0.25]]), grid=1 / 255)
        x = torch.tensor([[204 / 255, 0.0], [1.0, 0.0]])
        smoothed = Smoother(honest, noise, estimator="fixed", estimate=500)
        assert [c.label for c in smoothed.certify(x)] == [1, 1]


class TestNothingIsSettledBeforeTheEnd:
    def test_a_call_whose_model_changed_leaves_no_promise(self) -> None:
        memory = Memory()
        with pytest.raises(NotFixed, match="at the end"):
            smoother(Turning(20).eval(), memory=memory).certify(X)
        assert len(memory) == 0

    def test_a_model_that_was_trained_on_needs_a_new_smoother(self) -> None:
        model = nn.Linear(2, 2).eval()
        smoothed = smoother(model)
        smoothed.certify(X)
        with torch.no_grad():
            model.weight.mul_(2)
        with pytest.raises(NotFixed, match="trained on needs a new Smoother"):
            smoothed.certify(X)
        smoother(model).certify(X)


class TestUnchecked:
    def test_the_label_is_estimate_whatever_else_is_true(self) -> None:
        assert {c.soundness.value for c in smoother(check=False).certify(X)} == {"estimate"}
        memory = Memory()
        assert any(smoother(check=False, memory=memory).predict(X))
        assert {promise.soundness.value for promise in memory.promises()} == {"estimate"}
        memory = Memory()
        kept = smoother(check=False, memory=memory, tuner=sc.DataDependent()).certify(X[:1])
        assert [c.soundness.value for c in kept] == ["estimate"]
        assert [promise.soundness.value for promise in memory.promises()] == ["estimate"]
        per_input = sc.Noise("gaussian", torch.ones(3, 1))
        [first, *_] = Smoother(honest, per_input, estimator="fixed", estimate=500, check=False).certify(X)
        assert first.soundness.value == "estimate"

    def test_records_and_report_say_so(self, dataset: Dataset, tmp_path: Path) -> None:
        sc.certify_all(smoother(check=False), dataset, tmp_path / "run")
        with open_run(tmp_path / "run") as store:
            assert {record.soundness.value for record in store.records()} == {"estimate"}
            assert "probe" not in store.facts()
            assert store.facts()["configuration"]["check"] is False
        [[line]] = (run.lines for run in read_runs([tmp_path / "run"]))
        assert line.title.endswith("[estimate]")
        with pytest.raises(RunError, match="check: False there, True here"):
            sc.certify_all(smoother(), dataset, tmp_path / "run")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, size=(4, 1, 2, 2), dtype=np.uint8)
    return ArrayDataset("noise", pixels, np.arange(4) % 2, classes=2)


class TestRuns:
    def test_what_the_probe_found_is_kept_and_a_resumed_run_probes_again(
        self, dataset: Dataset, tmp_path: Path
    ) -> None:
        sc.certify_all(smoother(), dataset, tmp_path / "run", indices=[0, 1])
        with open_run(tmp_path / "run") as store:
            [probe] = store.facts()["probe"]
            assert (probe["calls"], store.facts()["configuration"]["check"]) == (5, True)
        resumed = smoother()
        sc.certify_all(resumed, dataset, tmp_path / "run")
        assert [probe.facts["calls"] for probe in resumed.probes.values()] == [5]

    def test_a_run_whose_classifier_changed_is_void(self, dataset: Dataset, tmp_path: Path) -> None:
        where = tmp_path / "run"
        with pytest.raises(NotFixed, match="at the end"):
            sc.certify_all(smoother(Turning(12).eval()), dataset, where, memory=where)
        void = r"is void \(the classifier is not one fixed function.*new directory"
        with pytest.raises(RunError, match=void), open_run(where):
            pass
        with pytest.raises(RunError, match="is void"):
            sc.certify_all(smoother(Turning(12).eval()), dataset, where, memory=where)
        with pytest.raises(RunError, match=r"memory .* is void .*begin a new one"):
            Memory.open(where / "results.sqlite")

    def test_a_shared_memory_is_void_with_it(self, dataset: Dataset, tmp_path: Path) -> None:
        model = Turning(12).eval()
        with pytest.raises(NotFixed):
            sc.certify_all(smoother(model), dataset, tmp_path / "run", memory=tmp_path / "memory.sqlite")
        with pytest.raises(RunError, match="is void"):
            Memory.open(tmp_path / "memory.sqlite")

    def test_a_run_refused_at_the_start_leaves_nothing_behind(self, dataset: Dataset, tmp_path: Path) -> None:
        with pytest.raises(NotFixed):
            sc.certify_all(smoother(batch_mean), dataset, tmp_path / "run")
        assert not (tmp_path / "run").exists()


def noisy(batch: Tensor) -> Tensor:
    """Independent per row and call."""
    return honest(batch) + torch.randn(len(batch), 2)


def rounding_of(rows: int) -> Tensor:
    """Factors within rounding, another for every place."""
    return torch.linspace(1, 1 + 1e-5, rows)[:, None]


class TestOwnRandomness:
    def test_it_is_refused_unless_asked_for_and_keeps_its_label(self) -> None:
        torch.manual_seed(0)
        with pytest.raises(NotFixed, match="own_randomness=True"):
            smoother(noisy).certify(X)
        certificates = smoother(noisy, own_randomness=True).certify(X)
        assert [(c.label, c.soundness.value) for c in certificates] == [(1, "global"), (0, "global"), (1, "global")]

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (lambda batch: honest(batch) + torch.randn(1, 2), "randomness that the rows of a call share"),
            (lambda batch: noisy(batch) + batch.mean() * torch.tensor([-1.0, 1.0]), "batch statistics"),
            (lambda batch: noisy(batch) + torch.linspace(-9, 9, len(batch))[:, None] * torch.tensor([0, 1]), "a place"),
            (lambda batch: honest(batch) + PLACES[: len(batch)], "a place"),
            (lambda batch: noisy(batch.mul_(2)), "wrote into it"),
        ],
        ids=["shared", "mean", "place", "fixed places", "writes"],
    )
    def test_dependent_rows_are_refused(self, model: Callable[[Tensor], Any], words: str) -> None:
        torch.manual_seed(0)
        with pytest.raises(NotFixed, match=words):
            smoother(model, own_randomness=True).certify(X)

    def test_a_change_is_seen_at_the_end(self) -> None:
        torch.manual_seed(0)
        model = Turning(9).eval()
        with pytest.raises(NotFixed, match="at the end"):
            smoother(lambda batch: model(batch) + torch.randn(len(batch), 2), own_randomness=True).certify(X)

    @pytest.mark.parametrize(
        "model",
        [noisy, honest, lambda batch: noisy(batch).sign(), lambda batch: honest(batch) * rounding_of(len(batch))],
        ids=["noisy", "fixed", "hard", "rounded"],
    )
    @pytest.mark.parametrize("block", [200, 7, 1])
    def test_sound_ones_pass(self, model: Callable[[Tensor], Any], block: int) -> None:
        """100 probes of three tests at 1e-6: a false alarm with probability 3e-4 at most."""
        torch.manual_seed(0)
        for seed in range(100):
            smoothed = smoother(model, own_randomness=True, seed=seed, engine=Engine(block, workers=1))
            smoothed.predict(X[:2], votes=1)
            [probe] = smoothed.probes.values()
            assert isinstance(probe, RandomProbe)
            probe.again()

    def test_the_run_says_so(self, dataset: Dataset) -> None:
        assert describe(smoother(noisy, own_randomness=True), dataset)["own_randomness"] is True
        assert describe(smoother(noisy), dataset)["own_randomness"] is False


PLACES = torch.randn(200, 2, generator=torch.Generator().manual_seed(1))


def factory_of(monkeypatch: pytest.MonkeyPatch, model: Callable[[Tensor], Tensor]) -> str:
    """The model as a factory that the command line can name."""

    class Network(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            return model(batch)

    module = types.ModuleType("outside")
    module.make = lambda: Network().eval()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "outside", module)
    return "outside:make"


@pytest.mark.filterwarnings("ignore:the network seems to answer at random")
class TestCommandLine:
    QUICK = ("--sigma", "0.25", "--limit", "2", "--select", "50", "--block", "50")

    def run(self, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["smoothcert", *arguments])
        try:
            smoothcert.cli.main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    def test_both_flags_reach_certify_and_predict(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        torch.manual_seed(0)
        model = ("--model", factory_of(monkeypatch, lambda b: functional.pad(noisy(b), (0, 8), value=-9.0)))
        for command in (("certify", "-n", "200", "--out", "a"), ("predict",)):
            assert self.run(monkeypatch, *command, *model, *self.QUICK) != 0
            assert "not one fixed function of its row" in " ".join(capfd.readouterr().err.split())
        for command, flags in (
            (("certify", "-n", "200", "--out", "b"), ["--no-check"]),
            (("certify", "-n", "200", "--out", "c"), ["--set", "votes.own_randomness=true"]),
        ):
            assert self.run(monkeypatch, *command, *model, *self.QUICK, *flags) == 0
            assert self.run(monkeypatch, "predict", *model, *self.QUICK, *flags) == 0
        found = {}
        for name in "bc":
            with open_run(tmp_path / name) as store:
                facts, labels = store.facts()["configuration"], {record.soundness.value for record in store.records()}
            found[name] = (facts["check"], facts["own_randomness"], labels)
        assert found == {"b": (False, False, {"estimate"}), "c": (True, True, {"global"})}
        assert "check = false" in (tmp_path / "b/run.toml").read_text()
        capfd.readouterr()
        assert self.run(monkeypatch, "report", "b", "--json") == 0
        assert json.loads(capfd.readouterr().out)[0]["label"] == "estimate"


def test_a_probe_is_of_one_pollster_and_shape() -> None:
    smoothed = smoother()
    smoothed.predict(X)
    [(shape, probe)] = smoothed.probes.items()
    assert (shape, type(probe)) == ((2,), Probe)
    assert probe.pollster is smoothed.pollster
