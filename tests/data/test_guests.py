"""Data in other hands: the same inputs under the same indices, whoever holds them."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

import smoothcert as sc
from smoothcert.data import ArrayDataset, load, load_npz
from smoothcert.data.base import PIXEL_GRID, pixels_of, pixels_to_inputs
from smoothcert.errors import DataError
from smoothcert.store import InMemoryStore

RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 5)).astype(np.float32)
Y = np.arange(12) % 3
TORCH = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
EXPECTED = ArrayDataset("expected", X, Y).fingerprint()


class Rows(torch.utils.data.Dataset[Any]):
    """Items with named parts."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": X[index], "label": int(Y[index])}


class Stream(IterableDataset[Any]):
    """Items in order, without indices."""

    def __iter__(self) -> Any:
        return iter(zip(X, Y.tolist(), strict=True))


class Flipped(Rows):
    """A random transform."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": X[index] * RNG.choice([-1.0, 1.0]), "label": int(Y[index])}


def doubled(items: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """A collate_fn of one's own."""
    return torch.stack([2 * x for x, _ in items]), torch.stack([y for _, y in items])


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        (torch.from_numpy(X), torch.from_numpy(Y)),
        TORCH,
        Rows(),
        Stream(),
        Subset(TORCH, range(12)),
        DataLoader(TORCH, batch_size=5),
        DataLoader(TORCH, batch_size=5, shuffle=True),
        DataLoader(TORCH, batch_size=5, drop_last=True, sampler=RandomSampler(TORCH)),
        DataLoader(TORCH, sampler=SequentialSampler(TORCH)),
        DataLoader(TORCH, batch_size=None),
        DataLoader(Rows(), batch_size=4),
        DataLoader(Stream(), batch_size=4),
        list(zip(X, Y, strict=True)),
        pandas.DataFrame(X).assign(label=Y),
        polars.DataFrame(X).with_columns(label=Y),
    ],
    ids=lambda data: type(data).__name__,
)
def test_all_of_them_are_the_same_data(data: Any) -> None:
    assert sc.as_dataset(data).fingerprint() == EXPECTED


def test_hugging_face_rows_are_the_same_data(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"features": X.tolist(), "label": Y.tolist()})
    assert sc.as_dataset(rows).fingerprint() == EXPECTED


def test_a_collate_function_is_applied_to_each_input_alone() -> None:
    data = sc.as_dataset(DataLoader(TORCH, batch_size=5, collate_fn=doubled))
    assert np.array_equal(data.inputs([3])[0], 2 * X[3])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DataLoader(TORCH, sampler=SubsetRandomSampler([1, 2])), "give its data set"),
        (DataLoader(TORCH, sampler=RandomSampler(TORCH, replacement=True)), "give its data set"),
        (DataLoader(TORCH, batch_sampler=[[0, 1], [2]]), "give its data set"),
        (Flipped(), "its transform is random"),
        (DataLoader(Flipped(), batch_size=2), "its transform is random"),
        (Subset(TORCH, []), "empty"),
        (3, "a int is no data set"),
        (iter([1]), "is no data set"),
        ([(np.zeros(2), 0), (np.zeros(3), 1)], r"input 1 .* shape \(3,\), and the first"),
        ([{"picture": X[0]}], "say which is the input"),
        (pandas.DataFrame({"a": ["x"], "label": [0]}), "is no column of numbers"),
    ],
)
def test_what_cannot_be_told_is_refused(data: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        sc.as_dataset(data)


def test_a_column_of_labels_is_named() -> None:
    frame = pandas.DataFrame({"a": [0.5, 1.5], "species": ["iris", "agave"]})
    with pytest.warns(UserWarning, match="agave = 0, iris = 1"):
        assert sc.as_dataset(frame, label="species").truths([0, 1]) == [1, 0]
    with pytest.raises(DataError, match="no column 'kind'"):
        sc.as_dataset(frame, label="kind")


def test_pictures_become_pixels() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = RNG.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    data = sc.as_dataset([(image.fromarray(pixels), 1), (image.fromarray(255 - pixels), 0)])
    assert (data.shape, data.grid, data.truths([0])) == ((3, 4, 6), PIXEL_GRID, [1])
    assert np.array_equal(data.inputs([0])[0], pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255))


# Certificates


def model(x: torch.Tensor) -> torch.Tensor:
    return x[:, :3] * 4


def smoother(**settings: Any) -> sc.Smoother:
    return sc.Smoother(model, sc.Noise.isotropic("gaussian", 0.25, **settings), estimate=400)


def test_certificates_do_not_depend_on_who_holds_the_data() -> None:
    """Indices are positions in the data set, so a shuffling loader gives the certificates of the plain batch."""
    expected = smoother().certify(torch.from_numpy(X))
    assert smoother().certify(DataLoader(TORCH, batch_size=5, shuffle=True)) == expected
    assert smoother().certify(TORCH) == expected
    assert smoother().certify(pandas.DataFrame(X)) == expected
    assert smoother().certify(torch.from_numpy(X)[3:], first_index=3) == expected[3:]


def test_runs_do_not_depend_on_who_holds_the_data() -> None:
    first = sc.certify_all(smoother(), TORCH, InMemoryStore())
    second = sc.certify_all(
        smoother(), DataLoader(TORCH, batch_size=7, shuffle=True), first
    )  # goes on: nothing is left
    assert second is first
    other = sc.certify_all(smoother(), (X, Y), InMemoryStore())
    assert list(other.records()) == list(first.records())
    assert [record.index for record in first.records()] == list(range(12))


# The grid

PIXELS = RNG.integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)


def test_every_pixel_is_known_by_its_float() -> None:
    """All 256 of them, as float32 divides, as float64 divides, and as torch does."""
    every = np.arange(256, dtype=np.uint8)
    for values in (pixels_to_inputs(every), (every / 255).astype(np.float32), (torch.arange(256) / 255).numpy()):
        found = pixels_of(values)
        assert found is not None
        assert np.array_equal(found, every)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_that_are_pixels_keep_the_grid(tmp_path: Path, dtype: Any) -> None:
    np.savez(tmp_path / "floats.npz", x=(PIXELS / 255).astype(dtype))
    np.savez(tmp_path / "pixels.npz", x=PIXELS)
    with pytest.warns(UserWarning, match="are k/255, so they are taken as 8-bit pixels"):
        floats = load(str(tmp_path / "floats.npz"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = load_npz(tmp_path / "pixels.npz")
    assert floats.grid == pixels.grid == PIXEL_GRID
    assert floats.fingerprint() == pixels.fingerprint()


@pytest.mark.parametrize("place", [0, 5000, -1])
@pytest.mark.parametrize(
    "value", [0.5, 1.0 + 1 / 255, -1 / 255, np.nextafter(np.float32(7 / 255), np.float32(1)), np.nan]
)
def test_one_value_off_the_grid_makes_real_numbers(place: int, value: float) -> None:
    """Wherever it is: the grid is claimed only if every value was looked at."""
    values = pixels_to_inputs(RNG.integers(0, 256, (100, 100), dtype=np.uint8))
    assert ArrayDataset("all", values).grid == PIXEL_GRID
    values.reshape(-1)[place] = value
    assert ArrayDataset("all but one", values).grid is None


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.2, 0.4, 1.0], [1 / 3, 0.2], [0.0], [1.0]])
def test_a_coarser_grid_is_none(values: list[float]) -> None:
    assert ArrayDataset("coarse", [values]).grid is None


def test_a_run_says_that_noise_off_the_grid_is_laid_on_pixels() -> None:
    loader = DataLoader(TensorDataset(torch.from_numpy(PIXELS / np.float32(255)), torch.arange(20) % 3), batch_size=4)

    def flat(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :3] * 40

    for grid, said in ((None, 1), (PIXEL_GRID, 0)):
        smoothed = sc.Smoother(flat, sc.Noise.isotropic("gaussian", 0.25, grid=grid), estimate=200)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            sc.certify_all(smoothed, loader, InMemoryStore(), indices=[0, 1])
        assert sum("8-bit pixels" in str(each.message) for each in seen) == said


def test_words_are_numbered_and_the_numbers_said() -> None:
    with pytest.warns(UserWarning, match="benign = 0, malignant = 1; unless the network's classes are numbered so"):
        found = sc.as_dataset(np.zeros((3, 2)), ["malignant", "benign", "malignant"])
    assert (found.truths([0, 1, 2]), found.class_names) == ([1, 0, 1], ("benign", "malignant"))
    assert sc.as_dataset(np.zeros((2, 2)), ["1", "0"]).truths([0, 1]) == [1, 0]
