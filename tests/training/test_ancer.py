"""One map for a data set by ANCER: its optimum, what it remembers, the label of each certificate, its file, and its training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm as normal
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.errors import ModelError, RunError, SettingError, WeightsError
from smoothcert.maths.boxed import Box
from smoothcert.maths.intervals import lower_bound
from smoothcert.models import load_model, read_metadata, read_state, save_weights
from smoothcert.noise import Noise
from smoothcert.smoother import Smoother
from smoothcert.store.in_memory import InMemoryStore
from smoothcert.training import AncerMap, TrainSettings, UcanSettings, new_model, train_jointly, train_on_map
from smoothcert.training.batches import fingerprints
from smoothcert.tuners.gap import Gap
from smoothcert.tuners.maps import Maps
from smoothcert.tuners.ucan import KEY, DatasetWise, load_maps, save_maps

SHAPE = (1, 6, 6)
NOISE = Noise("gaussian", 0.25, grid=1 / 255)
QUICK = AncerMap(steps=5, batch=4, draws=4)
SETTINGS = TrainSettings("gaussian", epochs=2, batch=16)
ARCHITECTURE = {"name": "mlp:width=16,depth=1", "shape": SHAPE, "classes": 3}


def pictures(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unlike pictures on the pixel grid, in which a bright column says the label."""
    draws = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    inputs = draws.integers(0, 60, (count, *SHAPE), dtype=np.uint8)
    for image, label in zip(inputs, labels, strict=True):
        image[:, :, 2 * label : 2 * label + 2] += 190
    return inputs, labels


class Columns(nn.Module):
    """The brightest pair of columns wins."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0].sum(1).unflatten(1, (3, 2)).sum(2)


def as_floats(inputs: np.ndarray) -> Tensor:
    return torch.from_numpy(inputs.astype(np.float32) / np.float32(255))


def labels_of(tuner: DatasetWise, x: Tensor, noise: Noise = NOISE, first_index: int = 0) -> list[str]:
    smoother = Smoother(Columns().eval(), noise, estimate=100, select=20, tuner=tuner)
    return [certificate.soundness.value for certificate in smoother.certify(x, first_index)]


def best_factors(weight: np.ndarray, kappa: float, most: float) -> np.ndarray:
    """Where (1 + 1/κ)·log(1/‖s·w‖) + mean(log s)/κ is largest for 1 <= s <= most, by its stationary points alone.

    A coordinate between the bounds has (s·w)² = ‖s·w‖²/(d(1 + κ)), the same for all of them.
    """

    def at(level: float) -> np.ndarray:
        return np.asarray(np.clip(math.exp(level) / np.abs(weight), 1.0, most))

    def excess(level: float) -> float:
        return 2 * level - math.log(np.sum((at(level) * weight) ** 2) / (len(weight) * (1 + kappa)))

    return at(brentq(excess, -20, 20))


class TestFit:
    @pytest.mark.parametrize(("kappa", "most"), [(0.5, 4.0), (3.0, 2.0)])
    def test_it_finds_the_optimum_of_a_linear_classifier(self, kappa: float, most: float) -> None:
        """Margins of a plane are Gaussian, so the objective is known; the ascent draws 120 × 8 × 64 copies (fixed seed)."""
        weight = np.linspace(0.3, 2.0, 12)
        plane = nn.Linear(12, 2, bias=False)
        plane.weight.data = torch.from_numpy(np.stack([-weight, weight]) / 2).float()
        labels = np.arange(40) % 2
        x = np.outer(2 * labels - 1, weight).astype(np.float32) * np.float32(0.6)
        fitting = AncerMap(steps=120, batch=8, draws=64, kappa=kappa, most=most)
        found = fitting.fit(plane, x, labels, Noise("gaussian", 1.5)).factors
        expected = best_factors(weight, kappa, most)
        assert expected.max() > 1.5 * expected.min()
        assert np.abs(found / expected - 1).max() < 0.08

    def test_the_worth_of_margins(self) -> None:
        """Radius at Φ(mean/deviation), capped by the votes; wrong inputs count twice what they are wrong by."""
        margins = np.random.default_rng(0).normal([4.0, 1.0, -2.0, 90.0], 1.0, (50, 4))
        lead = margins.mean(0) / margins.std(0, ddof=1)
        cap = normal.ppf(float(lower_bound(1000, 1000, 0.001)))
        expected = np.clip(lead, normal.ppf(0.51), cap) + 2 * np.minimum(lead, 0)
        gap = Gap.of(NOISE.law, 2, 36)
        found = AncerMap(votes=1000)._worth(torch.from_numpy(margins), gap).numpy()
        assert found == pytest.approx(expected)
        assert expected[3] == cap
        assert expected[2] < -3

    def test_noise_goes_where_nothing_is(self) -> None:
        """A network that reads the upper half alone gets noise in the lower one, and the inner radius is kept."""

        class Upper(Columns):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x[:, :, :3])

        factors = AncerMap(steps=60, batch=16).fit(Upper(), *pictures(60), NOISE).factors[0]
        assert factors[3:].min() > 3.5
        assert factors.max() < 4 + 1e-5
        assert factors[:3].mean() < 2
        assert factors.min() >= 1

    def test_the_same_settings_give_the_same_map_and_leave_the_network_alone(self) -> None:
        model = nn.Sequential(Columns(), nn.Linear(3, 3)).train()
        model[1].weight.data = torch.eye(3)
        before, loud = [value.clone() for value in model.parameters()], Noise("gaussian", 1.0)
        one, other = (QUICK.fit(model, *pictures(30), loud, seed=4) for _ in range(2))
        assert np.array_equal(one.factors, other.factors)
        assert one.fitted == other.fitted
        assert model.training
        assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, model.parameters(), strict=True))
        assert not np.array_equal(one.factors, QUICK.fit(model, *pictures(30), loud, seed=5).factors)

    def test_it_remembers_the_inputs_that_it_saw_and_no_others(self) -> None:
        inputs, labels = pictures(30)
        assert len(QUICK.fit(Columns(), inputs, labels, NOISE).fitted) == 20, "5 steps of 4 inputs, each once"
        everyone = fingerprints(inputs)
        assert replace(QUICK, steps=50).fit(Columns(), inputs, labels, NOISE).fitted == everyone
        assert fingerprints(as_floats(inputs).numpy()) == everyone, "bytes and floats are the same inputs"

    def test_what_cannot_be_fitted(self) -> None:
        inputs, labels = pictures(12)
        with pytest.raises(ModelError, match=r"right on 0 of the first 4 training inputs.*give its weights"):
            QUICK.fit(Columns(), inputs, (labels + 1) % 3, NOISE)
        with pytest.raises(ModelError, match="no gradient"):
            QUICK.fit(nn.Sequential(Columns(), Detached()), inputs, labels, NOISE)
        with pytest.raises(SettingError, match="no theorem"):
            QUICK.fit(Columns(), inputs, labels, Noise("cauchy", 0.1))
        with pytest.raises(SettingError, match="most must be a finite number above 1"):
            AncerMap(most=1.0)


class Detached(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


@pytest.fixture(scope="module")
def fitted() -> DatasetWise:
    """A map that was fitted with the first 20 pictures."""
    inputs, labels = pictures(20)
    return DatasetWise(replace(QUICK, steps=10).fit(Columns(), inputs, labels, NOISE))


class TestLabel:
    """global at inputs that the map has not seen, frozen at those that it was fitted with, however they come."""

    def test_unseen_inputs(self, fitted: DatasetWise) -> None:
        x = as_floats(pictures(4, seed=1)[0])
        assert labels_of(fitted, x) == ["global"] * 4
        assert labels_of(fitted, x, Noise("gaussian", 0.5)) == ["global"] * 4

    def test_overlap_at_other_indices(self, fitted: DatasetWise) -> None:
        seen, unseen = (as_floats(pictures(20, seed)[0]) for seed in (0, 1))
        mixed = torch.cat([unseen[:1], seen[7:8], unseen[1:2], seen[19:]])
        assert labels_of(fitted, mixed, first_index=1000) == ["global", "frozen", "global", "frozen"]

    def test_the_same_pixels_written_otherwise(self, fitted: DatasetWise) -> None:
        """Under noise on the grid two inputs that round to the same pixels are one input."""
        moved = as_floats(pictures(2)[0]) * (1 + 1e-6)
        assert labels_of(fitted, moved) == ["frozen"] * 2

    def test_a_run_over_a_data_set(self, fitted: DatasetWise) -> None:
        inputs = np.concatenate([pictures(2)[0], pictures(2, seed=1)[0]])
        smoother = Smoother(Columns().eval(), NOISE, estimate=100, select=20, tuner=fitted)
        store = sc.certify_all(smoother, (inputs, np.arange(4) % 3), InMemoryStore())
        found = {record.index: record.soundness.value for record in store.records()}
        assert found == {0: "frozen", 1: "frozen", 2: "global", 3: "global"}

    def test_one_input_as_a_server_asks(self, fitted: DatasetWise) -> None:
        smoother = Smoother(Columns().eval(), NOISE, estimate=100, select=20, tuner=fitted)
        for seed, label in ((0, "frozen"), (1, "global")):
            job, poll = smoother.inquiry.begin(as_floats(pictures(1, seed)[0])[0], 5)
            list(smoother.driver.run([job]))
            assert poll(None).soundness.value == label

    def test_behind_a_front_the_numbers_are_told(self) -> None:
        front = sc.Front(np.eye(36)[:30], shape=SHAPE, box=Box(0, 1))
        seen, labels = pictures(12)
        numbers = front.encode(as_floats(seen).numpy())
        pad = nn.ConstantPad1d((0, 6), 0.0)
        model = nn.Sequential(pad, nn.Unflatten(1, SHAPE), Columns()).eval()
        tuner = DatasetWise(replace(QUICK, steps=3).fit(model, numbers, labels, Noise("gaussian", 0.25)))
        smoother = Smoother(model, Noise("gaussian", 0.25), estimate=100, select=20, tuner=tuner, front=front)
        x = as_floats(np.concatenate([seen, pictures(3, seed=1)[0]]))
        assert [c.soundness.value for c in smoother.certify(x)] == ["frozen"] * 12 + ["global"] * 3

    def test_a_generator_that_learned_with_the_input(self, tmp_path: Path) -> None:
        """UCAN's data-set-wise map, too: of the training inputs, and of those that chose the best epoch."""
        settings = UcanSettings(epochs=1, batch=16, recipe="ucan:draws=1")
        given = {"noise": NOISE, "out": tmp_path, "architecture": ARCHITECTURE}
        with pytest.warns(UserWarning, match="isotropic"):
            train_jointly(new_model(ARCHITECTURE, 0), *pictures(9), settings, validation=pictures(3, seed=2), **given)  # type: ignore[arg-type]
        x = as_floats(np.concatenate([pictures(1, seed=seed)[0] for seed in (0, 1, 2)]))
        for name in ("generator.safetensors", "best-generator.safetensors"):
            assert labels_of(DatasetWise(tmp_path / name), x) == ["frozen", "global", "frozen"]

    def test_it_is_part_of_the_tuner(self, fitted: DatasetWise) -> None:
        """A run is not continued with a map that forgot what it saw."""
        forgetful = DatasetWise(replace(fitted.learned, fitted=frozenset()))
        assert sc.identity.described(forgetful) != sc.identity.described(fitted)


class TestFile:
    def written(self, folder: Path, maps: Maps) -> Path:
        save_maps(folder / "map.safetensors", maps, QUICK.design(SHAPE), {"note": "made here"})
        return folder / "map.safetensors"

    def test_it_comes_back(self, tmp_path: Path, fitted: DatasetWise) -> None:
        found = load_maps(self.written(tmp_path, fitted.learned))
        assert np.array_equal(found.factors, fitted.learned.factors)
        assert found.fitted == fitted.learned.fitted
        assert max(found.fitted) > 2**63, "a fingerprint above what a signed number holds"
        assert read_metadata(tmp_path / "map.safetensors")["note"] == "made here"

    @pytest.mark.parametrize(
        "edit", ["forget all", "forget one", "another input", "factors", "shifts", "no list", "no hash"]
    )
    def test_edited_by_hand_it_is_refused(self, tmp_path: Path, fitted: DatasetWise, edit: str) -> None:
        path = self.written(tmp_path, fitted.learned)
        state, metadata = read_state(path), read_metadata(path)
        if edit == "forget all":
            state["fitted"] = state["fitted"][:0]
        elif edit == "forget one":
            state["fitted"] = state["fitted"][1:]
        elif edit == "another input":
            state["fitted"][3] += 1
        elif edit == "no list":
            del state["fitted"]
        elif edit == "no hash":
            del metadata["smoothcert.map_hash"]
        else:
            state[edit][0, 2, 2] += 0.01
        content = nn.Module()
        for name, value in state.items():
            content.register_buffer(name, value)
        save_weights(path, content, metadata)
        words = "inputs that they were fitted with" if edit == "no list" else "was changed after it was written"
        with pytest.raises(WeightsError, match=words):
            DatasetWise(path)


class TestTraining:
    def run(self, out: Path, fitting: AncerMap = QUICK, settings: TrainSettings = SETTINGS, **options: object) -> Path:
        """From a network that was trained a little, which is told apart by start, as the command does."""
        torch.manual_seed(0)
        model = new_model(ARCHITECTURE, 0)
        model[1].weight.data *= 0
        model[1].weight.data[:3] = torch.eye(3).repeat_interleave(2, 1).repeat(1, 6)
        model[3].weight.data *= 0
        model[3].weight.data[:, :3] = torch.eye(3)
        given = {"fitting": fitting, "noise": NOISE, "out": out, "architecture": ARCHITECTURE, **options}
        return train_on_map(model, *pictures(48), settings, **given)  # type: ignore[arg-type]

    def test_the_network_learns_under_the_map_and_certifies(self, tmp_path: Path) -> None:
        path = self.run(tmp_path, validation=pictures(6, seed=2))
        tuner = DatasetWise(tmp_path / "generator.safetensors")
        stretched = tuner.learned.on(NOISE).scale
        assert "of shape (1, 6, 6)" in read_metadata(path)["smoothcert.noise"]
        assert float(stretched.max()) > float(stretched.min()) >= 0.25
        for name in ("", "best-"):
            epochs = [read_metadata(tmp_path / f"{name}generator.safetensors")["smoothcert.epoch"]]
            epochs += [
                read_metadata(tmp_path / ("best.safetensors" if name else "model.safetensors"))["smoothcert.epoch"]
            ]
            assert len(set(epochs)) == 1
        model = load_model(path, shape=SHAPE, classes=3)
        certificates = Smoother(model, NOISE, estimate=500, tuner=tuner).certify(as_floats(pictures(3, seed=1)[0]))
        assert [certificate.label for certificate in certificates] == [0, 1, 2]
        assert all(c.soundness == "global" and c.proxy_radius > c.radius > 0 for c in certificates)

    def test_killed_and_resumed_gives_the_same_files(self, tmp_path: Path) -> None:
        def stop(report: object) -> None:
            raise KeyboardInterrupt

        self.run(tmp_path / "whole")
        with pytest.raises(KeyboardInterrupt):
            self.run(tmp_path / "broken", progress=stop)
        assert (tmp_path / "broken/generator.safetensors").exists()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AncerMap, "fit", None)  # what was fitted is not fitted again
            self.run(tmp_path / "broken")
        for name in ("model.safetensors", "generator.safetensors"):
            whole, broken = tmp_path / "whole" / name, tmp_path / "broken" / name
            assert read_metadata(whole) == read_metadata(broken)
            assert all(torch.equal(value, read_state(broken)[key]) for key, value in read_state(whole).items())

    def test_another_map_is_not_taken_for_this_one(self, tmp_path: Path) -> None:
        self.run(tmp_path)
        others = [{"fitting": replace(QUICK, kappa=2.0)}, {"settings": replace(SETTINGS, start="weights 1234")}]
        for other in [*others, {"settings": replace(SETTINGS, seed=1)}]:
            with pytest.raises(RunError, match="asked for is ancer.*give another --out"):
                self.run(tmp_path, **other)  # type: ignore[arg-type]
        path = tmp_path / "generator.safetensors"
        maps, design = load_maps(path), QUICK.design(SHAPE)
        save_maps(path, maps, design, {})
        with pytest.raises(RunError, match="is of a generator that learned"):
            self.run(tmp_path)
        assert KEY in read_metadata(path)
