"""Data by row: the same data however it is kept and wherever it lies, without holding it, and never another input unnoticed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
import zarr
from PIL import Image
from torch.utils.data import Dataset

import smoothcert as sc
from smoothcert.data import ArrayDataset, load
from smoothcert.data.rows import CHUNK
from smoothcert.errors import DataError, MissingExtra, SettingError
from smoothcert.testing.data import DataSuite

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 4
EXPECTED = ArrayDataset("expected", X, Y).fingerprint()
ORDER = [39, 0, 1, 2, 17, 16, 0]


@pytest.fixture(params=["here", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder of this machine, and one behind a URL."""
    if request.param == "here":
        return str(tmp_path)
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    return "memory://bucket"


def put(path: str, write: Callable[[Any], Any]) -> str:
    with fsspec.open(path, "wb") as file:
        write(file)
    return path


def npy(root: str, x: Any) -> str:
    labels = put(f"{root}/y.npy", lambda file: np.save(file, Y))
    return f"npy:path={put(f'{root}/x.npy', lambda file: np.save(file, x))},labels={labels}"


def npz(root: str, x: Any, save: Any = np.savez) -> str:
    return put(f"{root}/x.npz", lambda file: save(file, x=x, y=Y))


def parquet(root: str, x: Any) -> str:
    table = pyarrow.table({**{f"c{at}": x[:, at] for at in range(x.shape[1])}, "label": Y})
    return put(f"{root}/x.parquet", lambda file: pyarrow.parquet.write_table(table, file, row_group_size=7))


def zarred(root: str, x: Any) -> str:
    group = zarr.open_group(f"{root}/x.zarr", mode="w")
    group.create_array("x", data=x, chunks=(9, 4))
    group.create_array("y", data=Y)
    return f"{root}/x.zarr"


KINDS: dict[str, Callable[[str, Any], str]] = {
    "npy": npy,
    "npz": npz,
    "compressed": lambda root, x: npz(root, x, np.savez_compressed),
    "fortran": lambda root, x: npy(root, np.asfortranarray(x)),
    "double": lambda root, x: npz(root, x.astype(np.float64)),
    "big-endian": lambda root, x: npy(root, x.astype(">f4")),
    "parquet": parquet,
    "zarr": zarred,
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_data_however_and_wherever_it_is_kept(kind: str, root: str) -> None:
    data = load(KINDS[kind](root, X))
    assert data.fingerprint() == EXPECTED
    assert np.array_equal(data.inputs(ORDER), X[ORDER])
    assert data.truths(ORDER) == Y[ORDER].tolist()
    assert data.inputs([]).shape == (0, 6)
    assert len(DataSuite().check(data)) == 8


def test_folders_behind_a_url_are_the_same_data(tmp_path: Path) -> None:
    files = fsspec.filesystem("memory")
    for name, seed in (("cat", 0), ("dog", 1)):
        (tmp_path / "pets" / name).mkdir(parents=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pets" / name / "0.png")
    files.put(str(tmp_path / "pets"), "/folders/pets", recursive=True)
    here, there = load(str(tmp_path / "pets")), load("memory://folders/pets")
    assert there.fingerprint() == here.fingerprint()
    assert np.array_equal(there.inputs([1, 0]), here.inputs([1, 0]))
    assert (there.truths([0, 1]), there.class_names, there.name) == ([0, 1], ("cat", "dog"), "pets")
    assert len(DataSuite().check(there)) == 8


def test_without_labels(root: str) -> None:
    path = put(f"{root}/x.npy", lambda file: np.save(file, X))
    data = load(path)
    assert (data.classes, data.truths([3]), data.grid) == (None, [None], None)
    assert data.fingerprint() == ArrayDataset("expected", X).fingerprint()


@pytest.mark.parametrize("off", [None, 0, -1])
def test_the_grid_is_found_in_all_parts(root: str, off: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels of which each part alone lies on a coarser grid, and one value off the grid in the first or the last part."""
    monkeypatch.setattr("smoothcert.data.rows.CHUNK", 1)
    values = np.where(np.arange(40)[:, None] % 2 == 0, 3 / 255, 5 / 255).astype(np.float32).repeat(6, axis=1)
    if off is not None:
        values[off, 2] = 0.5
    path = put(f"{root}/x.npy", lambda file: np.save(file, values))
    if off is not None:
        assert load(path).grid is None
        return
    with pytest.warns(UserWarning, match="all 240 values of x.npy are k/255"):
        data = load(path)
    assert data.grid == 1 / 255
    assert data.fingerprint() == ArrayDataset("pixels", np.rint(values * 255).astype(np.uint8)).fingerprint()
    # Steps of 15/255 alone: fifths of a fifth, which need not be pixels.
    coarse = put(f"{root}/coarse.npy", lambda file: np.save(file, np.round(values * 51) / np.float32(17)))
    assert load(coarse).grid is None


@pytest.mark.parametrize("kind", ["npy", "npz", "zarr", "parquet"])
def test_an_input_that_was_changed_meanwhile_is_refused(kind: str, tmp_path: Path) -> None:
    where = KINDS[kind](str(tmp_path), X)
    data = load(where)
    changed = X.copy()
    changed[17, 3] += 1e-6
    KINDS[kind](str(tmp_path), changed)
    assert np.array_equal(data.inputs([39]), X[[39]])  # another row group or chunk, not altered
    with pytest.raises(DataError, match="input 17 of .* is another one when it is asked for again"):
        data.inputs([1, 17])


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    data, whole = load(str(path)), path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match=r"x\.npy cannot be read as an array: it ends before its last row"):
        data.inputs([39])
    with pytest.raises(DataError, match=r"x\.npy cannot be read as an \.npy file: it is cut short"):
        load(str(path))


def test_a_mapped_array_that_was_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    data = sc.as_dataset(np.load(tmp_path / "x.npy", mmap_mode="r"))
    writer = np.load(tmp_path / "x.npy", mmap_mode="r+")
    writer[4] += 1
    writer.flush()
    with pytest.raises(DataError, match="input 4 of 'data' is another one"):
        data.inputs([4])


class Items(Dataset[Any]):
    """A torch data set of which an item is made when it is asked for."""

    asked = 0
    flip = False

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        type(self).asked += 1
        return torch.from_numpy(-X[index] if self.flip else X[index]), int(Y[index])


def test_items_are_asked_for_and_not_held() -> None:
    items = Items()
    data = sc.as_dataset(items)
    seen = Items.asked
    assert data.fingerprint() == EXPECTED
    assert data.truths(range(40)) == Y.tolist()
    assert Items.asked == seen
    assert np.array_equal(data.inputs([3, 5]), X[[3, 5]])
    assert Items.asked == seen + 2
    items.flip = True
    with pytest.raises(DataError, match="input 5 .*its transform is random"):
        data.inputs([5])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.float8_e5m2])
def test_tensors_of_any_float_type(dtype: torch.dtype) -> None:
    values = torch.tensor([[0.25, -1.5], [2.0, 0.75]])
    assert sc.as_dataset(values.to(dtype)).inputs([0, 1]).tolist() == values.tolist()
    assert sc.as_dataset([(row.to(dtype), 0) for row in values]).inputs([1]).tolist() == values[1:].tolist()


MEASURED = """
import resource, sys
from smoothcert.data import load
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
import {library}
load({small!r}).inputs([0])
before = peak()
data = load({large!r})
data.inputs([0, len(data) - 1])
print(peak() - before, data.fingerprint())
"""


def grown(small: Path, large: Path, library: str = "numpy") -> tuple[int, str]:
    """By how many MiB a process grows that loads the large file after the small one, and the file's fingerprint."""
    program = MEASURED.format(small=str(small), large=str(large), library=library)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    megabytes, fingerprint = done.stdout.split()
    return int(megabytes), fingerprint


def sparse(path: Path, rows: int) -> Path:
    """Zeros in a file that takes no room on the disk, 150 528 bytes a row as a picture of ImageNet has."""
    with open(path, "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (rows, 3, 224, 224)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * 3 * 224 * 224)
    return path


@pytest.mark.parametrize(
    "megabytes", [pytest.param(256, id="256 MB"), pytest.param(2048, id="2 GB", marks=pytest.mark.slow)]
)
def test_memory_does_not_grow_with_the_file(megabytes: int, tmp_path: Path) -> None:
    rows = megabytes * 2**20 // 150_528
    growth, fingerprint = grown(sparse(tmp_path / "small.npy", 2), sparse(tmp_path / "large.npy", rows))
    assert growth < 4 * CHUNK // 2**20
    digest = hashlib.sha256(f"smoothcert array, version 1\n|u1 ({rows}, 3, 224, 224)\n".encode())
    for _ in range(rows):
        digest.update(bytes(150_528))
    digest.update(b"no labels\n")
    assert fingerprint == digest.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npz", "zarr", "parquet"])
def test_memory_does_not_grow_with_files_of_chunks(kind: str, tmp_path: Path) -> None:
    """160 MB of float32 in chunks and row groups of 2 MB; what a library keeps for itself is below 48 MB."""
    paths = []
    for name, rows in (("small", 1_000), ("large", 80_000)):
        values = np.random.default_rng(1).random((rows, 500), dtype=np.float32)
        paths.append(tmp_path / f"{name}.{kind}")
        if kind == "npz":
            np.savez(paths[-1], x=values)
        elif kind == "zarr":
            zarr.create_array(paths[-1], data=values, chunks=(1_000, 500))
        else:
            columns = {f"c{at}": values[:, at] for at in range(500)}
            pyarrow.parquet.write_table(pyarrow.table(columns), paths[-1], row_group_size=1_000, compression="none")
    growth, _ = grown(*paths, library={"npz": "numpy", "zarr": "zarr", "parquet": "pyarrow.parquet"}[kind])
    assert growth < 48


# Errors


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("memory://nothing/x.npz", "memory://nothing/x.npz cannot be read as an .npz file .*: it is not there"),
        ("memory://nothing/x.npy", "x.npy cannot be read as an .npy file: it is not there"),
        ("memory://nothing/x.parquet", "x.parquet cannot be read as a Parquet file: it is not there"),
        ("memory://nothing/x.csv", "x.csv cannot be read as a CSV file: it is not there"),
        ("memory://nothing/x.zarr", "x.zarr cannot be read as Zarr"),
        ("memory://nothing/pets", "there is no folder memory://nothing/pets"),
    ],
)
def test_what_is_not_there_is_named(name: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        load(name)


def test_a_protocol_that_nobody_knows_is_named() -> None:
    with pytest.raises(SettingError, match="nowhere://bucket/x.npy cannot be reached: .*nowhere"):
        load("nowhere://bucket/x.npy")


def test_a_library_that_a_protocol_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtra, match="s3://bucket/x.npy needs another library: .*s3fs"):
        load("s3://bucket/x.npy")
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(MissingExtra, match=r"paths with a protocol need upath.*smoothcert\[remote\]"):
        load("memory://bucket/x.npy")


def test_arrays_that_are_no_data_set_are_refused(tmp_path: Path) -> None:
    for content, said in ((np.float32(3.0), "it holds one number"), (np.array([[{}]], dtype=object), "objects|Object")):
        np.save(tmp_path / "x.npy", content, allow_pickle=True)
        with pytest.raises(DataError, match=said):
            load(str(tmp_path / "x.npy"))
    zarr.open_group(tmp_path / "x.zarr", mode="w").create_array("images", data=X)
    with pytest.raises(DataError, match="has no array 'x': it holds images"):
        load(str(tmp_path / "x.zarr"))
