"""Residual networks (He et al. 2016) and the wide ones (Zagoruyko and Komodakis 2016), for images of any size.

ResNet-18, ResNet-110 and WideResNet-40-2 have the 3×3 stem used on CIFAR. ResNet-50 has it for small images, and
the 7×7 stem of ImageNet from 64 pixels on.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from smoothcert.models.small_cnn import check_image

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and stride of each stage
NARROW_STAGES = ((16, 1), (32, 2), (64, 2))
LARGE = 64  # pixels of the shorter side from which the stem of ImageNet is used
EXPANSION = 4


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and the input added back, by a 1×1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_convolved(before, after, 3, stride), nn.ReLU(), *_convolved(after, after, 3))
        self.skip = _skip(before, after, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        output: Tensor = self.relu(self.body(x) + self.skip(x))
        return output


class Bottleneck(BasicBlock):
    """1×1, 3×3 and 1×1 convolutions to four times the channels, and the input added back."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        nn.Module.__init__(self)
        wide = EXPANSION * after
        self.body = nn.Sequential(
            *(*_convolved(before, after, 1), nn.ReLU()),
            *(*_convolved(after, after, 3, stride), nn.ReLU()),
            *_convolved(after, wide, 1),
        )
        self.skip = _skip(before, wide, stride)
        self.relu = nn.ReLU()


class PreactivatedBlock(nn.Module):
    """Batch norm and ReLU before each of two 3×3 convolutions; the input is added back as it came."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(before), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
        )
        self.skip = None if before == after else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        active = self.first(x)
        output: Tensor = self.body(active) + (x if self.skip is None else self.skip(active))
        return output


def resnet18(shape: Sequence[int], classes: int) -> nn.Module:
    """ResNet-18 for inputs (channels, height, width)."""
    check_image("resnet18", shape, classes)
    return nn.Sequential(*_stem(shape[0], 64), *_stages(BasicBlock, 64, STAGES, (2, 2, 2, 2)), *_head(512, classes))


def resnet50(shape: Sequence[int], classes: int) -> nn.Module:
    """ResNet-50 for inputs (channels, height, width).

    >>> sum(p.numel() for p in resnet50((3, 224, 224), 1000).parameters())  # as published
    25557032
    """
    check_image("resnet50", shape, classes)
    if min(shape[1:]) < LARGE:
        stem = _stem(shape[0], 64)
    else:
        wide = nn.Conv2d(shape[0], 64, 7, 2, 3, bias=False)
        stem = [wide, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *_stages(Bottleneck, 64, STAGES, (3, 4, 6, 3)), *_head(EXPANSION * 512, classes))


def resnet110(shape: Sequence[int], classes: int, blocks: int = 18) -> nn.Module:
    """ResNet-110: three stages of 18 blocks, 16-32-64 channels; the network of Cohen et al. (2019) on CIFAR-10."""
    check_image("resnet110", shape, classes)
    return nn.Sequential(
        *_stem(shape[0], 16), *_stages(BasicBlock, 16, NARROW_STAGES, (blocks,) * 3), *_head(64, classes)
    )


def wide_resnet40(shape: Sequence[int], classes: int, width: int = 2) -> nn.Module:
    """WideResNet-40-2: three stages of 6 blocks, 32-64-128 channels; the network of Yang et al. (2020) on CIFAR-10."""
    check_image("wide_resnet40", shape, classes)
    stages = tuple((width * channels, stride) for channels, stride in NARROW_STAGES)
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False),
        *_stages(PreactivatedBlock, 16, stages, (6, 6, 6)),
        nn.BatchNorm2d(64 * width),
        nn.ReLU(),
        *_head(64 * width, classes),
    )


def _convolved(before: int, after: int, size: int, stride: int = 1) -> list[nn.Module]:
    """A convolution that keeps the size, but for the stride, and its batch norm."""
    return [nn.Conv2d(before, after, size, stride, size // 2, bias=False), nn.BatchNorm2d(after)]


def _skip(before: int, after: int, stride: int) -> nn.Module:
    same = before == after and stride == 1
    return nn.Identity() if same else nn.Sequential(*_convolved(before, after, 1, stride))


def _stem(channels: int, width: int) -> list[nn.Module]:
    return [*_convolved(channels, width, 3), nn.ReLU()]


def _stages(
    block: type[nn.Module], before: int, stages: Sequence[tuple[int, int]], depths: Sequence[int]
) -> list[nn.Module]:
    """So many blocks per stage; the first of a stage takes its stride."""
    layers: list[nn.Module] = []
    for (width, stride), depth in zip(stages, depths, strict=True):
        after = EXPANSION * width if block is Bottleneck else width
        layers += [block(before, width, stride), *(block(after, width, 1) for _ in range(depth - 1))]
        before = after
    return layers


def _head(width: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
