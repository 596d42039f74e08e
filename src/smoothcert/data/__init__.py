"""Data sets by name or by path, without torch.

``digits`` comes with the package; ``mnist``, ``fashion_mnist`` and ``cifar10`` are read from torchvision's folders, or
downloaded; a path to an ``.npz``, ``.npy``, ``.csv``, ``.parquet`` or
``.zarr`` file, to a folder of class folders or of images, or to one image is a data set too, here or behind
a URL (``s3://…``). To add one, write a Source and its line in ``DATASETS``.

>>> test = load("digits")
>>> test.inputs([0, 1]).shape, test.truths([0, 1])
((2, 1, 28, 28), [7, 2])
>>> len(load("digits:split=train"))
4000
>>> load("cifar")
Traceback (most recent call last):
smoothcert.errors.UnknownName: unknown data set 'cifar'; did you mean 'cifar10'? known: digits, mnist, fashion_mnist, \
cifar10, folder, npz, npy, csv, parquet, zarr, hub
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from smoothcert.data.arrays import load_npz
from smoothcert.data.base import PIXEL_GRID, Dataset, FloatArray, Progress
from smoothcert.data.folder import SUFFIXES, ImageFolder
from smoothcert.data.guests import as_dataset
from smoothcert.data.rows import ArrayDataset, RowDataset, Rows, Survey
from smoothcert.data.selection import choose_indices, parse_indices
from smoothcert.data.sources import (
    SPLITS,
    TEST,
    Arrays,
    Cifar10,
    Csv,
    Digits,
    FashionMnist,
    Folder,
    Hub,
    Mnist,
    Npy,
    Parquet,
    Source,
    Zarr,
    data_root,
)
from smoothcert.errors import SettingError, look_up
from smoothcert.files import is_url
from smoothcert.registry import Registry, parameters

__all__ = [
    "DATASETS",
    "PIXEL_GRID",
    "REGISTRY",
    "SPLITS",
    "ArrayDataset",
    "Dataset",
    "FloatArray",
    "ImageFolder",
    "Progress",
    "RowDataset",
    "Rows",
    "Source",
    "Survey",
    "as_dataset",
    "choose_indices",
    "data_root",
    "load",
    "load_npz",
    "parse_indices",
    "source_named",
]

DATASETS: dict[str, type[Source]] = {
    "digits": Digits,
    "mnist": Mnist,
    "fashion_mnist": FashionMnist,
    "cifar10": Cifar10,
    "folder": Folder,
    "npz": Arrays,
    "npy": Npy,
    "csv": Csv,
    "parquet": Parquet,
    "zarr": Zarr,
    "hub": Hub,
}
FILES: dict[str, Callable[[str], Source]] = {
    ".npz": Arrays,
    ".npy": Npy,
    ".csv": Csv,
    ".parquet": Parquet,
    ".zarr": Zarr,
}
"""Files that are a data set by their ending."""
REGISTRY: Registry[Source] = Registry("data set", "smoothcert.data", DATASETS, Source)  # type: ignore[type-abstract]


def load(
    name: str,
    *,
    root: str | os.PathLike[str] | None = None,
    split: str = TEST,
    download: bool = False,
    size: int | None = None,
    crop: int | None = None,
    classes: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """The data set of this name or path; the keywords fill in what parameters after the name do not say.

    A file or a folder holds one split, so there ``split`` changes nothing: name the one you want. ``size`` and ``crop``
    resize the images of a folder, ``classes`` numbers its classes (see ImageFolder), and they go with nothing else.
    """
    look_up("split", split, dict.fromkeys(SPLITS))
    source = source_named(name)
    known = parameters(type(source))
    where = None if root is None else os.fspath(root)
    images = {"size": size, "crop": crop, "classes": classes}
    for option, value in images.items():
        if value is not None and option not in known:
            raise SettingError(
                f"{option}={value} was given for {name!r}; it is for folders of images only: leave it out"
            )
    given = {"root": where, "split": split, "download": download, **images}
    filled = {key: value for key, value in given.items() if key in known and getattr(source, key) is None}
    return replace(source, **filled).load(progress)  # type: ignore[type-var]


def source_named(name: str) -> Source:
    """Where the data of this name are: a name comes before a folder that is called so, a path before a module."""
    path = Path(name).expanduser()
    if name.partition(":")[0] in REGISTRY.names:
        return REGISTRY.make(name)
    if path.suffix.lower() in FILES:
        return FILES[path.suffix.lower()](name)
    picture = path.suffix.lower() in SUFFIXES and path.is_file()
    # A name with a separator can only be a path: if nothing is there, say so rather than list the names.
    is_path = picture or is_url(name) or path.is_dir() or (len(path.parts) > 1 and ":" not in name)
    return Folder(name) if is_path else REGISTRY.make(name)
