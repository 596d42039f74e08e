"""Data sets by name or by path, without torch.

``digits`` comes with the package; ``mnist``, ``fashion_mnist`` and ``cifar10`` are read from torchvision's folders, or
downloaded; a path to an ``.npz`` file, to a folder of class folders or of images, or to one image is a data set too. To add one, write a loader and
its line in ``DATASETS``.

>>> test = load("digits")
>>> test.inputs([0, 1]).shape, test.truths([0, 1])
((2, 1, 28, 28), [7, 2])
>>> load("cifar")
Traceback (most recent call last):
smoothcert.errors.UnknownName: unknown data set 'cifar'; did you mean 'cifar10'? known: digits, mnist, fashion_mnist, \
cifar10, FILE.npz, folder:PATH
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from smoothcert.data.arrays import load_npz
from smoothcert.data.base import PIXEL_GRID, ArrayDataset, Dataset, FloatArray, Progress
from smoothcert.data.cifar10 import load_cifar10
from smoothcert.data.digits import load_digits
from smoothcert.data.folder import SUFFIXES, ImageFolder
from smoothcert.data.mnist import load_fashion_mnist, load_mnist
from smoothcert.data.selection import choose_indices, parse_indices
from smoothcert.errors import SettingError, look_up

__all__ = [
    "DATASETS",
    "PIXEL_GRID",
    "SPLITS",
    "ArrayDataset",
    "Dataset",
    "FloatArray",
    "ImageFolder",
    "Loader",
    "Progress",
    "choose_indices",
    "data_root",
    "load",
    "load_npz",
    "parse_indices",
]

Loader = Callable[[Path, str, bool, Progress | None], Dataset]
"""Called with the root folder, the split, whether to download, and whom to tell of the progress."""

DATASETS: dict[str, Loader] = {
    "digits": load_digits,
    "mnist": load_mnist,
    "fashion_mnist": load_fashion_mnist,
    "cifar10": load_cifar10,
}

SPLITS = ("train", "test")
FOLDER_PREFIX = "folder:"


def load(
    name: str,
    *,
    root: str | os.PathLike[str] | None = None,
    split: str = "test",
    download: bool = False,
    size: int | None = None,
    crop: int | None = None,
    classes: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """The data set of this name: a key of DATASETS, a path ending in .npz, ``folder:PATH``, or a path to a folder or image.

    A file or a folder holds one split, so there ``split`` changes nothing: name the one you want. ``size`` and ``crop``
    resize the images of a folder, ``classes`` numbers its classes (see ImageFolder), and they go with nothing else. A key
    of DATASETS comes before a folder of that name.
    """
    look_up("split", split, dict.fromkeys(SPLITS))
    path = _folder_path(name)
    if path is not None:
        return ImageFolder(path, size, crop=crop, classes=classes)
    for option, value in {"size": size, "crop": crop, "classes": classes}.items():
        if value is not None:
            raise SettingError(
                f"{option}={value} was given for {name!r}; it is for folders of images only: leave it out"
            )
    if name not in DATASETS and name.endswith(".npz"):
        return load_npz(Path(name).expanduser())
    # The two last names are no keys: they tell whoever reads the error what else is allowed.
    loader = look_up("data set", name, {**DATASETS, "FILE.npz": load_mnist, "folder:PATH": load_mnist})
    return loader(data_root(root), split, download, progress)


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that data sets are read from and downloaded to.

    The one given, else that of the environment variable SMOOTHCERT_DATA, else ~/.cache/smoothcert/data.

    >>> data_root("somewhere").name
    'somewhere'
    """
    chosen = root if root is not None else os.environ.get("SMOOTHCERT_DATA") or "~/.cache/smoothcert/data"
    return Path(chosen).expanduser()


def _folder_path(name: str) -> Path | None:
    """The folder of images, or the image, that the name stands for, or None when it stands for something else."""
    if name.startswith(FOLDER_PREFIX):
        return Path(name.removeprefix(FOLDER_PREFIX)).expanduser()
    if name in DATASETS or name.endswith(".npz"):
        return None
    path = Path(name).expanduser()
    # A name with a separator can only be a path: if nothing is there, say so rather than list the names.
    picture = path.suffix.lower() in SUFFIXES and path.is_file()
    return path if picture or path.is_dir() or len(path.parts) > 1 else None
