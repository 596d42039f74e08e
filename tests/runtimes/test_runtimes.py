"""Every runtime passes its suite; what silently computes something else is caught before a vote counts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.answers import Loaded, same_bits
from smoothcert.attacks.check import attack
from smoothcert.data.digits import load_digits
from smoothcert.errors import MissingExtra, ModelError, NotFixed, RunError, SettingError
from smoothcert.extras import import_extra
from smoothcert.models import load_model, mlp
from smoothcert.models.adapters import as_classifier
from smoothcert.models.normalize import with_normalisation
from smoothcert.registry import setting
from smoothcert.runtimes import RUNTIMES, Runtime, Torch, graphs, runtime_named
from smoothcert.runtimes.base import Compute
from smoothcert.testing.problems import HalfSpace
from smoothcert.testing.runtimes import BLOCK, SHAPE, RuntimeSuite
from smoothcert.testing.suite import reads_back

pytest.importorskip("onnxruntime", reason="half of the runtimes need it; it is not installed")
pytest.importorskip("openvino", reason="it is not installed")
pytest.importorskip("onnxscript", reason="torch's exporter needs it; it is not installed")
SUITE = RuntimeSuite()
OTHERS = ["folded", "onnxruntime", "openvino"]
NOISE = sc.Noise.isotropic("gaussian", 0.25, 1 / 255)


class TestRuntimes(RuntimeSuite):
    members = tuple(runtime_named(name) for name in ("torch", "torch:precision=bfloat16", *OTHERS))


@pytest.mark.slow  # torch.compile calls a C++ compiler
class TestCompiled(RuntimeSuite):
    members = (runtime_named("compiled"),)


def test_every_built_in_runtime_is_in_the_suites() -> None:
    covered = {member.name for member in (*TestRuntimes.members, *TestCompiled.members)}
    assert covered == set(RUNTIMES)


@pytest.mark.slow  # as the requirement has it: 10 000 blocks
@pytest.mark.parametrize("name", OTHERS)
def test_memory_does_not_grow_over_ten_thousand_blocks(name: str) -> None:
    suite = RuntimeSuite()
    suite.blocks, suite.growth = 10_000, 8 * 2**20
    suite.test_memory_does_not_grow(runtime_named(name))


@dataclass(frozen=True)
class Wrong(Torch):
    """A wrong export: the network with something done to its weights or its answers."""

    plain = False
    how: str = setting("shifted", "what is wrong")

    def load(self, network: nn.Module, block: Tensor) -> Compute:
        def run(copies: Tensor) -> Tensor:
            logits = network(copies)
            if self.how == "shifted":
                return logits + 0.02 * logits.abs().max() * torch.eye(logits.shape[1])[0]
            if self.how == "swapped":
                return logits.flip(1)
            if self.how == "far":  # right on the noisy copies themselves, wrong elsewhere
                return logits if float(copies.mean()) > -1 else logits.relu()
            return logits[:, :-1]

        return run


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class TestKeptGraphs:
    @pytest.fixture
    def exports(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What was exported, as the text of its weights, which stands in for its graph."""
        found: list[str] = []

        def exported(network: nn.Module, block: Tensor) -> tuple[bytes, bool]:
            found.append(str(next(network.parameters()).flatten()[0]))
            return found[-1].encode(), True

        monkeypatch.setattr(graphs, "_exported", exported)
        return found

    def of(self, number: float) -> bytes:
        network = nn.Linear(2, 2)
        nn.init.constant_(network.weight, number)
        nn.init.zeros_(network.bias)
        return graphs.onnx_of(network.eval(), torch.zeros(3, 2))

    def test_are_read_again_for_the_same_network_alone(self, exports: list[str]) -> None:
        one, other = self.of(1.0), self.of(2.0)
        assert self.of(1.0) == one != other == self.of(2.0)
        assert len(exports) == 2

    def test_of_another_exporter_are_not(self, exports: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.of(1.0)
        monkeypatch.setattr(graphs, "version_of", lambda library: f"a newer {library}")
        self.of(1.0)
        assert len(exports) == 2

    def test_that_are_damaged_are_written_again(self, exports: list[str], cache: Path) -> None:
        graph, [file] = self.of(1.0), list(cache.iterdir())
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        with pytest.warns(UserWarning, match="damaged"):
            assert self.of(1.0) == graph
        assert self.of(1.0) == graph
        assert len(exports) == 2

    def test_are_few(self, exports: list[str], cache: Path) -> None:
        """The latest ones."""
        for number in range(graphs.KEPT + 2):
            self.of(float(number))
            [os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**9)) for file in cache.iterdir()]
        assert len(list(cache.iterdir())) == graphs.KEPT
        self.of(float(graphs.KEPT + 1))
        assert len(exports) == graphs.KEPT + 2
        self.of(0.0)
        assert len(exports) == graphs.KEPT + 3

    def test_a_cache_that_cannot_be_written_is_done_without(
        self, exports: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache.write_bytes(b"a file where a folder should be")
        assert self.of(1.0) == self.of(1.0)
        assert len(exports) == 2


class TestAWrongExport:
    @pytest.mark.parametrize("how", ["shifted", "swapped", "far", "narrow"])
    def test_is_refused_before_a_vote_counts(self, how: str, tmp_path: Path) -> None:
        smoother = SUITE.smoother(runtime_named("torch"))
        smoother.loaded.runtime = Wrong(how=how)
        with pytest.raises(ModelError, match="does not compute this network"):
            smoother.certify(torch.rand(1, *SHAPE).mul(255).round() / 255)

    def test_of_a_graph_is_refused_too(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        """The exporter itself is made to write other weights."""
        right, other = graphs._exported, SUITE.network()
        with torch.no_grad():
            other[-1].bias[0] += 0.1

        def wrong(network: nn.Module, block: Tensor) -> tuple[bytes, bool]:
            return right(as_classifier(other), block)

        monkeypatch.setattr(graphs, "_exported", wrong)
        for name in ("onnxruntime", "openvino"):
            with pytest.raises(ModelError, match=f"the runtime {name} does not compute this network"):
                SUITE.smoother(runtime_named(name)).predict(torch.zeros(1, *SHAPE))

    def test_weights_that_change_later_are_noticed(self) -> None:
        smoother, x = SUITE.smoother(runtime_named("onnxruntime")), torch.zeros(1, *SHAPE)
        smoother.certify(x)
        with torch.no_grad():
            next(smoother.model.parameters()).mul_(2.0)
        with pytest.raises(NotFixed, match="since then it has changed"):
            smoother.certify(x)


def test_openvino_answers_as_many_calls_at_once_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one stream workers would wait for each other: nothing would be wrong, and all of it slow. One core says nothing."""
    core, compiled = import_extra("openvino", "a test").Core, []
    compiling = core.compile_model
    monkeypatch.setattr(core, "compile_model", lambda *given: compiled.append(compiling(*given)) or compiled[-1])
    Loaded(runtime_named("openvino"), as_classifier(SUITE.network()))(SUITE.block())
    [model] = compiled
    for name in ("NUM_STREAMS", "OPTIMAL_NUMBER_OF_INFER_REQUESTS"):
        assert model.get_property(name) >= len(os.sched_getaffinity(0))


class Branching(nn.Module):
    """Looks at what is in the batch, which no graph can follow."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)[:, :10]
        return flat if float(flat.sum()) > 0 else -flat


class Picking(nn.Module):
    """How many rows it answers depends on what is in the batch: torch prints the graph that it had so far."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)[:, :10]
        return flat[flat[:, 0] > -1e9]


class TestBadInput:
    @pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
    @pytest.mark.parametrize("network", [Branching, Picking])
    def test_what_cannot_be_exported_is_refused_with_the_reason(
        self, name: str, network: type[nn.Module], capfd: pytest.CaptureFixture[str]
    ) -> None:
        loaded = Loaded(runtime_named(name), as_classifier(network()))
        with pytest.raises(ModelError, match=r"cannot take this network \(.*; use the runtime torch"):
            loaded(torch.rand(4, *SHAPE))
        assert capfd.readouterr().err == ""

    def test_an_operator_that_cannot_be_exported_is_named(self) -> None:
        class Bessel(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.special.bessel_j0(x.flatten(1)[:, :10])

        with pytest.raises(ModelError, match=r"cannot take this network \(.*bessel_j0.*; use the runtime torch"):
            Loaded(runtime_named("onnxruntime"), as_classifier(Bessel()))(torch.rand(4, *SHAPE))

    def test_a_library_that_is_missing_is_named_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(name: str) -> Any:
            raise ImportError("no such thing here")

        monkeypatch.setattr("smoothcert.extras.import_module", broken)
        for name in ("onnxruntime", "openvino"):
            with pytest.raises(MissingExtra, match=rf"pip install 'smoothcert\[{name}\]'"):
                SUITE.smoother(runtime_named(name))

    def test_float64_models_are_refused_with_the_reason_where_there_is_no_such_operator(self) -> None:
        with pytest.raises(ModelError, match="cannot take this network .*use the runtime torch"):
            Loaded(runtime_named("onnxruntime"), as_classifier(SUITE.network().double()))(SUITE.block())

    @pytest.mark.parametrize("name", ["torch", "folded", "openvino"])
    def test_float64_models_are_computed_as_they_are(self, name: str) -> None:
        network = SUITE.network().double()
        found = Loaded(runtime_named(name), as_classifier(network))(SUITE.block())
        assert torch.allclose(found.double(), network(SUITE.block().double()), rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("name", ["torch", "folded", "openvino"])  # onnxruntime has no convolution in float64
    def test_float64_models_that_convert_are_taken(self, name: str) -> None:
        class Converting(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = SUITE.network().double()

            def forward(self, x: Tensor) -> Tensor:
                return self.inner(x.double())

        assert Loaded(runtime_named(name), as_classifier(Converting()))(SUITE.block()).shape == (BLOCK, 10)

    def test_a_shape_that_code_is_written_for_is_exported_for_that_shape(self) -> None:
        class Fixed(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x.reshape(BLOCK, 784)[:, :10] * 2

        loaded = Loaded(runtime_named("onnxruntime"), as_classifier(Fixed()))
        assert torch.equal(loaded(SUITE.block()), SUITE.block().flatten(1)[:, :10] * 2)

    def test_other_devices_are_refused(self) -> None:
        for name in ("onnxruntime", "openvino"):
            with pytest.raises(SettingError, match="computes on the CPU"):
                runtime_named(name).check(torch.device("meta"))


class TestAnOnnxFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "network.onnx"
        path.write_bytes(graphs.onnx_of(as_classifier(SUITE.network()), SUITE.block()))
        return path

    @pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
    def test_gives_the_bits_of_its_export(self, file: Path, name: str) -> None:
        rows, runtime = SUITE.block(), runtime_named(name)
        direct = Loaded(runtime, as_classifier(load_model(file, shape=SHAPE)))
        exported = Loaded(runtime, as_classifier(SUITE.network()))
        assert same_bits(direct(rows), exported(rows))

    @pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
    def test_is_certified_as_its_export(self, file: Path, name: str) -> None:
        x, engine = torch.from_numpy(load_digits().inputs(range(3))), sc.Engine(block=BLOCK, runtime=name)
        direct, exported = (
            sc.Smoother(model, NOISE, estimate=100, select=20, engine=engine).certify(x)
            for model in (load_model(file, shape=SHAPE), SUITE.network())
        )
        assert [(c.label, c.bound, c.radius) for c in direct] == [(c.label, c.bound, c.radius) for c in exported]

    def test_is_computed_by_openvino_behind_a_normalisation(self, file: Path) -> None:
        model = load_model(file, shape=SHAPE, mean=[0.5], std=[0.25])
        network = with_normalisation(SUITE.network(), [0.5], [0.25]).eval()
        got = Loaded(runtime_named("openvino"), as_classifier(model))(SUITE.block())
        assert torch.allclose(got, network(SUITE.block()), atol=1e-4)
        assert not same_bits(got, model(SUITE.block()))  # another library did it


class TestARun:
    def records(self, run: Path, name: str, **more: Any) -> list[str]:
        from smoothcert.store import open_run

        smoother = SUITE.smoother(runtime_named(name))
        sc.certify_all(smoother, load_digits(), run, **more)
        with open_run(run) as store:
            return [record.to_json() for record in store.records()]

    @pytest.mark.parametrize("name", OTHERS)
    def test_resumes_to_the_same_bytes_and_under_no_other_runtime(self, name: str, tmp_path: Path) -> None:
        whole = self.records(tmp_path / "whole", name, indices=range(4), rows=4)
        self.records(tmp_path / "parts", name, indices=range(2), rows=1)
        assert self.records(tmp_path / "parts", name, indices=range(4), rows=2) == whole
        with pytest.raises(RunError, match="runtime"):
            self.records(tmp_path / "parts", "torch", indices=range(4))

    @pytest.mark.parametrize("name", OTHERS)
    def test_known_answers_and_the_falsifier(self, name: str) -> None:
        """A half-space, whose radius is known: never more is certified (false alarm: 2·0.001), nothing is broken inside."""
        problem = HalfSpace(torch.linspace(0.5, 1.5, 12) / 12, offset=0.1)
        noise = sc.Noise.isotropic("gaussian", 0.25)
        engine = sc.Engine(block=100, workers=2, runtime=name)
        smoother = sc.Smoother(problem, noise, estimator="fixed", estimate=5_000, engine=engine)
        x = torch.zeros(2, 12)
        certificates = smoother.certify(x)
        truth = float(problem.true_radius(x[:1], noise, 2.0))  # in units of the scale
        for certificate in certificates:
            assert certificate.region is not None
            assert 0.8 * truth < certificate.region.radius <= truth
        assert smoother.predict(x[:1]) == [certificates[0].label]
        [finding] = attack(certificates[:1], smoother, x[:1], budget=200, votes=400, attacks=["projected_gradient"])
        assert finding is not None
        assert not finding.violated

    def test_verdicts_are_the_runtimes(self) -> None:
        """Gradients stay with torch, and votes of a verdict do not."""
        smoother = SUITE.smoother(runtime_named("onnxruntime"))
        asked = []
        smoother.model.register_forward_hook(lambda *_: asked.append(1))
        certificate = sc.Certificate(
            0,
            sc.Bound(0.9, 0.001, 100),
            sc.Region(torch.zeros(784).double().numpy(), 0.25, 0.1, 2.0),
            sc.Soundness.GLOBAL,
        )
        smoother.predict(torch.zeros(1, *SHAPE))  # compares with torch
        asked.clear()
        from smoothcert.attacks.verdict import judge
        from smoothcert.attacks.victim import Victim

        victim = Victim(certificate, smoother, torch.zeros(SHAPE), 0, None, 1.0)
        judge(victim, "here", torch.zeros(784).double().numpy(), votes=100, alpha=0.01)
        assert not asked


def test_folding_leaves_no_batch_norm() -> None:
    from smoothcert.runtimes.pytorch import folded

    made = folded(as_classifier(with_normalisation(SUITE.network(), [0.5], [0.5]).eval()))
    kinds = {type(module) for module in made.modules()}
    assert not kinds & {nn.BatchNorm2d, nn.Dropout}
    assert nn.Conv2d in kinds


def test_a_runtime_of_ones_own_is_compared_as_well() -> None:
    reads_back(Wrong(how="swapped"), type("Registry", (), {"make": staticmethod(lambda text: Wrong(how="swapped"))}))
    assert not issubclass(Wrong, Runtime) or not Wrong.plain
    with pytest.raises(ModelError, match="does not compute"):
        Loaded(Wrong(how="swapped"), as_classifier(mlp(SHAPE, 10).eval()))(SUITE.block())
