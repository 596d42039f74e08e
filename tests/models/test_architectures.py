"""The built-in architectures and their normalisation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from smoothcert.errors import ModelError
from smoothcert.models import MODELS, REGISTRY, Architecture, Normalize, mlp, networks, small_cnn, with_normalisation


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28)])
def test_every_model_gives_one_logit_per_class(name: str, shape: tuple[int, ...]) -> None:
    assert MODELS[name]().build(shape, 7).eval()(torch.rand(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "millions"),
    [  # as published: He et al. (2016), tables 1 and 6; Zagoruyko and Komodakis (2016), table 4
        ("resnet50", (3, 224, 224), 1000, 25.6),
        ("resnet110", (3, 32, 32), 10, 1.7),
        ("wide_resnet40", (3, 32, 32), 10, 2.2),
    ],
)
def test_deep_models_have_their_published_size(
    name: str, shape: tuple[int, ...], classes: int, millions: float
) -> None:
    model = MODELS[name]().build(shape, classes)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == millions
    layers = [p for n, p in model.named_parameters() if p.dim() in (2, 4) and "skip" not in n]
    assert len(layers) == {"resnet50": 50, "resnet110": 110, "wide_resnet40": 38}[name]  # 40 counts 3 shortcuts


@pytest.mark.parametrize(
    ("spec", "channels"),
    [
        ("mlp:width=7,depth=3", [7, 7, 7, 10]),
        ("lenet:width=4", [4, 8, 128, 10]),
        ("small_cnn:width=4", [4, 8, 16, 10]),
        ("resnet110:blocks=1", [16, 16, 16, 32, 32, 64, 64, 10]),
        ("wide_resnet40:width=1", [16, *[16] * 12, *[32] * 12, *[64] * 12, 10]),
    ],
)
def test_sizes_are_parameters(spec: str, channels: list[int]) -> None:
    network = REGISTRY.make(spec)
    assert network.title == spec
    parameters = network.build((3, 16, 16), 10).named_parameters()
    assert [p.shape[0] for name, p in parameters if p.dim() in (2, 4) and "skip" not in name] == channels


def test_a_built_in_name_has_the_sizes_it_always_had() -> None:
    for name in MODELS:
        network = REGISTRY.make(name)
        function = getattr(networks, name, None)
        if function is not None:
            sizes = [
                [p.shape for p in model.parameters()] for model in (network.build((3, 8, 8), 5), function((3, 8, 8), 5))
            ]
            assert sizes[0] == sizes[1], name


def test_mlp_takes_flat_inputs() -> None:
    assert mlp((5,), 3)(torch.rand(2, 5)).shape == (2, 3)


def test_mlp_has_the_widths_it_says() -> None:
    assert [tuple(p.shape) for p in mlp((4,), 3).parameters() if p.dim() == 2] == [(256, 4), (256, 256), (3, 256)]


def test_small_cnn_halves_three_times() -> None:
    convolutions = [layer for layer in small_cnn((3, 32, 32), 10).modules() if isinstance(layer, nn.Conv2d)]
    assert [(layer.out_channels, layer.stride) for layer in convolutions] == [(32, (2, 2)), (64, (2, 2)), (128, (2, 2))]


@pytest.mark.parametrize("shape", [(784,), (28, 28), (1, 1, 28, 28), (0, 8, 8)])
def test_small_cnn_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"\(channels, height, width\)"):
        small_cnn(shape, 10)


@pytest.mark.parametrize("name", MODELS)
def test_one_class_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="2 classes or more; got 1"):
        MODELS[name]().build((1, 8, 8), 1)


def test_mlp_refuses_an_empty_shape() -> None:
    with pytest.raises(ModelError, match="positive sizes"):
        mlp((), 2)


def test_normalisation_is_per_channel() -> None:
    x = torch.rand(4, 3, 5, 5)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    expected = torch.stack([(x[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)
    assert torch.equal(Normalize(mean.tolist(), std.tolist())(x), expected)


def test_normalisation_stands_in_front() -> None:
    model = with_normalisation(nn.Flatten(), [0.5], [0.5])
    assert torch.equal(model(torch.ones(1, 1, 2)), torch.ones(1, 2))
    assert set(model.state_dict()) == {"normalize.mean", "normalize.std"}


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        ([0.5], [0.0], "above 0"),
        ([0.5], [-1.0], "above 0"),
        ([0.5], [float("nan")], "above 0"),
        ([float("inf")], [1.0], "finite"),
        ([0.5, 0.5], [1.0], "2 values and std 1"),
        ([], [], "0 values"),
    ],
)
def test_bad_normalisation_is_refused(mean: list[float], std: list[float], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Normalize(mean, std)


def test_normalisation_of_other_channels_is_refused() -> None:
    with pytest.raises(ModelError, match="has 2 channels"):
        Normalize([0.5, 0.5], [1.0, 1.0])(torch.rand(1, 3, 4, 4))


def test_architecture_survives_json() -> None:
    architecture = Architecture("small_cnn", (3, 8, 8), 5, (0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    assert Architecture.from_json(architecture.to_json()) == architecture


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "JSON object"),
        ('{"name": "mlp"}', "missing: shape, classes"),
        ('{"name": "mlp", "shape": [4], "classes": 2, "depth": 3}', "unknown: depth"),
        ('{"name": "mlp", "shape": 4, "classes": 2}', "not an architecture"),
        ('{"name": "mlp", "shape": [4], "classes": 1}', "2 classes or more"),
        ('{"name": "mlp", "shape": [4], "classes": 2, "mean": [0.5]}', "go together"),
        ('{"name": "mlp", "shape": [4], "classes": 2, "mean": [0, 0], "std": [1, 1]}', "4 channels"),
    ],
)
def test_a_damaged_architecture_is_refused(text: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Architecture.from_json(text)
