"""The architectures that have a name: from the shape of one input and the number of classes to a fresh network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from smoothcert.models.factory import code_at, is_factory
from smoothcert.models.mlp import mlp
from smoothcert.models.resnet import resnet18, resnet50, resnet110, wide_resnet40
from smoothcert.models.small_cnn import lenet, small_cnn
from smoothcert.registry import Plugin, Registry, setting, split_spec


class Network(Plugin, ABC):
    """Builds an architecture; a frozen dataclass whose fields are its sizes."""

    @abstractmethod
    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        """A fresh network from inputs of ``shape`` to ``classes`` logits, with random weights."""


@dataclass(frozen=True)
class Mlp(Network):
    """A multi-layer perceptron with ReLU, for inputs of any shape."""

    name = "mlp"

    width: int = setting(256, "Units of each hidden layer.", least=1)
    depth: int = setting(2, "Hidden layers.", least=1)

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return mlp(shape, classes, (self.width,) * self.depth)


@dataclass(frozen=True)
class Lenet(Network):
    """Two convolutions 5 × 5, then linear layers that know where in the picture things are, as in LeNet-5."""

    name = "lenet"

    width: int = setting(16, "Channels of the first convolution; the second has twice as many.", least=1)

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return lenet(shape, classes, self.width)


@dataclass(frozen=True)
class SmallCnn(Network):
    """Three stride-2 convolutions, global average pool, linear."""

    name = "small_cnn"

    width: int = setting(
        32, "Channels of the first convolution; each other has twice as many as the one before.", least=1
    )

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return small_cnn(shape, classes, (self.width, 2 * self.width, 4 * self.width))


@dataclass(frozen=True)
class TinyCnn(SmallCnn):
    """small_cnn at half the width: half of its time."""

    name = "tiny_cnn"

    width: int = setting(
        16, "Channels of the first convolution; each other has twice as many as the one before.", least=1
    )


@dataclass(frozen=True)
class ResNet18(Network):
    """ResNet-18 with the stem of CIFAR (He et al. 2016)."""

    name = "resnet18"

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return resnet18(shape, classes)


@dataclass(frozen=True)
class ResNet50(Network):
    """ResNet-50, with the stem of ImageNet from 64 pixels on (He et al. 2016)."""

    name = "resnet50"

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return resnet50(shape, classes)


@dataclass(frozen=True)
class ResNet110(Network):
    """Three stages of residual blocks, 16-32-64 channels; as it is, the network of Cohen et al. (2019) on CIFAR-10."""

    name = "resnet110"

    blocks: int = setting(18, "Blocks of two convolutions per stage: 18 make ResNet-110, 3 make ResNet-20.", least=1)

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return resnet110(shape, classes, self.blocks)


@dataclass(frozen=True)
class WideResNet40(Network):
    """Three stages of 6 wide blocks; as it is, WideResNet-40-2, the network of Yang et al. (2020) on CIFAR-10."""

    name = "wide_resnet40"

    width: int = setting(2, "How many times 16-32-64 channels.", least=1)

    def build(self, shape: Sequence[int], classes: int) -> nn.Module:
        return wide_resnet40(shape, classes, self.width)


MODELS: dict[str, type[Network]] = {
    kind.name: kind for kind in (Mlp, Lenet, TinyCnn, SmallCnn, ResNet18, ResNet50, ResNet110, WideResNet40)
}
REGISTRY: Registry[Network] = Registry("model", "smoothcert.models", MODELS, Network)  # type: ignore[type-abstract]


def is_registered(spec: str) -> bool:
    """Does this name an architecture that is built in, or that an installed package registered?

    >>> is_registered("mlp:width=64"), is_registered("my.models:resnet")
    (True, False)
    """
    return spec.partition(":")[0] in REGISTRY.names


def is_network(spec: str) -> bool:
    """Does this name a Network, registered or at package.module:Name?"""
    if is_registered(spec):
        return True
    place, _ = split_spec(spec)
    found = code_at(place) if is_factory(place) else None
    return isinstance(found, type) and issubclass(found, Network)
