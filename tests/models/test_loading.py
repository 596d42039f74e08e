"""Every way to name a model, each with a real file, and every way to get it wrong."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from smoothcert.errors import ModelError, UnknownName, WeightsError
from smoothcert.models import ARCHITECTURE_KEY, Architecture, load_model, mlp, save_weights, small_cnn
from smoothcert.models.loading import is_network
from smoothcert.training import new_model

SHAPE = (1, 8, 8)
X = torch.rand(5, *SHAPE, generator=torch.Generator().manual_seed(0))
CODE = """
from dataclasses import dataclass
from torch import nn
from smoothcert.models import Network
@dataclass(frozen=True)
class Wide(Network):
    width: int = 5
    def build(self, shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, self.width), nn.Linear(self.width, classes))
number = 3
network = nn.ReLU()
def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
def function():
    return lambda x: x.flatten(1)[:, :3]
def broken():
    raise KeyError("weights")
def nothing():
    return 7
"""


@pytest.fixture(scope="module")
def pt2(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    folder = tmp_path_factory.mktemp("exported")
    model = small_cnn(SHAPE, 3).eval()
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(model, (X[:4],)), folder / "static.pt2")
    torch.export.save(torch.export.export(model, (X[:4],), dynamic_shapes=dynamic), folder / "dynamic.pt2")
    return model, folder


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_models.py").write_text(CODE)
    (tmp_path / "needy_models.py").write_text("import no_such_library_at_all")
    (tmp_path / "broken_models.py").write_text("1 / 0")
    before = set(sys.modules)
    path = list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in set(sys.modules) - before:
        if name.endswith("_models"):
            del sys.modules[name]


def trained(folder: Path, architecture: Architecture | None = None) -> tuple[nn.Module, Path]:
    architecture = architecture or Architecture("small_cnn", SHAPE, 3, (0.5,), (0.25,))
    model, path = architecture.build().eval(), folder / "model.safetensors"
    save_weights(path, model, {ARCHITECTURE_KEY: architecture.to_json()})
    return model, path


def test_built_in_with_weights(tmp_path: Path) -> None:
    source = small_cnn(SHAPE, 3).eval()
    torch.save(source.state_dict(), tmp_path / "w.pt")
    model = load_model("small_cnn", weights=tmp_path / "w.pt", shape=SHAPE, classes=3)
    assert not model.training
    assert torch.equal(model(X), source(X))


def test_normalisation_goes_in_front(tmp_path: Path) -> None:
    source = mlp(SHAPE, 3).eval()
    torch.save(source.state_dict(), tmp_path / "w.pt")
    model = load_model("mlp", weights=tmp_path / "w.pt", shape=SHAPE, classes=3, mean=[0.5], std=[0.25])
    assert torch.allclose(model(X), source((X - 0.5) / 0.25))


def test_built_in_without_weights_or_classes(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="random weights certify nothing"):
        load_model("mlp", shape=SHAPE, classes=3)
    torch.save(mlp(SHAPE, 3).state_dict(), tmp_path / "w.pt")
    with pytest.raises(ModelError, match="number of classes"):
        load_model("mlp", weights=tmp_path / "w.pt", shape=SHAPE)


def test_trained_file_rebuilds_itself(tmp_path: Path) -> None:
    source, path = trained(tmp_path)
    model = load_model(path, shape=SHAPE)
    assert not model.training
    assert torch.equal(model(X), source(X))
    assert torch.equal(load_model("small_cnn", weights=path, shape=SHAPE)(X), source(X))
    assert torch.equal(load_model(str(path), shape=SHAPE, classes=3, mean=[0.5], std=[0.25])(X), source(X))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shape": (1, 28, 28)}, r"shape \(1, 8, 8\), and \(1, 28, 28\)"),
        ({"shape": SHAPE, "classes": 10}, "classes 3, and 10"),
        ({"shape": SHAPE, "mean": [0.1], "std": [0.25]}, r"mean \(0\.5,\), and \(0\.1,\)"),
        ({"shape": SHAPE, "weights": "other.pt"}, "holds its own weights"),
    ],
)
def test_trained_file_must_agree(given: dict[str, object], words: str, tmp_path: Path) -> None:
    _, path = trained(tmp_path)
    with pytest.raises(ModelError, match=words):
        load_model(path, **given)  # type: ignore[arg-type]


def test_trained_file_under_another_name(tmp_path: Path) -> None:
    _, path = trained(tmp_path)
    with pytest.raises(ModelError, match="name small_cnn, and mlp"):
        load_model("mlp", weights=path, shape=SHAPE)


def test_a_file_never_names_code_to_run(code: Path) -> None:
    path = code / "model.safetensors"
    save_weights(path, mlp(SHAPE, 3), {ARCHITECTURE_KEY: Architecture("broken_models:x", SHAPE, 3).to_json()})
    with pytest.raises(ModelError, match=r"not built in.*package\.module:factory"):
        load_model(path, shape=SHAPE)
    assert "broken_models" not in sys.modules


@pytest.mark.parametrize("spec", ["my_models:Wide", "my_models:Wide:width=9"])
def test_a_network_of_ones_own_has_sizes(spec: str, code: Path) -> None:
    assert is_network(spec)
    assert not is_network("my_models:linear")
    source = new_model({"name": spec, "shape": SHAPE, "classes": 3}, seed=0)
    assert source[1].out_features == (9 if "=" in spec else 5)  # type: ignore[index]
    path = code / "model.safetensors"
    save_weights(path, source, {ARCHITECTURE_KEY: Architecture(spec, SHAPE, 3).to_json()})
    assert torch.equal(load_model(spec, weights=path, shape=SHAPE, classes=3)(X), source(X))
    with pytest.raises(ModelError, match="not built in"):
        load_model(path, shape=SHAPE)
    with pytest.raises(ModelError, match="random weights certify nothing"):
        load_model(spec, shape=SHAPE, classes=3)


def test_sizes_are_recorded_with_the_weights(tmp_path: Path) -> None:
    source, path = trained(tmp_path, Architecture("mlp:width=7", SHAPE, 3))
    assert torch.equal(load_model(path, shape=SHAPE)(X), source(X))
    assert torch.equal(load_model("mlp:depth=2,width=7", weights=path, shape=SHAPE)(X), source(X))
    with pytest.raises(ModelError, match="name mlp:width=7, and mlp was asked"):
        load_model("mlp", weights=path, shape=SHAPE)


def test_safetensors_without_architecture(tmp_path: Path) -> None:
    save_weights(tmp_path / "w.safetensors", mlp(SHAPE, 3), {})
    with pytest.raises(ModelError, match="does not record its architecture"):
        load_model(tmp_path / "w.safetensors", shape=SHAPE)
    load_model("mlp", weights=tmp_path / "w.safetensors", shape=SHAPE, classes=3)


def test_exported_with_dynamic_batch(pt2: tuple[nn.Module, Path]) -> None:
    source, folder = pt2
    model = load_model(folder / "dynamic.pt2", shape=SHAPE)
    assert not model.training
    for count in (1, 4, 5):
        assert torch.allclose(model(X[:count]), source(X[:count]), atol=1e-5)
    normalised = load_model(folder / "dynamic.pt2", shape=SHAPE, mean=[0.5], std=[0.5])
    assert torch.allclose(normalised.eval()(X), source((X - 0.5) / 0.5), atol=1e-5)


def test_exported_with_static_batch_says_what_to_do(pt2: tuple[nn.Module, Path]) -> None:
    source, folder = pt2
    model = load_model(folder / "static.pt2", shape=SHAPE)
    assert torch.allclose(model(X[:4]), source(X[:4]), atol=1e-5)
    with pytest.raises(ModelError, match=r"exactly 4, and got 5; export it with a dynamic.*--block 4"):
        model(X)


def test_exported_for_another_shape(pt2: tuple[nn.Module, Path]) -> None:
    with pytest.raises(ModelError, match=r"shape \(1, 8, 8\); got \(3, 32, 32\)"):
        load_model(pt2[1] / "dynamic.pt2", shape=(3, 32, 32))


def test_damaged_exports(pt2: tuple[nn.Module, Path], tmp_path: Path) -> None:
    content = (pt2[1] / "dynamic.pt2").read_bytes()
    (tmp_path / "half.pt2").write_bytes(content[: len(content) // 2])
    with zipfile.ZipFile(tmp_path / "zip.pt2", "w") as archive:
        archive.writestr("folder/file", "text")
    with pytest.raises(WeightsError, match="truncated"):
        load_model(tmp_path / "half.pt2", shape=SHAPE)
    with pytest.raises(WeightsError, match="cannot be read as an exported model"):
        load_model(tmp_path / "zip.pt2", shape=SHAPE)
    with pytest.raises(ModelError, match="does not exist"):
        load_model(tmp_path / "none.pt2", shape=SHAPE)
    with pytest.raises(ModelError, match="its own weights"):
        load_model(pt2[1] / "dynamic.pt2", shape=SHAPE, weights="w.pt")


def test_a_file_that_changes_while_it_is_read(
    pt2: tuple[nn.Module, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One network would answer under the name of another, and its run be continued by that one."""
    path = Path(shutil.copy(pt2[1] / "dynamic.pt2", tmp_path))
    load = torch.export.load

    def replaced(file: Path) -> torch.export.ExportedProgram:
        program = load(file)
        shutil.copy(pt2[1] / "static.pt2", file)
        return program

    monkeypatch.setattr(torch.export, "load", replaced)
    with pytest.raises(ModelError, match="was changed while it was read"):
        load_model(path, shape=SHAPE)


def test_factory_in_this_folder(code: Path) -> None:
    source = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    torch.save(source.state_dict(), code / "w.pt")
    model = load_model("my_models:linear", weights=code / "w.pt", shape=SHAPE)
    assert not model.training
    assert torch.equal(model(X), source(X))
    assert load_model("my_models:function", shape=SHAPE)(X).shape == (5, 3)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("absent_models:f", "no module 'absent_models'.*start from the folder"),
        ("absent_models.sub:f", "no module 'absent_models'"),
        ("my_models:absent", "has no 'absent'; callables there: Wide, linear, function"),
        ("my_models:number", "'number' is a int"),
        ("my_models:network", "'network' is a ReLU.*def make\\(\\): return network"),
        ("my_models.py:linear", "a file is named without its ending: my_models:linear"),
        ("./my_models.py", "is code; .* my_models:FUNCTION"),
        ("my_models:broken", "called without arguments .* raised KeyError: 'weights'"),
        ("my_models:nothing", "returned a int; allowed: a callable"),
        ("needy_models:f", "needs the module 'no_such_library_at_all'"),
        ("broken_models:f", "importing broken_models raised ZeroDivisionError"),
    ],
)
def test_factory_errors(spec: str, words: str, code: Path) -> None:
    with pytest.raises(ModelError, match=words):
        load_model(spec, shape=SHAPE)


def test_weights_for_a_function_are_refused(code: Path) -> None:
    with pytest.raises(ModelError, match=r"only into a torch\.nn\.Module"):
        load_model("my_models:function", weights="w.pt", shape=SHAPE)


def test_other_specs(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"did you mean 'mlp'\?.*package\.module:factory"):
        load_model("mlpp", shape=SHAPE)
    with pytest.raises(ModelError, match="does not say its architecture"):
        load_model("weights.pth", shape=SHAPE)
    with pytest.raises(ModelError, match="go together"):
        load_model("mlp", shape=SHAPE, mean=[0.5])
    with pytest.raises(ModelError, match="3 values, the input has 1 channels"):
        load_model("mlp", shape=SHAPE, mean=[0.5] * 3, std=[1.0] * 3)
    with pytest.raises(ModelError, match="empty shape"):
        load_model("mlp", shape=())
