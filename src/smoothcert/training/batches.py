"""The training data: checked once, put in order by the seed, handed out as float batches in [0, 1]."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from smoothcert.errors import DataError, SettingError
from smoothcert.fronts.front import fingerprint_of

PADDING = 4  # of pictures of 28 pixels and more


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs (count, *event), uint8 or float32, and their labels (count,), int64."""

    inputs: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """The inputs as float32, bytes divided by 255, and the labels."""
        chosen = indices.numpy()
        x = torch.from_numpy(self.inputs[chosen]).to(device)
        if x.dtype == torch.uint8:
            x = x.float().div_(255)
        return x, torch.from_numpy(self.labels[chosen]).to(device)

    def digest(self) -> str:
        """A hash of the data, to tell whether a resumed run sees the same."""
        digest = hashlib.sha256(f"{self.inputs.dtype} {self.inputs.shape}".encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        digest.update(np.ascontiguousarray(self.labels).data)
        return digest.hexdigest()


def examples(
    inputs: NDArray[Any], labels: NDArray[Any], classes: int, kind: str = "training", every_class: bool = False
) -> Examples:
    """The arrays as Examples, or a DataError that says what is wrong with them; ``every_class`` must occur if set.

    >>> examples(np.zeros((2, 3), np.uint8), np.array([0, 7]), classes=3)
    Traceback (most recent call last):
    smoothcert.errors.DataError: training labels must be from 0 to 2, for 3 classes; got 0 to 7
    """
    inputs, labels = np.asarray(inputs), np.asarray(labels)
    if inputs.dtype not in (np.uint8, np.float32):
        raise DataError(f"{kind} inputs must be uint8 or float32; got {inputs.dtype}; convert them with astype")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{kind} labels must be integers (count,); got {labels.dtype} of shape {labels.shape}")
    if inputs.ndim < 2 or len(inputs) != len(labels) or inputs.size == 0:
        raise DataError(
            f"{kind} data must be inputs (count, ...) with one label each, and not empty; "
            f"got inputs of shape {inputs.shape} and {len(labels)} labels"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(
            f"{kind} labels must be from 0 to {classes - 1}, for {classes} classes; "
            f"got {labels.min()} to {labels.max()}"
        )
    missing = np.setdiff1d(np.arange(classes), labels)
    if every_class and missing.size:
        raise DataError(
            f"{kind} data of {classes} classes must hold every class; there is no input of class "
            f"{', '.join(map(str, missing[:5]))}{' and others' if missing.size > 5 else ''}; give more data (a larger limit), "
            "or number the labels without gaps"
        )
    if inputs.dtype == np.float32 and not np.isfinite(inputs).all():
        raise DataError(f"{kind} inputs hold NaN or infinite values; every value must be finite")
    return Examples(inputs, labels.astype(np.int64))


def fingerprints(inputs: NDArray[Any]) -> frozenset[int]:
    """Each input by its content, as a batch holds it: what is chosen with them is frozen there."""
    bytes_ = inputs.dtype == np.uint8
    return frozenset(fingerprint_of(row / np.float32(255) if bytes_ else row) for row in inputs)


def generator_of(seed: int, epoch: int, purpose: str, device: torch.device) -> torch.Generator:
    """A generator keyed by (seed, epoch, purpose), so an epoch draws the same after a resume."""
    return torch.Generator(device).manual_seed(key_of(seed, epoch, purpose))


def key_of(seed: int, epoch: int, purpose: str) -> int:
    """A 63-bit number from (seed, epoch, purpose).

    >>> key_of(0, 1, "noise") == key_of(0, 1, "order")
    False
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{epoch}/{purpose}".encode()).digest()[:8], "big") >> 1


def held_out(indices: Sequence[int], count: int, seed: int) -> tuple[list[int], list[int]]:
    """The indices in order without ``count`` of them, and those, chosen by the seed.

    >>> kept, chosen = held_out(range(100), 10, seed=0)
    >>> len(kept), len(chosen), sorted(kept + chosen) == list(range(100))
    (90, 10, True)
    """
    if not 0 <= count < len(indices):
        raise SettingError(
            f"validation={count} inputs cannot be held out of {len(indices)}; give a number from 0 to {len(indices) - 1}"
        )
    mixed = torch.randperm(len(indices), generator=generator_of(seed, 0, "held out", torch.device("cpu"))).tolist()
    return [indices[at] for at in sorted(mixed[count:])], [indices[at] for at in sorted(mixed[:count])]


def batches_of(order: Tensor, size: int) -> list[Tensor]:
    """``order`` cut into batches; a last batch of one joins its neighbour, since batch norm cannot train on one.

    >>> [len(batch) for batch in batches_of(torch.arange(7), 3)]
    [3, 4]
    """
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def augmented(x: Tensor, generator: torch.Generator, flip: bool) -> Tensor:
    """Images cropped at random from themselves padded by 4 zeros, small ones by an eighth, and half of them mirrored if ``flip``."""
    if x.dim() != 4:
        raise SettingError(
            f"augment needs images (count, channels, height, width); got {tuple(x.shape)}; set augment to False"
        )
    count, channels, height, width = x.shape
    padding = min(PADDING, round(min(height, width) / 8))
    top, left = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=generator, device=x.device)
    rows = (top + torch.arange(height, device=x.device))[:, None, :, None]
    columns = (left + torch.arange(width, device=x.device))[:, None, None, :]
    image = torch.arange(count, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    cropped = functional.pad(x, (padding,) * 4)[image, channel, rows, columns]
    if not flip:
        return cropped
    mirror = torch.rand(count, 1, 1, 1, generator=generator, device=x.device) < 0.5
    return torch.where(mirror, cropped.flip(-1), cropped)
