"""UCAN's noise: patterns, learned maps and generators; their labels, their files, their soundness, their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.certificates import Soundness
from smoothcert.engine import Engine
from smoothcert.errors import RunError, SettingError, WeightsError
from smoothcert.identity import described
from smoothcert.memory.memory import Memory
from smoothcert.models import read_metadata, read_state, save_weights
from smoothcert.noise import Noise
from smoothcert.regions import Region
from smoothcert.run import certify_all
from smoothcert.smoother import Smoother
from smoothcert.testing.problems import HalfSpace
from smoothcert.training.ucan import UcanSettings
from smoothcert.tuners import DatasetWise, Pattern, PerInput, Tuner
from smoothcert.tuners.generators import Design, Generator
from smoothcert.tuners.maps import Maps
from smoothcert.tuners.pattern import radial
from smoothcert.tuners.ucan import kind_of, load_generator, load_maps, maps_of, save_generator

SHAPE = (2, 6, 6)
BASE = Noise("gaussian", 0.5)
LOW = 9  # a coordinate with little noise


def design(kind: str, shape: tuple[int, ...] = SHAPE, **options: Any) -> Design:
    """A generator's design, as training makes it."""
    return UcanSettings(generator=kind, **options).design(shape)


def images(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def fresh(kind: str, seed: int = 0, **options: object) -> Generator:
    """A generator with weights far from their first ones."""
    torch.manual_seed(seed)
    generator = Generator(design(kind, **options))
    for weight in generator.parameters():
        nn.init.normal_(weight, std=0.5)
    return generator


def saved(folder: Path, kind: str, **options: object) -> Path:
    save_generator(folder / f"{kind}.safetensors", fresh(kind, **options), BASE, {"note": "made here"})
    return folder / f"{kind}.safetensors"


@pytest.fixture
def tuners(tmp_path: Path) -> dict[str, Tuner]:
    return {
        "pattern": Pattern("l2"),
        "dataset": DatasetWise(saved(tmp_path, "dataset", shift=True)),
        "per_input": PerInput(saved(tmp_path, "per_input", shift=True, width=4)),
    }


class TestPattern:
    @pytest.mark.parametrize(("name", "norm"), [("l1", 1), ("l2", 2), ("linf", math.inf)])
    @pytest.mark.parametrize("size", [(5, 5), (4, 7), (1, 3)])
    def test_the_formula(self, name: str, norm: float, size: tuple[int, int]) -> None:
        """κ‖(a, b)‖² + ι, pixel by pixel, in plain Python."""
        found = Pattern(name, kappa=0.7, iota=0.3).maps((2, *size)).factors
        for i in range(size[0]):
            for j in range(size[1]):
                a = 0.0 if size[0] == 1 else 2 * i / (size[0] - 1) - 1
                b = 0.0 if size[1] == 1 else 2 * j / (size[1] - 1) - 1
                length = {1: abs(a) + abs(b), 2: math.hypot(a, b), math.inf: max(abs(a), abs(b))}[norm]
                assert found[:, i, j] == pytest.approx(0.7 * length**2 + 0.3)

    def test_the_published_numbers(self) -> None:
        """κ = .2, ι = .8: .8 in the centre, and at a corner .8 + .2·{4, 2, 1}."""
        for name, corner in (("l1", 1.6), ("l2", 1.2), ("linf", 1.0)):
            factors = Pattern(name).maps((1, 7, 7)).factors
            assert factors[0, 3, 3] == pytest.approx(0.8)
            assert factors[0, 0, 0] == pytest.approx(corner)

    def test_an_array_an_npy_file_and_a_picture(self, tmp_path: Path) -> None:
        image = pytest.importorskip("PIL.Image", reason="Pillow reads pictures; it is not installed")
        own = np.linspace(0.5, 2.0, 36).reshape(6, 6)
        np.save(tmp_path / "own.npy", own)
        brightness = np.arange(36).reshape(6, 6) * 7.0
        image.fromarray(brightness.astype(np.uint8)).save(tmp_path / "own.png")
        for pattern in (own, tmp_path / "own.npy", str(tmp_path / "own.npy")):
            assert np.array_equal(Pattern(pattern).maps(SHAPE).factors, np.broadcast_to(own, SHAPE))
        seen = Pattern(tmp_path / "own.png", kappa=2, iota=0.5).maps(SHAPE).factors
        assert seen[1] == pytest.approx(0.5 + 2 * brightness / 255)

    def test_two_patterns_have_two_names(self) -> None:
        arrays = [Pattern(array) for array in (np.ones(4), np.ones(5), np.full(5, 1.5))]
        patterns = [Pattern("l1"), Pattern("l2"), Pattern("l2", kappa=0.3), Pattern("l2", iota=0.9), *arrays]
        assert len({described(pattern) for pattern in patterns}) == len(patterns)

    @pytest.mark.parametrize(
        ("pattern", "words"),
        [
            ({"source": "l3"}, "no pattern and no file 'l3'; allowed: l1, l2 or linf"),
            ({"source": "l1", "kappa": -0.3}, "these go from -0.4 to 0.8"),
            ({"source": np.empty(0)}, "empty array"),
            ({"source": "l2", "iota": 0.0}, "finite number above 0; these go from 0 to 0.4"),
            ({"source": "l2", "kappa": -1.0}, "these go from -1.2"),
            ({"source": np.array([1.0, 0.0])}, "finite number above 0"),
            ({"source": np.array([1.0, math.nan])}, "finite number above 0"),
        ],
    )
    def test_what_cannot_be_a_pattern(self, pattern: dict[str, Any], words: str) -> None:
        with pytest.raises(SettingError, match=words):
            Pattern(**pattern)

    def test_a_pattern_of_another_size(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"shape \(5, 5\) and the inputs \(2, 6, 6\)"):
            Pattern(np.ones((5, 5))).maps(SHAPE)
        with pytest.raises(SettingError, match=r"for images.*shape \(12,\)"):
            radial((12,), 2)
        (tmp_path / "own.png").write_bytes(b"no picture")
        with pytest.raises(SettingError, match="cannot be read as a picture"):
            Pattern(tmp_path / "own.png")


class TestGenerator:
    @pytest.mark.parametrize("kind", ["dataset", "per_input"])
    @pytest.mark.parametrize("shift", [False, True])
    @pytest.mark.parametrize("wild", [0.01, 1.0, 100.0])
    def test_factors_are_positive_and_bounded(self, kind: str, shift: bool, wild: float) -> None:
        generator = fresh(kind, least=0.2, most=1.7, shift=shift, width=4)
        for weight in generator.parameters():
            weight.data.mul_(wild)
        with torch.no_grad():
            factors, shifts = generator(images(9) * wild, torch.tensor(0.5))
        assert factors.shape == (9 if kind == "per_input" else 1, *SHAPE)
        assert float(factors.min()) + 1e-6 >= 0.2
        assert float(factors.max()) <= 1.7 + 1e-6
        assert float(shifts.abs().max()) <= 1 if shift else not shifts.any()

    @pytest.mark.parametrize("kind", ["dataset", "per_input"])
    def test_it_starts_near_the_noise_it_was_given(self, kind: str) -> None:
        torch.manual_seed(0)
        with torch.no_grad():
            factors, _ = Generator(design(kind))(images(5), torch.tensor(0.5))
        assert float((factors - 1).abs().max()) < 0.2

    def test_the_published_sizes(self) -> None:
        """Dataset-wise 1-128-256-512-1024-d; certification-wise c→16, five convolutions of growth 16, 16→c."""
        linear = [m for m in Generator(design("dataset", shape=(1, 28, 28))).modules() if isinstance(m, nn.Linear)]
        assert [layer.out_features for layer in linear] == [128, 256, 512, 1024, 784]
        convolutions = [
            m for m in Generator(design("per_input", shape=(3, 32, 32))).modules() if isinstance(m, nn.Conv2d)
        ]
        found = [(layer.in_channels, layer.out_channels, layer.kernel_size) for layer in convolutions]
        assert found == [
            (before, after, (3, 3)) for before, after in zip((3, 16, 32, 48, 64, 80, 16), (*[16] * 6, 3), strict=True)
        ]

    def test_factors_see_the_shifted_input(self) -> None:
        """σ is G2 of x + μ: without the shift in its input the factors would be others."""
        generator = fresh("per_input", shift=True, width=4)
        x, scale = images(3), torch.tensor(0.5)
        factors, shifts = generator(x, scale)
        first, gain = math.atanh(2 * 0.9 / 2.9 - 1), 10 / (9 * 4)

        def by_hand(seen: Tensor) -> Tensor:
            return 0.1 + 2.9 * (1 + (first + gain * generator.factor(seen)).tanh()) / 2

        torch.testing.assert_close(factors, by_hand(x + shifts * scale))
        assert not torch.allclose(factors, by_hand(x), atol=1e-3)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"kind": "certification"}, "known: dataset, per_input"),
            ({"least": 0.0}, "0 < least < most"),
            ({"least": 2.0, "most": 1.0}, "0 < least < most"),
            ({"width": 0}, "width=0"),
            ({"kind": "per_input", "shape": (12,)}, "reads images"),
            ({"shape": ()}, "positive sizes"),
        ],
    )
    def test_designs_that_cannot_be(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(SettingError, match=words):
            Design(
                **{"kind": "dataset", "shape": SHAPE, "least": 0.1, "most": 3.0, "shift": False, "width": 16} | options
            )  # type: ignore[arg-type]


class TestFiles:
    def test_a_dataset_wise_map_comes_back(self, tmp_path: Path) -> None:
        generator = fresh("dataset", shift=True)
        save_generator(tmp_path / "g.safetensors", generator, BASE, {"note": "made here"})
        expected = maps_of(generator, torch.zeros(1, *SHAPE), BASE)
        found = load_maps(tmp_path / "g.safetensors")
        assert np.array_equal(found.factors, expected.factors[0])
        assert np.array_equal(found.shifts, np.asarray(expected.shifts)[0])
        assert np.any(found.shifts)
        assert set(read_state(tmp_path / "g.safetensors")) == {"factors", "shifts", "fitted"}  # evaluated once
        assert read_metadata(tmp_path / "g.safetensors")["note"] == "made here"

    @pytest.mark.parametrize("shift", [False, True])
    def test_a_certification_wise_generator_comes_back(self, tmp_path: Path, shift: bool) -> None:
        generator = fresh("per_input", shift=shift, least=0.3, most=2.0, width=4)
        save_generator(tmp_path / "g.safetensors", generator, BASE, {})
        found = load_generator(tmp_path / "g.safetensors")
        assert found.design == generator.design
        for a, b in zip(generator(images(4), torch.tensor(0.5)), found(images(4), torch.tensor(0.5)), strict=True):
            assert torch.equal(a, b)

    def test_the_wrong_file_is_explained(self, tmp_path: Path) -> None:
        dataset, own = saved(tmp_path, "dataset"), saved(tmp_path, "per_input")
        assert (kind_of(dataset), kind_of(own)) == ("dataset", "per_input")
        with pytest.raises(
            SettingError, match="holds a per_input generator, and dataset was asked.*--method per_input"
        ):
            DatasetWise(own)
        with pytest.raises(SettingError, match="holds a dataset generator, and per_input was asked"):
            PerInput(dataset)
        save_weights(tmp_path / "model.safetensors", nn.Linear(2, 2), {})
        with pytest.raises(WeightsError, match="records no generator"):
            PerInput(tmp_path / "model.safetensors")
        with pytest.raises(WeightsError, match="does not exist"):
            DatasetWise(tmp_path / "none.safetensors")

    def test_factors_outside_their_bounds_are_refused(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "dataset")
        state, metadata = read_state(path), read_metadata(path)
        content = nn.Module()
        for name, value in state.items():
            content.register_buffer(name, value)
        content.factors[0, 0, 0] = 1e-9
        save_weights(path, content, metadata)
        with pytest.raises(WeightsError, match=r"outside 0\.1 to 3"):
            DatasetWise(path)

    def test_a_damaged_design_is_refused(self, tmp_path: Path) -> None:
        for text in ("{", "[]", '{"kind": "dataset"}', '{"kind": "dataset", "shape": [2], "code": "run me"}'):
            save_weights(tmp_path / "g.safetensors", nn.Linear(2, 2), {"smoothcert.generator": text})
            with pytest.raises(WeightsError, match="cannot be read"):
                PerInput(tmp_path / "g.safetensors")


def linear(x: Tensor) -> Tensor:
    score = (x.flatten(1) - 0.5).sum(dim=1) + 2
    return torch.stack([-score, score], dim=1)


class TestCertify:
    @pytest.mark.parametrize(
        ("method", "label", "settled"),
        [
            ("pattern", Soundness.GLOBAL, Soundness.GLOBAL),
            ("dataset", Soundness.GLOBAL, Soundness.GLOBAL),
            ("per_input", Soundness.FROZEN, Soundness.MEMORY),
        ],
    )
    def test_the_label_of_each_method(
        self, tuners: dict[str, Tuner], method: str, label: Soundness, settled: Soundness
    ) -> None:
        smoother = Smoother(linear, BASE, estimate=500, tuner=tuners[method])
        memory = Memory()
        for index, certificate in enumerate(smoother.certify(images(3))):
            assert certificate.soundness is label
            assert certificate.region is not None
            assert certificate.region.full_scale.shape == SHAPE
            assert certificate.proxy_radius > certificate.radius > 0
            assert memory.settle(certificate, index=index).soundness is settled

    @pytest.mark.parametrize("law", ["gaussian", "laplace", "uniform"])
    def test_any_law_is_stretched_and_shifted(self, tuners: dict[str, Tuner], law: str) -> None:
        start = Noise(law, 0.5, loc=0.1, grid=1 / 255)
        smoother = Smoother(linear, start)
        for tuner in tuners.values():
            noise = tuner.choose(smoother, images(2), start, range(2))
            assert str(noise.law) == law
            assert noise.grid == start.grid
            assert float(noise.scale.min()) > 0
            assert noise.scale.shape[-3:] == SHAPE

    def test_each_input_gets_its_own_noise_whatever_the_batch(self, tuners: dict[str, Tuner]) -> None:
        smoother, x = Smoother(linear, BASE), images(5)
        together = tuners["per_input"].choose(smoother, x, BASE, range(5))
        for at in range(5):
            alone = tuners["per_input"].choose(smoother, x[at : at + 1], BASE, [at])
            assert torch.equal(together.scale[at], alone.scale[0])
            assert torch.equal(together.loc[at], alone.loc[0])
        assert float(together.scale.std(dim=0).max()) > 1e-3

    def test_records_do_not_depend_on_rows(self, tmp_path: Path, tuners: dict[str, Tuner]) -> None:
        from smoothcert.data import ArrayDataset
        from smoothcert.store import open_run

        values = np.random.default_rng(0).integers(0, 256, (5, *SHAPE), dtype=np.uint8)
        dataset = ArrayDataset("toy", values, np.ones(5, dtype=np.int64), classes=2)
        noise = Noise("gaussian", 0.5, grid=1 / 255)
        rows: dict[str, list[list[str]]] = {}
        for name, tuner in tuners.items():
            for size in (1, 5):
                smoother = Smoother(linear, noise, estimate=400, engine=Engine(block=100), tuner=tuner)
                certify_all(smoother, dataset, tmp_path / f"{name}{size}", rows=size)
                with open_run(tmp_path / f"{name}{size}") as store:
                    rows.setdefault(name, []).append([record.to_json() for record in store.records()])
        assert all(first == second for first, second in rows.values())
        other = Smoother(linear, noise, estimate=400, engine=Engine(block=100), tuner=Pattern("l1"))
        with pytest.raises(RunError, match="tuner: pattern"):
            certify_all(other, dataset, tmp_path / "pattern1")

    def test_inputs_of_another_shape_are_refused(self, tuners: dict[str, Tuner]) -> None:
        smoother = Smoother(linear, BASE, tuner=tuners["dataset"])
        with pytest.raises(SettingError, match=r"for inputs of shape \(2, 6, 6\); got \(1, 4, 4\)"):
            smoother.certify(torch.rand(1, 1, 4, 4))


class TestSoundness:
    """A linear classifier's label flips exactly at a plane; the region may come close and may not reach over it.

    100 inputs, 20 000 votes, alpha = 0.001: more than 2 violations have probability 1.5e-4 if every step is right.
    """

    INPUTS, VOTES, ALLOWED = 100, 20_000, 2

    def certified(self, tuner: Tuner, norm: float, law: str, weight: Tensor) -> tuple[list[Region], Tensor, Tensor]:
        """The regions, the nearest point of the plane to each input in the norm of the stretched noise, and the margins."""
        start, classifier = Noise(law, 0.4, loc=0.05), HalfSpace(weight)
        x = images(self.INPUTS, seed=3).double()
        noise = tuner.choose(Smoother(classifier, start), x.float(), start, range(len(x)))
        scale = torch.broadcast_to(noise.scale, x.shape).flatten(1)
        reach = torch.linalg.vector_norm(scale * weight, ord=2 if norm == 2 else math.inf, dim=1)
        loc = torch.broadcast_to(noise.loc, x.shape).flatten(1)
        flat = x.flatten(1)
        # Moved along the weight until the plane is at a known distance; only noise that does not read x stays the same.
        wanted = torch.linspace(0.4, 2.0, self.INPUTS, dtype=torch.float64) * reach
        flat = flat + ((wanted - (flat + loc) @ weight) / (weight @ weight))[:, None] * weight
        x = flat.reshape(x.shape).float()
        smoother = Smoother(
            classifier,
            start,
            norm=norm,
            estimator="fixed",
            estimate=self.VOTES,
            engine=Engine(block=2_000),
            tuner=tuner,
            seed=5,
        )
        regions = [certificate.region for certificate in smoother.certify(x)]
        margin = (x.double().flatten(1) + loc) @ weight
        if norm == 2:
            step = scale**2 * weight / reach[:, None] ** 2
        else:  # one coordinate, the cheapest
            best = (scale * weight.abs()).argmax(dim=1, keepdim=True)
            step = torch.zeros_like(scale).scatter(1, best, 1 / weight[best])
        return regions, (x.double().flatten(1) - margin[:, None] * step).reshape(x.shape), margin

    def maps(self, seed: int) -> Maps:
        draws = np.random.default_rng(seed)
        factors = draws.uniform(0.2, 2.0, SHAPE)
        factors.ravel()[LOW] = 0.5
        return Maps(factors, draws.normal(size=SHAPE))

    @pytest.mark.parametrize(("norm", "law"), [(2, "gaussian"), (1, "laplace")])
    @pytest.mark.parametrize("kind", ["pattern", "dataset"])
    def test_a_region_never_reaches_over_the_plane(self, kind: str, norm: float, law: str) -> None:
        tuner: Tuner = Pattern(self.maps(1).factors) if kind == "pattern" else DatasetWise(self.maps(2))
        weight = torch.randn(math.prod(SHAPE), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        if norm == 1:  # the l1 rule is tight for a plane across an axis
            weight = torch.zeros_like(weight).index_fill(0, torch.tensor([LOW]), 1.0)
        regions, flips, margins = self.certified(tuner, norm, law, weight)
        gauges = np.array([r.gauge(flip) / r.radius for r, flip in zip(regions, flips.numpy(), strict=True)])
        assert int((gauges <= 1).sum()) <= self.ALLOWED
        assert np.median(gauges) < 1.06, "the regions are far from the plane, so nothing was tested"
        assert sum(map(self.crosses, regions, margins, [weight] * self.INPUTS)) <= self.ALLOWED
        # The mutation: ‖δ·scale‖ instead of ‖δ/scale‖, of the same mean.
        turned = [Region(r.center, np.mean(r.full_scale) ** 2 / r.full_scale, r.radius, r.norm) for r in regions]
        wrong = sum(map(self.crosses, turned, margins, [weight] * self.INPUTS))
        assert wrong > 20 * self.ALLOWED, "this test could not see a scale that is turned around"

    @staticmethod
    def crosses(region: Region, margin: float, weight: Tensor) -> bool:
        """Does the region reach over the plane? Its furthest point along the weight is radius·‖scale·weight‖ dual."""
        reach = np.linalg.norm(region.full_scale.ravel() * weight.numpy(), ord=2 if region.norm == 2 else np.inf)
        return bool(region.radius * reach >= margin)

    def test_frozen_noise_may_leak_the_label(self) -> None:
        """Why per_input is only frozen: a shift that reads the input can carry the label far past the noise."""

        class Leak(Generator):
            def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
                sign = (x.mean(dim=(1, 2, 3), keepdim=True) - 0.5).sign()
                return torch.ones_like(x), 5 * sign * torch.ones_like(x)

        tuner = PerInput(Leak(design("per_input")))
        classifier: Callable[[Tensor], Tensor] = lambda z: linear(z - 2 / 72)  # the plane is at mean 0.5  # noqa: E731
        smoother = Smoother(classifier, Noise("gaussian", 1.0), estimate=2_000, tuner=tuner)
        above, below = torch.full((1, *SHAPE), 0.501), torch.full((1, *SHAPE), 0.499)
        certificate, other = smoother.certify(torch.cat([above, below]))
        assert certificate.soundness is Soundness.FROZEN
        assert certificate.region is not None
        assert certificate.region.contains(below[0].numpy())
        assert other.label != certificate.label
