"""Weights files: read as tensors only, matched strictly, written whole.

A file is data, never code: ``.safetensors``, or a PyTorch file read with ``weights_only=True``. Anything
that would need unpickling of other objects is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from smoothcert.errors import WeightsError
from smoothcert.files import write_atomically

TORCH_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin")
ALLOWED = f"allowed: .safetensors, or a state dict written by torch.save ({', '.join(TORCH_SUFFIXES)})"
NESTS = ("state_dict", "model_state_dict", "model", "net")
PREFIXES = ("module.", "_orig_mod.", "model.")  # DataParallel, torch.compile, Lightning
SHOWN = 3


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load the file into ``model``, every name and shape matching, or raise WeightsError and change nothing."""
    path = Path(path)
    wanted = model.state_dict()
    state = _fitted(read_state(path), wanted)
    for name in wanted.keys() - state.keys():
        if name.endswith("num_batches_tracked"):  # absent from old files; no number depends on it in eval mode
            state[name] = wanted[name]
    problems = _mismatches(state, wanted)
    if problems:
        raise WeightsError(f"{path} does not fit the model: {'; '.join(problems)}; give the file of this architecture")
    undefined = [name for name, value in state.items() if value.is_floating_point() and bool(value.isnan().any())]
    if undefined:
        raise WeightsError(f"{path} holds NaN in {_few(undefined)}; a model with NaN certifies nothing; train again")
    model.load_state_dict(state, strict=True)


def save_weights(path: str | Path, model: nn.Module, metadata: Mapping[str, str]) -> None:
    """Write the state dict and ``metadata`` as safetensors, whole or not at all."""
    # Tied weights share memory, which safetensors refuses: each name gets its own copy.
    state = {name: value.detach().cpu().clone().contiguous() for name, value in model.state_dict().items()}
    try:
        write_atomically(Path(path), to_safetensors(state, metadata=dict(metadata)))
    except OSError as error:
        raise WeightsError(f"cannot write weights to {path}: {error}; nothing was left behind") from error


def read_metadata(path: str | Path) -> dict[str, str]:
    """The metadata of a safetensors file; empty when it has none."""
    path = _existing(Path(path))
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise _not_weights(path, error) from error


def read_state(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a weights file by name, out of whatever dictionaries they are nested in."""
    path = _existing(Path(path))
    suffix = path.suffix.lower()
    try:
        if suffix == ".safetensors":
            return load_file(path)
        if suffix not in TORCH_SUFFIXES:
            raise WeightsError(f"{path} has the ending {suffix!r}, which is not of a weights file; {ALLOWED}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of unusual pickles before refusing them
            content = torch.load(path, weights_only=True, map_location="cpu")
    except WeightsError:
        raise
    except Exception as error:  # a foreign file fails in many ways: KeyError, EOFError, OSError, UnpicklingError ...
        raise _not_weights(path, error) from error
    return _innermost(content, path)


def _existing(path: Path) -> Path:
    if path.is_file():
        return path
    found = "is a folder" if path.is_dir() else "does not exist"
    raise WeightsError(f"the weights file {path} {found}; {ALLOWED}")


def _innermost(content: object, path: Path) -> dict[str, Tensor]:
    """Descend through {"state_dict": ...} and the like to the named tensors."""
    while isinstance(content, Mapping):
        inner = [content[nest] for nest in NESTS if isinstance(content.get(nest), Mapping)]
        if not inner:
            break
        content = inner[0]
    if not isinstance(content, Mapping):
        raise WeightsError(f"{path} holds a {type(content).__name__}, not a state dict; {ALLOWED}")
    state = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    if not state:
        names = _few([str(name) for name in content]) or "nothing"
        raise WeightsError(f"{path} holds no tensors, but {names}; looked also inside {', '.join(NESTS)}; {ALLOWED}")
    return state


def _fitted(state: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state under the names that fit the model best, taking off prefixes only when that helps."""
    return max(_readings(state), key=lambda reading: len(reading.keys() & wanted.keys()))


def _readings(state: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The state as it is, then with each prefix that all of its names share taken off in turn."""
    yield state
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in state):
            yield from _readings({name.removeprefix(prefix): value for name, value in state.items()})


def _mismatches(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """What keeps the state from fitting, in words; empty when it fits."""
    shared = [name for name in wanted if name in state]
    wrong = [
        f"{name} {tuple(state[name].shape)} instead of {tuple(wanted[name].shape)}"
        for name in shared
        if state[name].shape != wanted[name].shape
    ]
    groups = {
        "missing": [name for name in wanted if name not in state],
        "unexpected": [name for name in state if name not in wanted],
        "wrong shape": wrong,
    }
    return [f"{kind}: {_few(names)}" for kind, names in groups.items() if names]


def _few(names: list[str]) -> str:
    """The first names and how many more.

    >>> _few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _not_weights(path: Path, error: Exception) -> WeightsError:
    """The error for a file that cannot be read as weights, saying what it seems to be."""
    forbidden = re.search(r"GLOBAL (\S+)", str(error))
    if forbidden:
        what = f"a pickle that needs {forbidden[1]}, and only tensors are read; save model.state_dict() instead"
    else:
        what = _seems(path)
    return WeightsError(f"{path} cannot be read as weights: it is {what}; {ALLOWED}")


def _seems(path: Path) -> str:
    """A guess from the first bytes."""
    with open(path, "rb") as stream:
        head = stream.read(512)
    if not head:
        return "an empty file"
    if head.startswith(b"PK"):
        return "a zip archive that is truncated, or not a state dict (TorchScript, for example)"
    if path.suffix.lower() == ".safetensors" and head[8:9] == b"{":
        return "a truncated or damaged safetensors file"
    if head.startswith(b"\x80"):
        return "a pickle that is truncated, or of other things than tensors"
    if all(byte >= 32 or byte in b"\t\n\r" for byte in head):
        return "a text file"
    return "binary data of an unknown kind, or damaged"
