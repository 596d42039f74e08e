"""MNIST and Fashion-MNIST, 28×28 gray images of 10 classes, from the folders that torchvision lays out.

ROOT/MNIST/raw or ROOT/FashionMNIST/raw holds, plain or as .gz: train-images-idx3-ubyte, train-labels-idx1-ubyte,
t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.

MNIST: Yann LeCun, Corinna Cortes, Christopher Burges (1998). Fashion-MNIST: Xiao, Rasul, Vollgraf (2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from smoothcert.data.base import Progress
from smoothcert.data.download import Resource, missing, retrieve
from smoothcert.data.idx import find_idx, read_idx
from smoothcert.data.rows import ArrayDataset
from smoothcert.errors import DataError, look_up

CLASSES = 10
SPLITS = {"train": "train", "test": "t10k"}
"""Our name of a split, and how the names of its files begin."""


@dataclass(frozen=True)
class Family:
    """A data set in MNIST's format: its name, its folder below the root, and the origin of each file."""

    name: str
    folder: str
    resources: Mapping[str, Resource]
    class_names: tuple[str, ...] = ()


def _family(
    name: str,
    folder: str,
    addresses: tuple[str, ...],
    checksums: Mapping[str, str],
    class_names: tuple[str, ...] = (),
) -> Family:
    """The family whose files lie, gzipped, at the first address, and at the others as mirrors."""
    resources = {}
    for file_name, sha256 in checksums.items():
        urls = [f"{address}{file_name}.gz" for address in addresses]
        resources[file_name] = Resource(urls[0], sha256, f"{file_name}.gz", mirrors=tuple(urls[1:]))
    return Family(name, folder, resources, class_names)


# SHA-256 values: TensorFlow Datasets (github.com/tensorflow/datasets), tensorflow_datasets/url_checksums/mnist.txt
MNIST = _family(
    "mnist",
    "MNIST",
    ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
    {
        "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)

# SHA-256 values: TensorFlow Datasets, tensorflow_datasets/url_checksums/fashion_mnist.txt
FASHION_MNIST = _family(
    "fashion_mnist",
    "FashionMNIST",
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    {
        "train-images-idx3-ubyte": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
)


def load_family(
    family: Family, root: Path, split: str, download: bool = False, progress: Progress | None = None
) -> ArrayDataset:
    """One split of a data set in MNIST's format, downloading those of its two files that are missing."""
    prefix = look_up("split", split, SPLITS)
    paths = [
        _locate(family, root, f"{prefix}-{kind}-ubyte", download, progress) for kind in ("images-idx3", "labels-idx1")
    ]
    images, labels = read_idx(paths[0], dimensions=3), read_idx(paths[1], dimensions=1)
    if len(images) != len(labels):
        raise DataError(
            f"{paths[0]} holds {len(images)} images but {paths[1]} holds {len(labels)} labels; they must be as many: "
            f"delete both and load the data set again with download=True"
        )
    return ArrayDataset(family.name, images[:, None], labels, classes=CLASSES, class_names=family.class_names)


def _locate(family: Family, root: Path, file_name: str, download: bool, progress: Progress | None) -> Path:
    """Where one file of the family is, after a download when it is missing and that was asked for."""
    folder = root / family.folder / "raw"
    found = find_idx(folder, file_name)
    if found is not None:
        return found
    resource = family.resources[file_name]
    if not download:
        raise missing(family.name, folder, f"{file_name} (plain or .gz)", resource)
    return retrieve(resource, folder, progress)
