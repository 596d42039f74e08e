"""Where inputs come from, one class per kind: its fields are what may follow its name, as in ``cifar10:split=train``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from smoothcert.data.arrays import load_npy, load_npz
from smoothcert.data.base import Dataset, Progress
from smoothcert.data.cifar10 import load_cifar10
from smoothcert.data.digits import load_digits
from smoothcert.data.folder import ImageFolder
from smoothcert.data.guests import as_dataset
from smoothcert.data.mnist import FASHION_MNIST, MNIST, load_family
from smoothcert.data.tables import load_csv, load_parquet
from smoothcert.data.zarrs import load_zarr
from smoothcert.errors import DataError
from smoothcert.extras import import_extra
from smoothcert.files import path_of
from smoothcert.registry import Plugin, setting

TRAIN, TEST = SPLITS = ("train", "test")


class Source(Plugin, ABC):
    """Gives a data set; a frozen dataclass whose fields say which. What is None may be filled in by whoever loads it."""

    @abstractmethod
    def load(self, progress: Progress | None = None) -> Dataset:
        """The data set; a download tells ``progress``."""


@dataclass(frozen=True)
class Split(Source):
    """A data set of two splits."""

    split: str | None = setting(None, "train or test; else train to train, and test.", choices=SPLITS)


@dataclass(frozen=True)
class Digits(Split):
    """5 000 handwritten digits, (1, 28, 28), which come with the package."""

    name = "digits"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_digits(self.split or TEST)


@dataclass(frozen=True)
class Stored(Split):
    """A data set in the folders of torchvision, or downloaded."""

    root: str | None = setting(None, "Where data sets are kept; else SMOOTHCERT_DATA, or ~/.cache/smoothcert/data.")
    download: bool | None = setting(None, "Fetch it if it is missing; else commands do, and Python does not.")

    @property
    def asked(self) -> tuple[Path, str, bool]:
        """The folder, the split, and whether to download."""
        return data_root(self.root), self.split or TEST, bool(self.download)


@dataclass(frozen=True)
class Mnist(Stored):
    """MNIST: handwritten digits, (1, 28, 28)."""

    name = "mnist"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_family(MNIST, *self.asked, progress)


@dataclass(frozen=True)
class FashionMnist(Stored):
    """Fashion-MNIST: clothes, (1, 28, 28)."""

    name = "fashion_mnist"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_family(FASHION_MNIST, *self.asked, progress)


@dataclass(frozen=True)
class Cifar10(Stored):
    """CIFAR-10: small photographs, (3, 32, 32)."""

    name = "cifar10"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_cifar10(*self.asked, progress)


@dataclass(frozen=True)
class Folder(Source):
    """Images in class folders, in one folder, or a single one; its bare path will do."""

    name = "folder"

    path: str = setting(help="A folder of class folders or of images, or an image; here or behind a URL.")
    size: int | None = setting(None, "Resize the shorter side to this, and crop.")
    crop: int | None = setting(None, "After size, cut out the centre of so many pixels: size=256,crop=224. Else size.")
    classes: str | None = setting(
        None,
        "numbers (the folders' names), imagenet (wnids in its order), sorted (folders by name), or a text file: a class "
        "folder per line, or a folder or image and its class number. Else the first rule that fits the folders' names.",
    )

    gray: bool = setting(False, "Grey pictures, (1, height, width), instead of colour.")

    def load(self, progress: Progress | None = None) -> Dataset:
        return ImageFolder(path_of(self.path), self.size, self.gray, crop=self.crop, classes=self.classes)


@dataclass(frozen=True)
class File(Source):
    """A data set in one file."""

    path: str = setting(help="The file, here or behind a URL such as s3://bucket/file.")


@dataclass(frozen=True)
class Arrays(File):
    """An .npz file with x and, if there are labels, y; its bare path will do."""

    name = "npz"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_npz(path_of(self.path), progress)


@dataclass(frozen=True)
class Npy(File):
    """An .npy file of inputs, read by row; its bare path will do."""

    name = "npy"

    labels: str | None = setting(None, "The .npy file of labels; else there are none.")

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_npy(path_of(self.path), None if self.labels is None else path_of(self.labels), progress)


@dataclass(frozen=True)
class Zarr(Source):
    """A Zarr array, or a group with x and, if there are labels, y, read by chunks; its bare path will do."""

    name = "zarr"

    path: str = setting(help="The array or group, here or behind a URL such as s3://bucket/data.zarr.")

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_zarr(self.path, progress)


@dataclass(frozen=True)
class Table(File):
    """A file with a column per coordinate."""

    label: str | None = setting(None, "The column of labels; else label, labels, target, class or y, or none.")


@dataclass(frozen=True)
class Csv(Table):
    """A CSV file whose first line names the columns; its bare path will do."""

    name = "csv"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_csv(path_of(self.path), self.label)


@dataclass(frozen=True)
class Parquet(Table):
    """A Parquet file, read by pyarrow; its bare path will do."""

    name = "parquet"

    def load(self, progress: Progress | None = None) -> Dataset:
        return load_parquet(path_of(self.path), self.label, progress)


@dataclass(frozen=True)
class Hub(Split):
    """A data set of the Hugging Face hub, or in a folder, read by datasets; it is fetched if it is missing."""

    name = "hub"

    path: str = setting("", "Its name there, such as ylecun/mnist.")
    config: str | None = setting(None, "Which of its configurations, if it has several.")
    input: str | None = setting(None, "The part that is the input; else image, img, pixel_values, …")
    label: str | None = setting(None, "The part that is the label; else label, labels, target, …")

    def load(self, progress: Progress | None = None) -> Dataset:
        datasets = import_extra("datasets", "data sets of the Hugging Face hub")
        try:
            rows = datasets.load_dataset(self.path, self.config, split=self.split or TEST)
        except Exception as error:  # no network, no such data set, a script: datasets raises of all kinds
            raise DataError(
                f"{self.path!r} cannot be read from the Hugging Face hub: {error}; give its name there, as owner/name, or a folder"
            ) from error
        return as_dataset(rows, input=self.input, label=self.label, name=self.path)


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that data sets are read from and downloaded to.

    The one given, else that of the environment variable SMOOTHCERT_DATA, else ~/.cache/smoothcert/data.

    >>> data_root("somewhere").name
    'somewhere'
    """
    chosen = root if root is not None else os.environ.get("SMOOTHCERT_DATA") or "~/.cache/smoothcert/data"
    return Path(chosen).expanduser()
