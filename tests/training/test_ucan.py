"""Joint training of classifier and generator: the loss by hand, collapse, resume, and the files it writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from smoothcert.engine import Engine
from smoothcert.errors import ModelError, RunError, SettingError
from smoothcert.models import load_model, read_metadata, read_state
from smoothcert.noise import Noise
from smoothcert.smoother import Smoother
from smoothcert.training import (
    Batch,
    Learned,
    Noising,
    TrainSettings,
    UcanSettings,
    new_model,
    recipe_named,
    train,
    train_jointly,
)
from smoothcert.training.ucan import flat
from smoothcert.tuners import DatasetWise, PerInput
from smoothcert.tuners.generators import Generator
from smoothcert.tuners.ucan import load_maps, maps_of

SHAPE = (1, 8, 8)
ARCHITECTURE = {"name": "mlp", "shape": SHAPE, "classes": 3}
NOISE = Noise("gaussian", 0.3)
SETTINGS = UcanSettings(epochs=3, batch=32, learning_rate=3e-3, seed=7, weight=0.1, recipe="ucan:draws=2", width=4)


def bars(count: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images whose bright column says their label; the lower half is always the same."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, count)
    inputs = np.zeros((count, *SHAPE), dtype=np.uint8)
    for image, label in zip(inputs, labels, strict=True):
        image[:, :4, 2 * label : 2 * label + 3] = 230
    return inputs, labels


def run(out: Path, settings: UcanSettings = SETTINGS, noise: Noise = NOISE, **options: object) -> Path:
    model = new_model(ARCHITECTURE, settings.seed)
    return train_jointly(model, *bars(), settings, noise=noise, out=out, architecture=ARCHITECTURE, **options)  # type: ignore[arg-type]


def learned(weight: float = 0.7, objective: str = "volume", base: Noise = NOISE, **options: object) -> Learned:
    torch.manual_seed(0)
    design = replace(SETTINGS, **options).design(SHAPE)  # type: ignore[arg-type]
    return Learned(Generator(design), base, objective, weight)


class TestLoss:
    @pytest.mark.parametrize("objective", ["volume", "radius"])
    @pytest.mark.parametrize("generator", ["dataset", "per_input"])
    @pytest.mark.parametrize("shift", [False, True])
    def test_it_is_the_published_one(self, objective: str, generator: str, shift: bool) -> None:
        """Values and gradients, float64, against the loss written out draw by draw."""
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).double()
        noise = learned(objective=objective, generator=generator, shift=shift).double()
        x, y = torch.rand(5, *SHAPE, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
        weights = [*model.parameters(), *noise.parameters()]
        chance = torch.Generator().manual_seed(1)
        scale, loc = noise(x)
        batch = Batch(x, y, Noising(NOISE.law, scale, loc, chance))
        found = recipe_named("ucan:draws=3").loss(model, batch) + noise.penalty(scale, loc)
        got = torch.autograd.grad(found, weights)

        z = torch.randn(3, 5, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        unit = noise.scale
        factors, shifts = noise.generator(x, unit)
        total = torch.tensor(0.0, dtype=torch.float64)
        for draw in z:
            total = total + functional.cross_entropy(model(x + unit * shifts + unit * factors * draw), y)
            reward = torch.stack([f.min() for f in factors]).mean() if objective == "radius" else factors.mean()
            total = total - 0.7 * reward
        expected = torch.autograd.grad(total / 3, weights)
        torch.testing.assert_close(found, total / 3)
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)

    def test_learned_noise_is_the_noise_that_certifies(self) -> None:
        base = Noise("gaussian", 0.3, loc=0.1)
        noise = learned(generator="per_input", shift=True, base=base)
        x = torch.rand(4, *SHAPE)
        with torch.no_grad():
            scale, loc = noise(x)
        certifying = maps_of(noise.generator, x, base).on(base)
        torch.testing.assert_close(scale.double(), certifying.scale, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(loc.double(), certifying.loc, atol=1e-6, rtol=1e-5)


class TestTraining:
    @pytest.mark.parametrize(("generator", "tuner"), [("dataset", DatasetWise), ("per_input", PerInput)])
    def test_both_are_written_and_certify(
        self, tmp_path: Path, generator: str, tuner: type[DatasetWise] | type[PerInput]
    ) -> None:
        path = run(tmp_path, replace(SETTINGS, generator=generator, shift=True))
        model = load_model(path, shape=SHAPE, classes=3)
        metadata = read_metadata(tmp_path / "generator.safetensors")
        assert metadata["smoothcert.recipe"] == "ucan:draws=2"
        assert f'"generator": "{generator}"' in metadata["smoothcert.settings"]
        x = torch.from_numpy(bars(6, seed=1)[0]).float() / 255
        smoother = Smoother(
            model, NOISE, estimate=500, engine=Engine(block=100), tuner=tuner(tmp_path / "generator.safetensors")
        )
        certificates = smoother.certify(x)
        assert [c.label for c in certificates] == bars(6, seed=1)[1].tolist()
        assert all(c.proxy_radius > c.radius > 0 for c in certificates)

    def test_noise_goes_where_nothing_is(self, tmp_path: Path) -> None:
        """The lower half of the images says nothing, so the reward is collected there."""
        run(tmp_path, replace(SETTINGS, epochs=12))
        factors = DatasetWise(tmp_path / "generator.safetensors").learned.factors[0]
        assert factors[4:].mean() > 1.1 * factors[:4].mean()

    def test_killed_and_resumed_gives_the_same_files(self, tmp_path: Path) -> None:
        def stop(report: object) -> None:
            raise KeyboardInterrupt

        run(tmp_path / "whole")
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "broken", progress=stop)
        assert not (tmp_path / "broken/generator.safetensors").exists()
        run(tmp_path / "broken")
        for name in ("model.safetensors", "generator.safetensors"):
            whole, broken = tmp_path / "whole" / name, tmp_path / "broken" / name
            assert read_metadata(whole) == read_metadata(broken)
            one, other = read_state(whole), read_state(broken)
            assert one.keys() == other.keys()
            assert all(torch.equal(one[key], other[key]) for key in one)
        with pytest.raises(RunError, match=r"weight was 0\.1, is 0\.2"):
            run(tmp_path / "broken", replace(SETTINGS, weight=0.2))

    def test_the_best_epoch_keeps_its_own_generator(self, tmp_path: Path) -> None:
        """The validation labels are wrong, so the first epoch, which has learned least, stays the best."""
        inputs, labels = bars(60, seed=2)
        run(tmp_path, replace(SETTINGS, epochs=6), validation=(inputs, (labels + 1) % 3))
        best = read_metadata(tmp_path / "best.safetensors")["smoothcert.epoch"]
        assert best != "6"
        assert read_metadata(tmp_path / "best-generator.safetensors")["smoothcert.epoch"] == best
        assert read_metadata(tmp_path / "generator.safetensors")["smoothcert.epoch"] == "6"
        one, other = (load_maps(tmp_path / name) for name in ("generator.safetensors", "best-generator.safetensors"))
        assert not np.array_equal(one.factors, other.factors)

    def test_a_learned_generator_serves_any_recipe(self, tmp_path: Path) -> None:
        run(tmp_path / "first", replace(SETTINGS, generator="per_input"))
        frozen = PerInput(tmp_path / "first/generator.safetensors").network
        before = [value.clone() for value in frozen.parameters()]

        def under(generator: Learned) -> None:
            model, settings = new_model(ARCHITECTURE, 0), TrainSettings(epochs=2, batch=32)
            given = {"noise": NOISE, "out": tmp_path / "second", "architecture": ARCHITECTURE}
            train(model, *bars(), settings, generator=generator, **given)  # type: ignore[arg-type]

        under(Learned(frozen, NOISE))
        assert all(torch.equal(a, b) for a, b in zip(before, frozen.parameters(), strict=True))
        assert "shaped by generator" in read_metadata(tmp_path / "second/model.safetensors")["smoothcert.noise"]
        with pytest.raises(RunError, match=r"noise was .*, is .*shaped by generator"):
            under(learned(generator="per_input").requires_grad_(False))
        assert (
            read_state(tmp_path / "second/model.safetensors").keys() == new_model(ARCHITECTURE, 0).state_dict().keys()
        )


class TestCollapse:
    @pytest.mark.parametrize("generator", ["dataset", "per_input"])
    def test_without_a_reward_the_noise_goes_to_nothing(self, tmp_path: Path, generator: str) -> None:
        """Cross-entropy alone is lowest without noise: the loss that provokes the collapse."""
        settings = replace(SETTINGS, generator=generator, weight=0.0, epochs=30, learning_rate=0.01)
        with pytest.raises(ModelError, match=r"collapsed: the factors.*least=0\.1.*larger weight than 0"):
            run(tmp_path, settings, noise=Noise("gaussian", 3.0))
        assert not (tmp_path / "generator.safetensors").exists()
        with pytest.raises(ModelError, match="collapsed"):  # nor does the same command get past it
            run(tmp_path, settings, noise=Noise("gaussian", 3.0))

    def test_too_much_reward_gives_the_same_to_every_coordinate(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match="isotropic: every factor on the scale is about 3.*smaller weight"):
            run(tmp_path, replace(SETTINGS, weight=1e3, epochs=8, learning_rate=0.02))

    def test_the_same_map_for_every_input_is_noticed(self) -> None:
        draws = torch.Generator().manual_seed(0)
        one = 1 + torch.rand(1, 64, generator=draws)
        assert "every input the same map" in str(flat(one.repeat(9, 1), 3.0))
        assert re.search("isotropic.*train longer", str(flat(torch.full((9, 64), 1.3), 3.0)))
        assert flat(one, 3.0) is None
        assert flat(1 + torch.rand(9, 64, generator=draws), 3.0) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "size"}, "objective must be one of volume, radius"),
        ({"generator": "per_inpt"}, "one of dataset, per_input"),
        ({"weight": -1.0}, "weight=-1 "),
    ],
)
def test_settings_that_cannot_be(options: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        replace(SETTINGS, **options)  # type: ignore[arg-type]
