"""The fastest engine is chosen from what works, and a run keeps what was chosen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert import calibration
from smoothcert.calibration import Bench, Trial, calibrate
from smoothcert.cli import runtime as choosing
from smoothcert.config import Settings
from smoothcert.data.digits import load_digits
from smoothcert.engine import Engine
from smoothcert.errors import MissingExtra, RunError, SettingError
from smoothcert.execution.threads import MOST_SHARED
from smoothcert.models.adapters import as_classifier
from smoothcert.runtimes import OnnxRuntime
from smoothcert.sections import read

NOISE = sc.Noise.isotropic("gaussian", 0.25, 1 / 255)
X = torch.zeros(1, 28, 28)


def tiny() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()


def told(times: dict[tuple[str, int, int], float | str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements as they are told: by runtime, block and workers."""

    def tried(self: Bench, name: str, block: int, workers: int) -> Trial:
        found = times.get((name, block, workers), 100.0)
        return Trial(name, block, workers, *(((), found) if isinstance(found, str) else ((found, found),)))

    monkeypatch.setattr(Bench, "tried", tried)


class TestTheChoice:
    def test_is_the_fastest_that_works(self, monkeypatch: pytest.MonkeyPatch) -> None:
        times = {
            ("onnxruntime", 200, 4): 20.0,
            ("openvino", 200, 4): "does not compute this network",
            ("onnxruntime", 1000, 4): 15.0,
            ("torch", 50, 4): 24.0,  # near, so that its other blocks are tried
        }
        told(times, monkeypatch)
        found = calibrate(tiny(), NOISE, X, Engine(workers=4))
        assert (found.engine.runtime, found.engine.block, found.engine.workers) == ("onnxruntime", 1000, 4)
        assert "openvino does not compute this network" in found.words

    def test_stays_with_torch_where_little_is_gained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told({("openvino", 200, 4): 97.0, ("torch", 50, 4): 99.0}, monkeypatch)
        found = calibrate(tiny(), NOISE, X, Engine(workers=4)).engine
        assert (found.runtime, found.block) == ("torch", 200)

    def test_takes_the_best_so_far_when_time_is_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told({("onnxruntime", 200, 2): 10.0, ("openvino", 200, 2): 1.0}, monkeypatch)
        # torch is timed in 0.1 s in blocks of 50, then of 200, and onnxruntime within eight seconds
        clock = iter([0.0, 0.1, 0.2, 1.0, *[9.0] * 99])
        monkeypatch.setattr(calibration.time, "perf_counter", lambda: next(clock))
        found = calibrate(tiny(), NOISE, X, Engine(workers=2))
        assert [(trial.runtime, trial.block) for trial in found.trials] == [
            ("torch", 50),
            ("torch", 200),
            ("onnxruntime", 200),
        ]
        assert found.engine.runtime == "onnxruntime"
        assert found.engine.block == 200

    def test_a_slow_network_has_more_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Up to twenty times the two seconds of the first trial, and a tenth of the 300 seconds of all votes."""
        told({("torch", 50, 2): 1e6, ("onnxruntime", 50, 2): 1e5}, monkeypatch)
        for votes, tried in ((300, 3), (100, 2)):
            clock = iter([0.0, 2.0, 9.0, 29.0, *[31.0] * 99])
            monkeypatch.setattr(calibration.time, "perf_counter", lambda clock=clock: next(clock))
            assert len(calibrate(tiny(), NOISE, X, Engine(workers=2), votes).trials) == tried

    def test_what_is_far_behind_is_not_tried_in_other_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told({("onnxruntime", 200, 4): 40.0, ("openvino", 200, 4): 60.0}, monkeypatch)
        found = calibrate(tiny(), NOISE, X, Engine(workers=4))
        assert {(t.runtime, t.block) for t in found.trials if t.block != 200} == {
            ("torch", 50),  # what everything begins with
            ("onnxruntime", 50),
            ("openvino", 50),
            ("onnxruntime", 1000),
            ("openvino", 1000),
        }

    def test_a_slow_network_is_asked_in_small_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of fifty rows a block takes 0.2 s: nobody waits for two hundred."""
        told({("torch", 50, 4): 1000.0, ("folded", 50, 4): 800.0}, monkeypatch)
        found = calibrate(tiny(), NOISE, X, Engine(workers=4))
        assert {trial.block for trial in found.trials} == {50}
        assert (found.engine.runtime, found.engine.block) == ("onnxruntime", 50)

    def test_one_slow_measurement_does_not_decide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another program slows the fastest when it is first measured; by turns it shows what it can."""
        truth = {("onnxruntime", 200): 80.0}
        asked: Counter[tuple[str, int]] = Counter()

        def again(self: Bench, trial: Trial) -> Trial:
            key = trial.runtime, trial.block
            asked[key] += 1
            slowed = 1.5 if asked[key] in (1, 3) and key in truth else 1.0
            return replace(trial, times=(*trial.times, slowed * truth.get(key, 100.0)))

        monkeypatch.setattr(Bench, "again", again)
        found = calibrate(tiny(), NOISE, X, Engine(workers=2)).engine
        assert (found.runtime, found.block) == ("onnxruntime", 200)
        assert asked["onnxruntime", 200] == 4  # 120, 80, 120, 80
        assert asked["torch", 200] == 2

    def test_keeps_what_the_user_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told({("folded", 70, 3): 10.0}, monkeypatch)
        found = calibrate(tiny(), NOISE, X, Engine(block=70, workers=3, shared_noise=True)).engine
        assert (found.runtime, found.block, found.workers, found.shared_noise) == ("folded", 70, 3, True)

    def test_takes_fewer_workers_if_they_are_faster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
        told({("torch", 200, 4): 50.0}, monkeypatch)
        assert calibrate(tiny(), NOISE, X).engine.workers == 4

    def test_few_votes_are_not_worth_it(self) -> None:
        found = calibrate(tiny(), NOISE, X, votes=1_000)
        assert (found.engine, len(found.trials)) == (Engine(), 1)

    def test_a_missing_library_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(self: OnnxRuntime, device: torch.device) -> None:
            raise MissingExtra("pip install it")

        monkeypatch.setattr(OnnxRuntime, "check", missing)
        monkeypatch.setattr(calibration, "CANDIDATES", {"cpu": ("torch", "onnxruntime")})
        monkeypatch.setattr(calibration, "SECONDS", 0.01)
        found = calibrate(tiny(), NOISE, X, Engine(workers=1))
        assert [trial.problem for trial in found.trials if trial.runtime == "onnxruntime"] == ["pip install it"]
        assert found.engine.runtime == "torch"


def test_python_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"sc.calibrate\(model, noise, x\[0\]\).engine"):
        sc.Smoother(tiny(), NOISE, engine=Engine(runtime="auto"))


class TestARun:
    def settings(self, **more: Any) -> Settings:
        return read(Settings, {"noise.sigma": 0.25, "model.source": "unused", "engine.runtime": "auto", **more})

    @pytest.fixture
    def begun(self, tmp_path: Path) -> Path:
        engine = Engine(block=20, workers=1, runtime="folded")
        smoother = sc.Smoother(tiny(), NOISE, estimate=100, select=20, engine=engine)
        return sc.certify_all(smoother, load_digits(), tmp_path / "run", indices=[0])

    def test_goes_on_with_what_it_was_begun_with(self, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found, _ = choosing.with_runtime(self.settings(), load_digits(), [0], begun, {})
        assert (found.engine.runtime, found.engine.block) == ("folded:precision=float32", 20)
        assert "with which" in capsys.readouterr().err

    def test_says_so_where_it_cannot(self, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(*_: object) -> None:
            raise MissingExtra("pip install it")

        monkeypatch.setattr("smoothcert.runtimes.pytorch.Folded.check", missing)
        with pytest.raises(RunError, match="was begun with the runtime folded.*pip install it"):
            choosing.with_runtime(self.settings(), load_digits(), [0], begun, {})

    def test_keeps_the_calibration(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        built = sc.Smoother(tiny(), NOISE)
        monkeypatch.setattr(choosing, "smoother_of", lambda *_, **__: built)
        told(
            {("folded", 200, torch.get_num_threads()): 10.0, ("torch", 200, torch.get_num_threads()): 1e5}, monkeypatch
        )
        found, notes = choosing.with_runtime(self.settings(), load_digits(), list(range(9)), tmp_path / "new", {})
        assert found.engine.runtime == "folded"
        assert [trial["runtime"] for trial in notes["calibration"]["trials"]][:3] == ["torch", "torch", "onnxruntime"]


def test_what_it_measures_is_the_time_of_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that sleeps twenty milliseconds a call, in blocks of twenty: a thousand microseconds a vote and little more."""
    import time

    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.02)
            return x.flatten(1)[:, :10]

    monkeypatch.setattr(calibration, "SECONDS", 0.1)
    trial = Bench(as_classifier(Slow().eval()), NOISE, X).tried("torch", 20, 1)
    assert 1_000 <= trial.micros < 4_000


def test_shared_draws_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run, where many inputs follow each other with the same draws."""
    drawn: list[int] = []
    real = sc.Noise.draw_blocks

    def counted(self: sc.Noise, count: int, shape: tuple[int, ...], sources: Any) -> Tensor:
        drawn.extend([count] * len(sources))
        return real(self, count, shape, sources)

    monkeypatch.setattr(sc.Noise, "draw_blocks", counted)
    monkeypatch.setattr(calibration, "SECONDS", 0.02)
    bench = Bench(as_classifier(tiny()), NOISE, X, shared=True)
    bench.again(bench.tried("torch", 20, 1))
    assert len(drawn) <= 2 * MOST_SHARED
    drawn.clear()
    Bench(as_classifier(tiny()), NOISE, X).tried("torch", 20, 1)
    assert len(drawn) > 2 * MOST_SHARED
