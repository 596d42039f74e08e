"""UCAN's generators of noise parameters: small networks that give each coordinate its factor on the scale and its shift."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import SettingError, WeightsError

DATASET, PER_INPUT = "dataset", "per_input"
HIDDEN = (128, 256, 512, 1024)  # of the dataset-wise network, as released
SLOPE = 0.2
STEP = 10.0  # what the outputs are multiplied by, over their fan-in


@dataclass(frozen=True)
class Design:
    """A generator without its weights: its kind, the shape of one input, and the range of its factors.

    least bounds the factors from below, so that no coordinate is left without noise; most from above. shift: learn a loc
    too (UCAN's μ). width: channels of the certification-wise network.
    """

    kind: str
    shape: tuple[int, ...]
    least: float
    most: float
    shift: bool
    width: int

    def __post_init__(self) -> None:
        if self.kind not in (DATASET, PER_INPUT):
            raise SettingError(f"unknown kind of generator {self.kind!r}; known: {DATASET}, {PER_INPUT}")
        if not 0 < self.least < self.most < math.inf:
            raise SettingError(
                f"least={self.least} and most={self.most} bound the factors on the scale; allowed: 0 < least < most"
            )
        if self.width < 1:
            raise SettingError(f"width={self.width} must be at least 1; the published number is 16")
        if not self.shape or min(self.shape) < 1:
            raise SettingError(f"a generator needs an input shape of positive sizes; got {self.shape}")
        if self.kind == PER_INPUT and len(self.shape) != 3:
            raise SettingError(
                f"a per_input generator reads images (channels, height, width); got {self.shape}; use dataset"
            )

    def to_json(self) -> str:
        """One line of JSON, the same for equal designs."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Design:
        """The design that ``to_json`` wrote."""
        try:
            given: dict[str, Any] = json.loads(text)
            given["shape"] = tuple(int(size) for size in given["shape"])
            if set(given) != {field.name for field in fields(cls)}:
                raise ValueError(f"it has the fields {', '.join(given)}")
            return cls(**given)
        except (ValueError, KeyError, TypeError) as problem:
            raise WeightsError(f"the recorded generator cannot be read: {problem}; got {text[:80]!r}") from problem


class Generator(nn.Module):
    """From a batch to factors in [least, most] and shifts in [-1, 1]: (batch, *event), or (1, *event) if dataset-wise.

    Two networks ending in tanh, as published: shift = G1(x), factor = least + (most - least)·(1 + G2(x + shift·scale))/2.
    Published are factors |G2|·most, most = 1 (1.2 on CIFAR-10 and 3 on MNIST if dataset-wise): they have no lower bound,
    and one that is pressed to zero comes up again on the other side. Ours start near 1, the noise that was given, and the
    outputs are divided by their fan-in, so that a step of Adam moves a factor by about the learning rate: undivided, the
    last layer of 1024 overshoots in a few steps to where tanh has no slope, and stays there.
    """

    constant: Tensor

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.design = design
        self.factor = _network(design)
        self.shift = _network(design) if design.shift else None
        self.register_buffer("constant", torch.ones(1, 1), persistent=False)
        first = 2 * (1 - design.least) / (design.most - design.least) - 1
        self.first = math.atanh(first) if abs(first) < 0.99 else 0.0
        self.gain = STEP / (HIDDEN[-1] if design.kind == DATASET else 9 * design.width)

    def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The factors and the shifts, for noise that starts from this scale."""
        design = self.design
        reads = design.kind == PER_INPUT
        seen = x if reads else self.constant
        shift = torch.zeros((1, *design.shape), device=x.device)
        if self.shift is not None:
            shift = (self.gain * self.shift(seen)).tanh().reshape(-1, *design.shape)
            seen = seen + shift * scale if reads else seen
        raw = (self.first + self.gain * self.factor(seen)).tanh().reshape(-1, *design.shape)
        return design.least + (design.most - design.least) * (1 + raw) / 2, shift


class DenseBlock(nn.Module):
    """Five 3×3 convolutions, each reading the input and all outputs before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(width * (1 + n), width, 3, padding=1) for n in range(5))
        self.activation = nn.LeakyReLU(SLOPE)

    def forward(self, x: Tensor) -> Tensor:
        """The output of the last convolution."""
        *inner, last = self.convolutions
        for convolution in inner:
            x = torch.cat([x, self.activation(convolution(x))], dim=1)
        output: Tensor = last(x)
        return output


def _network(design: Design) -> nn.Sequential:
    """The published network of its kind, without the last tanh."""
    if design.kind == DATASET:
        sizes = (1, *HIDDEN)
        layers: list[nn.Module] = []
        for before, after in zip(sizes, HIDDEN, strict=False):
            layers += [nn.Linear(before, after), nn.LeakyReLU(SLOPE)]
        return nn.Sequential(*layers, nn.Linear(HIDDEN[-1], math.prod(design.shape)))
    channels = design.shape[0]
    return nn.Sequential(
        nn.Conv2d(channels, design.width, 3, padding=1),
        DenseBlock(design.width),
        nn.Conv2d(design.width, channels, 3, padding=1),
    )
