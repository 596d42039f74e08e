"""Models of other libraries, each from a real file that its library wrote: the same logits, and clear refusals."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.engine import Engine
from smoothcert.errors import MissingExtra, ModelError, WeightsError
from smoothcert.identity import identity
from smoothcert.models import load_model, save_weights, small_cnn
from smoothcert.noise import Noise
from smoothcert.polling import make_fixed
from smoothcert.smoother import Smoother
from smoothcert.training import TrainSettings, train

SHAPE = (3, 8, 8)
X = torch.rand(5, *SHAPE, generator=torch.Generator().manual_seed(0))


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return small_cnn(SHAPE, 4).eval()


@torch.no_grad()
def same(model: nn.Module, expected: torch.Tensor, x: torch.Tensor = X) -> bool:
    return torch.allclose(model(x), expected, atol=1e-5, rtol=0)


def certifies(model: nn.Module) -> bool:
    """The whole walk, on two workers: the records of a run would be made like this."""
    smoother = Smoother(
        model, Noise.isotropic("gaussian", 0.1), estimate=200, engine=Engine(block=50, workers=2), select=20
    )
    return len(smoother.certify(X[:2])) == 2


class TestTorchScript:
    def write(self, path: Path, model: nn.Module, *, trace: bool = True, freeze: bool = False) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script = torch.jit.trace(model, X[:2], check_trace=False) if trace else torch.jit.script(model)
            script = torch.jit.freeze(script.eval()) if freeze else script
            script.save(path)
        return path

    @pytest.mark.parametrize("name", ["net.ts", "net.torchscript", "net.pt"])
    @pytest.mark.parametrize(("trace", "freeze"), [(True, False), (False, False), (False, True)])
    def test_the_same_logits(self, tmp_path: Path, name: str, trace: bool, freeze: bool) -> None:
        source = network()
        model = load_model(self.write(tmp_path / name, source, trace=trace, freeze=freeze), shape=SHAPE)
        assert same(model, source(X).detach())
        make_fixed(model)
        assert certifies(model)

    def test_a_script_in_train_mode_is_put_in_eval_mode(self, tmp_path: Path) -> None:
        source = network().train()
        path = self.write(tmp_path / "net.ts", source, trace=False)
        assert same(load_model(path, shape=SHAPE), source.eval()(X).detach())

    @pytest.mark.parametrize(
        ("layer", "words"), [(nn.BatchNorm2d(3), "batch_norm"), (nn.Dropout(), "dropout")], ids=["norm", "dropout"]
    )
    def test_a_trace_of_train_mode_is_refused(self, tmp_path: Path, layer: nn.Module, words: str) -> None:
        path = self.write(tmp_path / "net.ts", nn.Sequential(layer, nn.Flatten(), nn.Linear(192, 3)).train())
        with pytest.raises(ModelError, match=f"traced in train mode.*{words}"):
            load_model(path, shape=SHAPE)

    def test_batch_norm_without_statistics_is_refused(self, tmp_path: Path) -> None:
        layer = nn.BatchNorm2d(3, track_running_stats=False)
        path = self.write(tmp_path / "net.ts", nn.Sequential(layer, nn.Flatten(), nn.Linear(192, 3)).eval())
        with pytest.raises(ModelError, match="batch_norm"):
            load_model(path, shape=SHAPE)

    def test_frozen_files_have_fingerprints_of_their_own(self, tmp_path: Path) -> None:
        paths = [self.write(tmp_path / f"{seed}.ts", network(seed), trace=False, freeze=True) for seed in range(2)]
        first, second = (identity(load_model(path, shape=SHAPE)) for path in paths)
        assert first != second

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "net.ts").write_bytes(b"no archive")
        with pytest.raises(WeightsError, match=r"torch\.jit\.save"):
            load_model(tmp_path / "net.ts", shape=SHAPE)
        with pytest.raises(ModelError, match="does not exist"):
            load_model(tmp_path / "none.ts", shape=SHAPE)
        torch.save(network().state_dict(), tmp_path / "weights.pt")
        with pytest.raises(ModelError, match="is a weights file"):
            load_model(tmp_path / "weights.pt", shape=SHAPE)


class TestOnnx:
    def write(self, path: Path, *, batch: int | str = "batch", seed: int = 0, external: bool = False) -> np.ndarray:
        """A linear classifier after a ReLU, written by onnx; returns what onnx itself answers on X."""
        onnx = pytest.importorskip("onnx", reason="onnx writes the file; it is not installed")
        pytest.importorskip("onnxruntime", reason="onnxruntime reads the file; it is not installed")
        from onnx import TensorProto, helper, numpy_helper
        from onnx.reference import ReferenceEvaluator

        weight = np.random.default_rng(seed).normal(size=(192, 4)).astype(np.float32)
        nodes = [
            helper.make_node("Relu", ["x"], ["positive"]),
            helper.make_node("Flatten", ["positive"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weight"], ["logits"]),
        ]
        graph = helper.make_graph(
            nodes,
            "classifier",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *SHAPE])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 4])],
            [numpy_helper.from_array(weight, "weight")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        expected = ReferenceEvaluator(model).run(None, {"x": X.numpy()})[0] if batch == "batch" else None
        onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
        return expected

    @pytest.mark.parametrize("recipe", ["gaussian", "smoothadv"])
    def test_it_cannot_be_trained(self, tmp_path: Path, recipe: str) -> None:
        self.write(tmp_path / "net.onnx")
        pixels = np.zeros((8, *SHAPE), dtype=np.uint8)
        with pytest.raises(ModelError, match="an ONNX model answers but has no gradients"):
            train(
                load_model(tmp_path / "net.onnx", shape=SHAPE),
                pixels,
                np.arange(8) % 4,
                TrainSettings(recipe),
                noise=Noise.isotropic("gaussian", 0.1),
                out=tmp_path / "out",
                architecture={"name": "mlp", "shape": SHAPE, "classes": 4},
            )
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("external", [False, True])
    def test_the_same_logits(self, tmp_path: Path, external: bool) -> None:
        expected = self.write(tmp_path / "net.onnx", external=external)
        model = load_model(tmp_path / "net.onnx", shape=SHAPE)
        assert same(model, torch.from_numpy(expected))
        assert certifies(model)

    def test_normalisation_goes_in_front(self, tmp_path: Path) -> None:
        self.write(tmp_path / "net.onnx")
        plain = load_model(tmp_path / "net.onnx", shape=SHAPE)
        normalised = load_model(tmp_path / "net.onnx", shape=SHAPE, mean=[0.5], std=[0.25])
        assert same(normalised, plain((X - 0.5) / 0.25))

    @pytest.mark.parametrize("external", [False, True])
    def test_other_weights_have_another_identity(self, tmp_path: Path, external: bool) -> None:
        prints = []
        for seed in range(2):
            (tmp_path / str(seed)).mkdir()
            self.write(tmp_path / str(seed) / "net.onnx", seed=seed, external=external)
            prints.append(identity(load_model(tmp_path / str(seed) / "net.onnx", shape=SHAPE)))
        assert prints[0] != prints[1]

    def test_gradients_are_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path / "net.onnx")
        model = load_model(tmp_path / "net.onnx", shape=SHAPE)
        with pytest.raises(ModelError, match="has no gradients"):
            model(X.clone().requires_grad_())

    def test_a_fixed_batch_and_a_wrong_shape_are_explained(self, tmp_path: Path) -> None:
        self.write(tmp_path / "net.onnx", batch=7)
        model = load_model(tmp_path / "net.onnx", shape=SHAPE)
        with pytest.raises(ModelError, match=r"\(7, 3, 8, 8\); got \(5, 3, 8, 8\).*--block 7"):
            model(X)
        with pytest.raises(ModelError, match=r"got \(7, 1, 8, 8\)$"):
            model(torch.zeros(7, 1, 8, 8))

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime", reason="onnxruntime reads the file; it is not installed")
        (tmp_path / "net.onnx").write_bytes(b"no graph")
        with pytest.raises(WeightsError, match="cannot be read as an ONNX model"):
            load_model(tmp_path / "net.onnx", shape=SHAPE)
        with pytest.raises(ModelError, match="does not exist"):
            load_model(tmp_path / "none.onnx", shape=SHAPE)


class TestTransformers:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> tuple[nn.Module, Path]:
        """A tiny vision transformer, saved by transformers itself, with its preprocessor."""
        transformers = pytest.importorskip("transformers", reason="transformers is not installed")
        torch.manual_seed(0)
        config = transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
        )
        config.num_labels = 4
        source = transformers.ViTForImageClassification(config).eval()
        source.save_pretrained(tmp_path)
        (tmp_path / "preprocessor_config.json").write_text(
            '{"do_normalize": true, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}'
        )
        return source, tmp_path

    @torch.no_grad()
    def test_the_same_logits_with_its_normalisation(self, folder: tuple[nn.Module, Path]) -> None:
        source, path = folder
        model = load_model(path, shape=SHAPE)
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]))
        assert same(model, source(pixel_values=(X - mean) / std).logits)
        assert certifies(model)

    @torch.no_grad()
    def test_given_normalisation_replaces_the_recorded_one(self, folder: tuple[nn.Module, Path]) -> None:
        source, path = folder
        assert same(load_model(path, shape=SHAPE, mean=[0.0], std=[1.0]), source(pixel_values=X).logits)
        (path / "preprocessor_config.json").unlink()
        assert same(load_model(path, shape=SHAPE), source(pixel_values=X).logits)

    def test_another_size_is_explained(self, folder: tuple[nn.Module, Path]) -> None:
        with pytest.raises(ModelError, match=r"refuses inputs of shape \(3, 16, 16\).*size=…"):
            load_model(folder[1], shape=(3, 16, 16))

    def test_a_folder_without_weights_is_refused(self, folder: tuple[nn.Module, Path]) -> None:
        (folder[1] / "model.safetensors").unlink()
        with pytest.raises(WeightsError, match=r"save_pretrained"):
            load_model(folder[1], shape=SHAPE)


class TestHub:
    """hub:owner/name, with a stand-in for the hub."""

    folder = TestTransformers.folder

    def test_a_name_is_fetched_as_a_folder(
        self, folder: tuple[nn.Module, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []

        def fetch(name: str, allow_patterns: list[str]) -> str:
            asked.append((name, allow_patterns))
            if name != "owner/tiny":
                raise OSError("404")
            return str(folder[1])

        monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
        expected = load_model(folder[1], shape=SHAPE)(X).detach()
        assert same(load_model("hub:owner/tiny", shape=SHAPE), expected)
        assert same(load_model(f"hub:{folder[1]}", shape=SHAPE), expected)
        assert asked == [("owner/tiny", ["*.json", "*.safetensors"])]  # never a pickle, never code
        with pytest.raises(ModelError, match=r"'owner/none' cannot be fetched .*404; give its name there"):
            load_model("hub:owner/none", shape=SHAPE)
        with pytest.raises(ModelError, match="holds its own weights"):
            load_model("hub:owner/tiny", shape=SHAPE, weights="w.safetensors")


class TestGuards:
    @pytest.mark.parametrize(
        ("library", "spec"),
        [
            ("timm", "timm:resnet18"),
            ("torchvision", "torchvision:resnet18"),
            ("onnxruntime", "net.onnx"),
            ("transformers", "hub:owner/name"),
        ],
    )
    @pytest.mark.parametrize("problem", [ImportError, RuntimeError, OSError])
    def test_a_library_that_does_not_import_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, spec: str, problem: type[Exception]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("net.onnx").touch()

        def broken(name: str) -> ModuleType:
            raise problem(f"operator {name}::nms does not exist")

        monkeypatch.setattr("smoothcert.extras.import_module", broken)
        with pytest.raises(MissingExtra, match=rf"::nms does not exist.*pip install 'smoothcert\[{library}\]'"):
            load_model(spec, shape=SHAPE, classes=4, weights=None)

    @pytest.mark.parametrize("spec", ["timm:cnn", "torchvision:cnn"])
    def test_where_they_import_their_architectures_take_weights(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
    ) -> None:
        """With stand-ins for the two libraries, which do not import beside every torch."""

        def create(name: str, **options: object) -> nn.Module:
            if name != "cnn":
                raise ValueError(f"unknown model {name}")
            return small_cnn(SHAPE, int(str(options["num_classes"])))

        monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create))
        monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=SimpleNamespace(get_model=create)))
        source = network()
        save_weights(tmp_path / "w.safetensors", source, {})
        model = load_model(spec, shape=SHAPE, classes=4, weights=tmp_path / "w.safetensors")
        assert same(model, source(X).detach())
        with pytest.raises(ModelError, match="random weights"):
            load_model(spec, shape=SHAPE, classes=4)
        with pytest.raises(ModelError, match="unknown model none"):
            load_model(spec.replace("cnn", "none"), shape=SHAPE, classes=4)
