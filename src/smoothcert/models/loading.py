"""From what a user writes after ``--model`` to a classifier in eval mode.

small_cnn:width=16      an architecture that is built in or registered, with a weights file
model.safetensors       a file written by training, which records its architecture
model.pt2               a graph written by torch.export; it is code, so load only what you trust
model.ts                a model written by TorchScript (also .torchscript, .pt); code as well
model.onnx              a graph in ONNX, run by onnxruntime
folder/                 an image classifier saved by transformers
hub:owner/name          such a folder of the Hugging Face hub
timm:name               an architecture of timm, or torchvision:name, with a weights file
package.module:factory  your own code; weights, if given, are loaded into what it returns
package.module:Name     a Network of your own, with its sizes after another colon
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from smoothcert.errors import ModelError, UnknownName
from smoothcert.models.adapters import classifier_of
from smoothcert.models.architecture import ARCHITECTURE_KEY, Architecture
from smoothcert.models.exported import Exported
from smoothcert.models.factory import from_factory, is_factory
from smoothcert.models.libraries import build_from_library, fetched, is_hub, is_library, is_pretrained, load_pretrained
from smoothcert.models.networks import REGISTRY, is_network, is_registered
from smoothcert.models.normalize import check_normalisation, with_normalisation
from smoothcert.models.onnx import OnnxModel
from smoothcert.models.scripted import Scripted, is_scripted
from smoothcert.models.weights import TORCH_SUFFIXES, load_weights, read_metadata
from smoothcert.registry import split_spec

Numbers = Sequence[float]
WAYS = (
    "a built-in name, a .safetensors file written by training, a .pt2, .ts or .onnx file, a folder of transformers, "
    "hub:owner/name, timm:name, torchvision:name, or package.module:factory"
)


def load_model(
    spec: str | Path,
    *,
    weights: str | Path | None = None,
    shape: Sequence[int],
    classes: int | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
) -> nn.Module:
    """The classifier that ``spec`` names, in eval mode, for inputs of ``shape``, with normalisation in front if given.

    >>> load_model("small_cn", shape=(1, 28, 28))
    Traceback (most recent call last):
    smoothcert.errors.UnknownName: unknown model 'small_cn'; did you mean 'small_cnn'? known: mlp, lenet, tiny_cnn, small_cnn, \
resnet18, resnet50, resnet110, wide_resnet40; allowed: a built-in name, a .safetensors file written by training, a .pt2, .ts or \
.onnx file, a folder of transformers, hub:owner/name, timm:name, torchvision:name, or package.module:factory
    """
    text, suffix = str(spec), Path(spec).suffix.lower()
    _check_pair(mean, std, shape)
    if suffix == ".safetensors":
        _refuse_weights(text, weights)
        return _recorded(Path(spec), shape, classes, mean, std)
    if suffix == ".pt2":
        _refuse_weights(text, weights)
        exported = Exported.load(Path(spec))
        exported.check_event(shape)
        return _normalised(exported, mean, std)
    if suffix == ".onnx":
        _refuse_weights(text, weights)
        return _normalised(classifier_of(OnnxModel.load(Path(spec))), mean, std)
    if is_scripted(Path(spec)):
        _refuse_weights(text, weights)
        return _normalised(classifier_of(Scripted.load(Path(spec))), mean, std)
    if is_hub(text) or is_pretrained(Path(spec)):
        _refuse_weights(text, weights)
        folder = fetched(text) if is_hub(text) else Path(spec)
        return _normalised(load_pretrained(folder, shape, normalised=mean is not None), mean, std)
    if is_library(text):
        return _from_library(text, weights, shape, classes, mean, std)
    if is_factory(split_spec(text)[0]) and not is_network(text):
        return _normalised(_from_code(text, weights), mean, std)
    if suffix in TORCH_SUFFIXES:
        raise ModelError(
            f"{text} is a weights file, which does not say its architecture; "
            "give it as weights, with a built-in name or package.module:factory as the model"
        )
    if suffix == ".py":
        name = Path(spec).stem
        raise ModelError(
            f"{text} is code; start from its folder and name the function there that makes the network: {name}:FUNCTION"
        )
    return _built_in(text, weights, shape, classes, mean, std)


def _built_in(
    spec: str,
    weights: str | Path | None,
    shape: Sequence[int],
    classes: int | None,
    mean: Numbers | None,
    std: Numbers | None,
) -> nn.Module:
    """The architecture with its weights; random weights are refused, since they certify nothing."""
    try:
        network = REGISTRY.make(spec)
    except UnknownName as error:
        raise UnknownName(f"{error}; allowed: {WAYS}") from None
    if weights is None:
        raise ModelError(
            f"the model {spec!r} has no weights, and random weights certify nothing; "
            "give a weights file, or train one first"
        )
    # The file of a Network that is not registered is for the code that is named here, not for what the file names.
    recorded = is_registered(spec) and Path(weights).suffix.lower() == ".safetensors"
    if recorded and ARCHITECTURE_KEY in read_metadata(weights):
        return _recorded(Path(weights), shape, classes, mean, std, network.title)
    if classes is None:
        raise ModelError(f"the model {spec!r} needs the number of classes; got None; give classes")
    model = network.build(shape, classes)
    load_weights(model, weights)
    return _normalised(model, mean, std)


def _from_library(
    spec: str,
    weights: str | Path | None,
    shape: Sequence[int],
    classes: int | None,
    mean: Numbers | None,
    std: Numbers | None,
) -> nn.Module:
    """The architecture of another library with its weights; nothing is downloaded."""
    if classes is None:
        raise ModelError(f"the model {spec} needs the number of classes; got None; give classes")
    model = build_from_library(spec, shape, classes)
    if weights is None:
        raise ModelError(f"the model {spec} has random weights, which certify nothing; give a weights file")
    load_weights(model, weights)
    return _normalised(classifier_of(model), mean, std)


def _recorded(
    path: Path,
    shape: Sequence[int],
    classes: int | None,
    mean: Numbers | None,
    std: Numbers | None,
    name: str | None = None,
) -> nn.Module:
    """The model of a file that records its architecture, which must agree with whatever else was given."""
    text = read_metadata(path).get(ARCHITECTURE_KEY)
    if text is None:
        raise ModelError(
            f"{path} does not record its architecture, as files written by training do; "
            "give it as weights, with a built-in name or package.module:factory as the model"
        )
    recorded = Architecture.from_json(text)
    given = {"name": name, "shape": shape, "classes": classes, "mean": mean, "std": std}
    for field, value in given.items():
        known = getattr(recorded, field)
        wanted = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        if wanted is not None and wanted != known:
            raise ModelError(
                f"{path} was trained with {field} {known}, and {wanted} was asked for; give a model that agrees with it"
            )
    model = _rebuilt(recorded, path)
    load_weights(model, path)
    return model.eval()


def _rebuilt(recorded: Architecture, path: Path) -> nn.Module:
    """The model without weights. What is not registered is never imported: a weights file must not name code to run."""
    if not is_registered(recorded.name):
        raise ModelError(
            f"{path} was trained from {recorded.name!r}, which is not built in; "
            f"give {path} as weights, with package.module:factory as the model"
        )
    return recorded.build()


def _from_code(spec: str, weights: str | Path | None) -> nn.Module:
    model = from_factory(spec)
    if weights is not None:
        if not isinstance(model, nn.Module):
            raise ModelError(f"{spec} returned a {type(model).__name__}, and weights load only into a torch.nn.Module")
        load_weights(model, weights)
    return classifier_of(model)


def _normalised(model: nn.Module, mean: Numbers | None, std: Numbers | None) -> nn.Module:
    if mean is None or std is None:
        return model.eval()
    return with_normalisation(model, mean, std).eval()


def _check_pair(mean: Numbers | None, std: Numbers | None, shape: Sequence[int]) -> None:
    if not shape:
        raise ModelError("shape must be that of one input, such as (1, 28, 28); got an empty shape")
    if mean is not None and std is not None:
        check_normalisation(mean, std, shape[0])
    elif mean is not None or std is not None:
        raise ModelError(f"mean and std go together; got mean {mean} and std {std}; give both or neither")


def _refuse_weights(spec: str, weights: str | Path | None) -> None:
    if weights is not None:
        raise ModelError(f"{spec} holds its own weights; got also the weights {weights}; leave one of them out")
