"""The suite of data sources, on every source that is built in and on broken ones, each of which it must refuse."""

import pickle
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zarr
from PIL import Image

from smoothcert.data import DATASETS, ArrayDataset, FloatArray, Source
from smoothcert.data.sources import Arrays, Cifar10, Csv, Digits, FashionMnist, Folder, Hub, Mnist, Npy, Parquet, Zarr
from smoothcert.testing.data import DataSuite

RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
COLUMNS = {"a": [0.5, 1.5, 2.5, -1.0], "b": [1.0, 2.0, 3.0, 4.0], "kind": ["x", "y", "x", "z"]}


def mnist(root: Path, folder: str) -> None:
    raw = root / folder / "raw"
    raw.mkdir(parents=True)
    for kind, array in (("images-idx3", np.zeros((3, 28, 28), np.uint8)), ("labels-idx1", np.zeros(3, np.uint8))):
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (raw / f"t10k-{kind}-ubyte").write_bytes(header + array.tobytes())


def cifar(root: Path) -> Source:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    content = {b"data": RNG.integers(0, 256, (5, 3072), dtype=np.uint8), b"labels": [0, 1, 2, 3, 9]}
    (folder / "test_batch").write_bytes(pickle.dumps(content, protocol=2).replace(b"numpy._core", b"numpy.core"))
    return Cifar10(root=str(root))


def folder(root: Path) -> Source:
    for name in ("cat", "dog"):
        (root / name).mkdir()
        for number in range(2):
            Image.fromarray(RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(root / name / f"{number}.png")
    return Folder(str(root), classes="sorted", gray=True)


def npz(root: Path) -> Source:
    np.savez(root / "x.npz", x=PIXELS, y=np.arange(6))
    return Arrays(str(root / "x.npz"))


def npy(root: Path) -> Source:
    np.save(root / "x.npy", PIXELS)
    np.save(root / "y.npy", np.arange(6))
    return Npy(str(root / "x.npy"), str(root / "y.npy"))


def zarred(root: Path) -> Source:
    group = zarr.open_group(root / "x.zarr", mode="w")
    group.create_array("x", data=PIXELS, chunks=(4, 3, 4, 2))
    group.create_array("y", data=np.arange(6))
    return Zarr(str(root / "x.zarr"))


def table(root: Path) -> Source:
    rows = zip(*COLUMNS.values(), strict=True)
    (root / "t.csv").write_text("\n".join([",".join(COLUMNS), *(",".join(map(str, row)) for row in rows)]))
    return Csv(str(root / "t.csv"), "kind")


def parquet(root: Path) -> Source:
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), root / "t.parquet", row_group_size=3)
    return Parquet(str(root / "t.parquet"), "kind")


def hub(root: Path) -> Source:
    """A folder in the layout of the hub, which needs no network."""
    (root / "data").mkdir()
    rows = {"input": [[0.5, 1.0], [0.25, 2.0]], "label": [0, 1]}
    pyarrow.parquet.write_table(pyarrow.table(rows), root / "data" / "test.parquet")
    return Hub(path=str(root))


def of_idx(kind: type[Mnist] | type[FashionMnist], folder: str) -> Callable[[Path], Source]:
    def make(root: Path) -> Source:
        mnist(root, folder)
        return kind(root=str(root))

    return make


MAKERS: dict[str, Callable[[Path], Source]] = {
    "digits": lambda root: Digits(),
    "mnist": of_idx(Mnist, "MNIST"),
    "fashion_mnist": of_idx(FashionMnist, "FashionMNIST"),
    "cifar10": cifar,
    "folder": folder,
    "npz": npz,
    "npy": npy,
    "csv": table,
    "parquet": parquet,
    "zarr": zarred,
    "hub": hub,
}


@pytest.mark.filterwarnings("ignore:the labels of .* are words")
@pytest.mark.parametrize("name", list(DATASETS))
def test_every_source_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "hub":
        pytest.importorskip("datasets")
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    place = tmp_path / "data"
    place.mkdir()
    member = MAKERS[name](place)
    assert len(DataSuite().check(member)) == 8


def test_tables_of_both_files_are_the_same_data(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="x = 0, y = 1, z = 2"):
        first, second = table(tmp_path).load(), parquet(tmp_path).load()
    assert first.fingerprint() == second.fingerprint()
    assert (first.shape, first.classes, first.truths(range(4))) == ((2,), 3, [0, 1, 0, 2])


class Wrong(ArrayDataset):
    """Right in all but what a subclass breaks."""

    def __init__(self) -> None:
        super().__init__("wrong", PIXELS, np.arange(6))


class OffTheGrid(Wrong):
    def inputs(self, indices: Sequence[int]) -> FloatArray:
        return super().inputs(indices) + np.float32(1e-4)


class Double(Wrong):
    def inputs(self, indices: Sequence[int]) -> FloatArray:
        return super().inputs(indices).astype(np.float64)  # type: ignore[return-value]


class Ordered(Wrong):
    def inputs(self, indices: Sequence[int]) -> FloatArray:
        return super().inputs(sorted(indices))


class Wrapping(Wrong):
    def truths(self, indices: Sequence[int]) -> list[int | None]:
        return super().truths([index % len(self) for index in indices])


class Beyond(Wrong):
    def __init__(self) -> None:
        super().__init__()
        self.classes = 3


class Fresh(Wrong):
    def fingerprint(self) -> str:
        return bytes(RNG.integers(0, 256, 32, dtype=np.uint8)).hex()


class Lending(Wrong):
    def __init__(self) -> None:
        super().__init__()
        self.lent = super().inputs([0])

    def inputs(self, indices: Sequence[int]) -> FloatArray:
        return self.lent if list(indices) == [0] else super().inputs(indices)


@pytest.mark.parametrize("kind", [OffTheGrid, Double, Ordered, Wrapping, Beyond, Fresh, Lending])
def test_a_broken_source_is_refused(kind: type[Wrong]) -> None:
    assert len(DataSuite().check(Wrong())) == 8
    with pytest.raises(AssertionError):
        DataSuite().check(kind())
