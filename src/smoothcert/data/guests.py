"""Data that a user holds in other hands, as a Dataset: arrays, torch data sets and loaders, Hugging Face, data frames.

What has a length and gives item i is read by item and never held: once for its fingerprint, its grid and its labels, and then
when an input is certified, which must be the same again. What can only be gone through is read into memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import Dataset
from smoothcert.data.rows import Rows, Survey, surveyed
from smoothcert.data.tables import LABELS, labelled, of_columns
from smoothcert.errors import DataError

Pair = tuple[npt.NDArray[Any], Any]  # an input, and its label or None
LOOKED_AT_TWICE = 8  # items; a transform that flips every second one is noticed but for 1 time in 256
INPUTS = ("pixel_values", "image", "img", "inputs", "input", "features", "x")
"""What the input of an item with named parts is called, if nobody says: the first of these that is there."""
ALLOWED = (
    "arrays or tensors (x, or x and y), a torch Dataset or DataLoader, a Hugging Face dataset, a data frame of pandas or polars, "
    "or the name or path of a data set"
)


@runtime_checkable
class Indexed(Protocol):
    """What has a length and gives item i, such as a torch data set."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def as_dataset(
    data: Any, labels: Any = None, *, input: str | None = None, label: str | None = None, name: str = "data"
) -> Dataset:
    """The data, each input under the index that it has there, with its labels if there are any.

    data: arrays or tensors, x or the pair (x, y); a torch Dataset, or a DataLoader, whose data set is taken in its own order
    whatever the loader's; a Hugging Face dataset; a data frame, every column but the labels a coordinate; the name or path of
    a data set. input, label: which part of an item, or column, they are, where the usual names do not tell.

    >>> as_dataset(np.eye(3), [0, 1, 2]).truths([2])
    [2]
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        from smoothcert.data import load  # the registry is in the package, which imports this file

        return load(str(data))
    if _is_a(data, "pandas", "DataFrame") or _is_a(data, "polars", "DataFrame"):
        return of_columns(name, {str(title): data[title].to_numpy() for title in data.columns}, label)
    if isinstance(data, tuple) and len(data) == 2 and labels is None:
        data, labels = data
    if _is_array(data):
        return labelled(name, surveyed(name, _array(data)), None if labels is None else _array(labels))
    source, collate = _source(data)
    rows = ItemRows(name, _indexed(source), lambda item: _parts(collate(item), input, label))
    survey = Survey(name, rows)
    found = labelled(name, survey, rows.truths())
    found.inputs(range(min(LOOKED_AT_TWICE, len(found))))
    return found


class ItemRows(Rows):
    """The inputs of items, each asked for when it is read; their labels are held."""

    def __init__(self, name: str, items: Indexed, parts: Callable[[Any], Pair]) -> None:
        if not len(items):
            raise DataError("the data set is empty; give one with inputs")
        self._name, self._items, self._parts = name, items, parts
        self._labels: list[Any] = [None] * len(items)
        first, _ = parts(items[0])
        self.shape, self.dtype = (len(items), *first.shape), first.dtype

    def read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        values = np.empty((len(indices), *self.shape[1:]), dtype=self.dtype)
        for row, index in enumerate(indices.tolist()):
            value, self._labels[index] = self._parts(self._items[index])
            if value.shape != self.shape[1:] or value.dtype != self.dtype:
                raise DataError(
                    f"input {index} of {self._name!r} is {value.dtype} of shape {value.shape}, and the first {self.dtype} of shape "
                    f"{self.shape[1:]}; all must be alike: resize, crop, pad or convert them"
                )
            values[row] = value
        return values

    def truths(self) -> npt.NDArray[Any] | None:
        """The labels, once all items were read; None if there are none."""
        missing = sum(label is None for label in self._labels)
        if 0 < missing < len(self._labels):
            raise DataError(f"{missing} of {len(self._labels)} inputs have no label; give all of them one, or none")
        return None if missing else np.asarray(self._labels)


def is_batch(data: Any) -> bool:
    """Is this a batch of inputs, rather than a data set?"""
    return _is_array(data) or isinstance(data, list)


def _source(data: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Where the items are, and what is done to each: a loader is asked for its data set, since its order may change.

    A sampler that may leave out or repeat inputs is refused: which ones are meant could not be told from it.
    """
    if not _is_a(data, "torch.utils.data", "DataLoader"):
        return data, lambda item: item
    library = sys.modules["torch.utils.data"]
    if not _is_a(data.dataset, "torch.utils.data", "IterableDataset"):
        sampler, number = data.sampler, len(data.dataset)
        mixed = isinstance(sampler, library.RandomSampler) and not sampler.replacement and len(sampler) == number
        if not (mixed or type(sampler) is library.SequentialSampler) or type(data.batch_sampler) not in (
            library.BatchSampler,
            type(None),
        ):
            raise DataError(
                f"the loader chooses its inputs by a {type(sampler).__name__} or batch sampler of its own, so their indices cannot "
                "be told; give its data set (loader.dataset), and indices=… for a part of it"
            )
    plain = (library.default_collate, library.default_convert)
    return data.dataset, (lambda item: item) if data.collate_fn in plain else lambda item: _first_of(
        data.collate_fn([item])
    )


def _indexed(data: Any) -> Indexed:
    """The items by index; those that can only be gone through, in memory."""
    if isinstance(data, Indexed) and not _is_a(data, "torch.utils.data", "IterableDataset"):
        return data
    if isinstance(data, Iterable) and not isinstance(data, Iterator | Mapping):
        return list(data)
    raise DataError(f"a {type(data).__name__} is no data set; allowed are {ALLOWED}")


def _first_of(batch: Any) -> Any:
    """The one item of a batch."""
    if isinstance(batch, Mapping):
        return {name: part[0] for name, part in batch.items()}
    return tuple(part[0] for part in batch) if isinstance(batch, tuple | list) else batch[0]


def _parts(item: Any, input: str | None, label: str | None) -> Pair:
    """The input of an item as an array, and its label or None."""
    if isinstance(item, Mapping):
        key = input if input is not None else next((each for each in INPUTS if each in item), None)
        truth = label if label is not None else next((each for each in LABELS if each in item), None)
        if key not in item or (label is not None and label not in item):
            raise DataError(
                f"an item has the parts {', '.join(map(str, item))}; say which is the input and which the label: "
                "as_dataset(data, input=…, label=…)"
            )
        return _array(item[key]), None if truth is None else _plain(item[truth])
    if isinstance(item, tuple | list) and len(item) and (_is_array(item[0]) or not np.isscalar(item[0])):
        return _array(item[0]), _plain(item[1]) if len(item) > 1 else None
    return _array(item), None


def _is_a(value: Any, module: str, kind: str) -> bool:
    """Is it of this class of a library? What was never imported has no members."""
    found = getattr(sys.modules.get(module), kind, None)
    return isinstance(found, type) and isinstance(value, found)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or _is_a(value, "torch", "Tensor")


def _plain(label: Any) -> Any:
    """A label as a number or a word."""
    return _array(label).item() if _is_array(label) else label


def _array(value: Any) -> npt.NDArray[Any]:
    """Numbers as an array; a picture as its pixels, (channels, height, width)."""
    if _is_a(value, "torch", "Tensor"):
        value = value.detach().cpu()
        short = (
            value.is_floating_point() and value.element_size() < 4
        )  # numpy knows but one of these, and float32 holds all
        value = (value.float() if short else value).numpy()
    if _is_a(value, "PIL.Image", "Image"):
        pixels = np.asarray(value if value.mode in ("L", "RGB") else value.convert("RGB"))
        return pixels.reshape(value.height, value.width, -1).transpose(2, 0, 1)
    return value if isinstance(value, np.memmap) else np.asarray(value)
