"""A small convolutional network: three stride-2 convolutions 32-64-128, global average pool, linear."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from smoothcert.errors import ModelError


def small_cnn(shape: Sequence[int], classes: int, widths: Sequence[int] = (32, 64, 128)) -> nn.Module:
    """A fresh convolutional network from images of ``shape`` (channels, height, width) to ``classes`` logits.

    >>> import torch
    >>> small_cnn((3, 32, 32), classes=10).eval()(torch.zeros(5, 3, 32, 32)).shape
    torch.Size([5, 10])
    """
    check_image("small_cnn", shape, classes)
    layers: list[nn.Module] = []
    for before, after in zip((shape[0], *widths), widths, strict=False):
        layers += _convolution(before, after)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def tiny_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """The same at half the width: a third of the time."""
    return small_cnn(shape, classes, (16, 32, 64))


def _convolution(before: int, after: int) -> list[nn.Module]:
    """Halve height and width; the bias is left to the batch norm, which has its own."""
    convolution = nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def check_image(name: str, shape: Sequence[int], classes: int) -> None:
    """Raise ModelError unless the network ``name`` can be built for such images and classes."""
    if len(shape) != 3 or min(shape) < 1:
        raise ModelError(
            f"{name} needs an input shape (channels, height, width) of positive sizes; got {tuple(shape)}; "
            "for other shapes use mlp"
        )
    if classes < 2:
        raise ModelError(f"a classifier needs 2 classes or more; got {classes}")
