"""ResNet-18 for small images (He et al. 2016, with the 3×3 stem used on CIFAR)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from smoothcert.models.small_cnn import check_image

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and stride of each pair of blocks


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and the input added back, by a 1×1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = before == after and stride == 1
        self.skip = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        output: Tensor = self.relu(self.body(x) + self.skip(x))
        return output


def resnet18(shape: Sequence[int], classes: int) -> nn.Module:
    """ResNet-18 for inputs (channels, height, width)."""
    check_image("resnet18", shape, classes)
    layers: list[nn.Module] = [nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for after, stride in STAGES:
        layers += [BasicBlock(before, after, stride), BasicBlock(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
