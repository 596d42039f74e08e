"""Weights files: nested, prefixed, damaged, foreign, malicious; and written whole."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from smoothcert.errors import WeightsError
from smoothcert.models import load_weights, mlp, read_metadata, read_state, save_weights, small_cnn

State = dict[str, Tensor]
LAYOUTS: dict[str, Callable[[State], Any]] = {
    "plain": lambda state: state,
    "state_dict": lambda state: {"state_dict": state, "epoch": 3},
    "model": lambda state: {"model": state, "optimizer": {"lr": 0.1}},
    "model_state_dict": lambda state: {"model_state_dict": state},
    "net": lambda state: {"net": state, "acc": 93.1},
    "nested twice": lambda state: {"model": {"state_dict": state}},
    "data parallel": lambda state: {f"module.{name}": value for name, value in state.items()},
    "compiled": lambda state: {f"_orig_mod.{name}": value for name, value in state.items()},
    "compiled and parallel": lambda state: {f"module._orig_mod.{name}": value for name, value in state.items()},
    "lightning": lambda state: {"state_dict": {f"model.{name}": value for name, value in state.items()}},
    "lightning, compiled": lambda state: {
        "state_dict": {f"model._orig_mod.{name}": value for name, value in state.items()}
    },
}


class Malicious:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".bin"])
def test_every_layout_loads(layout: str, suffix: str, tmp_path: Path) -> None:
    source, target = small_cnn((1, 8, 8), 3), small_cnn((1, 8, 8), 3)
    path = tmp_path / f"weights{suffix}"
    torch.save(LAYOUTS[layout](source.state_dict()), path)
    load_weights(target, path)
    assert same(source, target)


def test_safetensors_of_another_library_loads(tmp_path: Path) -> None:
    source, target = mlp((4,), 3), mlp((4,), 3)
    save_file(source.state_dict(), tmp_path / "w.safetensors")
    load_weights(target, tmp_path / "w.safetensors")
    assert same(source, target)
    assert read_metadata(tmp_path / "w.safetensors") == {}


def test_a_prefix_that_belongs_to_the_model_stays(tmp_path: Path) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Linear(2, 2)

    source, target = Wrapped(), Wrapped()
    torch.save(source.state_dict(), tmp_path / "w.pt")
    load_weights(target, tmp_path / "w.pt")
    assert same(source, target)


def test_old_files_without_batch_counters_load(tmp_path: Path) -> None:
    source, target = small_cnn((1, 8, 8), 3), small_cnn((1, 8, 8), 3)
    state = {name: value for name, value in source.state_dict().items() if "num_batches" not in name}
    torch.save(state, tmp_path / "w.pt")
    load_weights(target, tmp_path / "w.pt")
    assert same(source, target)


def test_mismatch_names_a_few_keys_of_each_kind_and_changes_nothing(tmp_path: Path) -> None:
    model = mlp((4,), 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = mlp((5,), 3).state_dict()
    del state["5.bias"]
    state |= {f"extra.{i}": torch.zeros(1) for i in range(5)}
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(WeightsError) as caught:
        load_weights(model, tmp_path / "w.pt")
    message = str(caught.value)
    assert "missing: 5.bias" in message
    assert "unexpected: extra.0, extra.1, extra.2 and 2 more" in message
    assert "wrong shape: 1.weight (256, 5) instead of (256, 4)" in message
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_nan_weights_are_refused(tmp_path: Path) -> None:
    model = mlp((4,), 3)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["5.bias"][0] = float("nan")
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match=r"NaN in 5\.bias"):
        load_weights(model, tmp_path / "w.pt")


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"these are not weights\n" * 40, "a text file"),
        (bytes(range(1, 256)) * 8, "binary data"),
    ],
)
def test_a_foreign_file_is_named(suffix: str, content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=f"{words}.*allowed: .safetensors"):
        read_state(path)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_truncated_file_is_refused(suffix: str, keep: float, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(mlp((4,), 3).state_dict(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(WeightsError, match=r"truncated|damaged"):
        read_state(path)


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_a_malicious_pickle_is_refused_and_not_run(how: str, tmp_path: Path) -> None:
    trace, path = tmp_path / "executed", tmp_path / "w.pt"
    if how == "torch":
        torch.save({"state_dict": Malicious(trace)}, path)
    else:
        path.write_bytes(pickle.dumps(Malicious(trace), protocol=4))
    with pytest.raises(WeightsError, match="cannot be read as weights"):
        load_weights(mlp((4,), 3), path)
    assert not trace.exists()


def test_the_forbidden_global_is_named(tmp_path: Path) -> None:
    torch.save(mlp((4,), 3), tmp_path / "whole.pt")
    with pytest.raises(WeightsError, match=r"needs torch\.nn\.modules\.\S+, and only tensors are read"):
        read_state(tmp_path / "whole.pt")


@pytest.mark.parametrize(
    ("content", "words"), [([1, 2], "holds a list"), ({"epoch": 3}, "holds no tensors, but epoch"), ({}, "but nothing")]
)
def test_a_file_without_named_tensors_is_refused(content: object, words: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match=words):
        read_state(tmp_path / "w.pt")


def test_missing_file_folder_and_other_ending(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="does not exist"):
        read_state(tmp_path / "w.pt")
    with pytest.raises(WeightsError, match="is a folder"):
        read_state(tmp_path)
    (tmp_path / "w.h5").write_bytes(b"x")
    with pytest.raises(WeightsError, match=r"the ending '\.h5'"):
        read_state(tmp_path / "w.h5")


def test_saving_keeps_weights_and_metadata(tmp_path: Path) -> None:
    source, target = small_cnn((1, 8, 8), 3), small_cnn((1, 8, 8), 3)
    save_weights(tmp_path / "w.safetensors", source, {"recipe": "gaussian"})
    load_weights(target, tmp_path / "w.safetensors")
    assert same(source, target)
    assert read_metadata(tmp_path / "w.safetensors") == {"recipe": "gaussian"}


def test_tied_weights_are_saved(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    save_weights(tmp_path / "w.safetensors", model, {})
    assert len(read_state(tmp_path / "w.safetensors")) == 4


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, mlp((4,), 3), {"version": "old"})
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(WeightsError, match="No space left"):
        save_weights(path, mlp((4,), 3), {"version": "new"})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_saving_into_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot write weights"):
        save_weights(tmp_path / "absent" / "w.safetensors", mlp((4,), 3), {})
