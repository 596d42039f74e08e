"""Small convolutional networks for pictures of about 30 × 30 pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from smoothcert.errors import ModelError


def small_cnn(shape: Sequence[int], classes: int, widths: Sequence[int] = (32, 64, 128)) -> nn.Module:
    """Three stride-2 convolutions, global average pool, linear: images (channels, height, width) to ``classes`` logits.

    >>> import torch
    >>> small_cnn((3, 32, 32), classes=10).eval()(torch.zeros(5, 3, 32, 32)).shape
    torch.Size([5, 10])
    """
    check_image("small_cnn", shape, classes)
    layers: list[nn.Module] = []
    for before, after in zip((shape[0], *widths), widths, strict=False):
        layers += _convolution(before, after)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def lenet(shape: Sequence[int], classes: int, width: int = 16) -> nn.Module:
    """Two stride-2 convolutions 5 × 5, then linear layers that know where in the picture things are, as in LeNet-5."""
    check_image("lenet", shape, classes)
    layers = _convolution(shape[0], width, 5) + _convolution(width, 2 * width, 5)
    pixels = math.prod((side + 3) // 4 for side in shape[1:])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * width * pixels, 128), nn.ReLU(), nn.Linear(128, classes))


def _convolution(before: int, after: int, size: int = 3) -> list[nn.Module]:
    """Halve height and width; the bias is left to the batch norm, which has its own."""
    convolution = nn.Conv2d(before, after, kernel_size=size, stride=2, padding=size // 2, bias=False)
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
