"""Tables: a row per input, a column per coordinate, and perhaps one of labels; from CSV and Parquet files."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import Progress, reading
from smoothcert.data.rows import RowDataset, Rows, Survey, surveyed
from smoothcert.errors import DataError
from smoothcert.extras import import_extra

LABELS = ("label", "labels", "target", "class", "y")
"""What the column of labels is called, if nobody says: the first of these that is there."""


def of_columns(name: str, columns: Mapping[str, Any], label: str | None = None) -> RowDataset:
    """The data set of a table: one column of labels, numbers from 0 or words, and every other one a coordinate.

    >>> table = of_columns("three", {"a": [0.0, 1.0, 2.0], "b": [1, 1, 0], "label": ["0", "1", "0"]})
    >>> table.inputs([1]).tolist(), table.truths([0, 1, 2])
    ([[1.0, 1.0]], [0, 1, 0])
    """
    chosen = label_among(name, list(columns), label)
    features = [_numbers(name, title, values) for title, values in columns.items() if title != chosen]
    labels = None if chosen is None else np.asarray(columns[chosen])
    return labelled(name, surveyed(name, np.stack(features, axis=1)), labels)


def label_among(name: str, titles: Sequence[str], label: str | None) -> str | None:
    """Which of these columns holds the labels, None if none does; the others are the coordinates, of which there must be one."""
    chosen = label if label is not None else next((each for each in LABELS if each in titles), None)
    if chosen is not None and chosen not in titles:
        raise DataError(f"{name} has no column {chosen!r} for the labels; its columns are {', '.join(titles)}")
    if not set(titles) - {chosen}:
        raise DataError(f"{name} has no columns of numbers beside the labels; each other column is a coordinate")
    return chosen


def labelled(name: str, inputs: Survey, labels: npt.NDArray[Any] | None) -> RowDataset:
    """The data set of inputs and their labels, as numbers: as they are, or words by their place in the alphabet.

    How words were numbered is said, since no network knows of it. Numbers that are not all whole are targets of regression.

    >>> labelled("two", surveyed("two", np.zeros((2, 1))), np.array([2.0, 0.0])).truths([0, 1])
    [2, 0]
    """
    if labels is None:
        return RowDataset(name, inputs)
    if labels.dtype.kind not in "OSUT":
        whole = labels.dtype.kind in "fb" and bool(np.all((labels == np.floor(labels)) & (labels >= 0)))
        return RowDataset(name, inputs, labels.astype(np.int64) if whole else labels)
    words = labels.astype(str)
    for number in (np.int64, np.float64):
        try:
            values = words.astype(number)
        except ValueError:
            continue
        if number is np.float64 or values.min() >= 0:
            return labelled(name, inputs, values)
    names, numbers = np.unique(words, return_inverse=True)
    told = ", ".join(f"{word} = {number}" for number, word in enumerate(names[:10]))
    warnings.warn(
        f"the labels of {name} are words, numbered by the alphabet: {told}{', …' if len(names) > 10 else ''}; unless the network's "
        "classes are numbered so, every accuracy is wrong; give its numbers instead of words",
        stacklevel=2,
    )
    return RowDataset(name, inputs, numbers, class_names=names.tolist())


def load_csv(path: Path, label: str | None = None) -> RowDataset:
    """The table of a CSV file whose first line names the columns; all of it is read into memory."""
    with (
        reading(path, "a CSV file", "give a text file with a line of titles"),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        header, *rows = [row for row in csv.reader(file) if row] or [[]]
    if not rows or len(set(header)) < len(header):
        raise DataError(f"{path} needs a first line of different column titles, and a line per input; got {header[:5]}")
    short = next((number for number, row in enumerate(rows, start=2) if len(row) != len(header)), None)
    if short is not None:
        raise DataError(f"row {short} of {path} has not the {len(header)} columns of the first line; repair the file")
    return of_columns(path.name, {title: [row[at] for row in rows] for at, title in enumerate(header)}, label)


class ParquetRows(Rows):
    """The rows of a Parquet file, of which one row group is held at a time, the last that was asked for."""

    dtype = np.dtype(np.float64)

    def __init__(self, path: Path, label: str | None) -> None:
        self.path = path
        with self._opened() as file:
            titles, groups = file.schema_arrow.names, file.metadata
            self.label = label_among(path.name, titles, label)
            self.titles = [title for title in titles if title != self.label]
            sizes = [groups.row_group(at).num_rows for at in range(groups.num_row_groups)]
        self.ends, self.shape = np.cumsum(sizes), (sum(sizes), len(self.titles))
        self._held: tuple[int, npt.NDArray[np.float64]] = (-1, np.empty((0, 0)))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        parquet = import_extra("pyarrow.parquet", "Parquet files", "parquet")
        with (
            reading(self.path, "a Parquet file", "give a table of numbers, and perhaps a column of labels"),
            self.path.open("rb") as raw,
            parquet.ParquetFile(raw) as file,
        ):
            yield file

    def labels(self) -> npt.NDArray[Any] | None:
        """The column of labels, which is held."""
        if self.label is None:
            return None
        with self._opened() as file:
            return np.asarray(file.read(columns=[self.label])[self.label].to_pylist())

    def read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        groups = np.searchsorted(self.ends, indices, side="right")
        values = np.empty((len(indices), self.shape[1]))
        for group in np.unique(groups):
            content, own = self._group(int(group)), groups == group
            values[own] = content[indices[own] - (self.ends[group] - len(content))]
        return values

    def _group(self, group: int) -> npt.NDArray[np.float64]:
        if self._held[0] != group:
            with self._opened() as file:
                table = file.read_row_group(group, columns=self.titles)
            columns = [_numbers(self.path.name, title, table[title].to_numpy()) for title in self.titles]
            self._held = (group, np.stack(columns, axis=1))
        return self._held[1]


def load_parquet(path: Path, label: str | None = None, progress: Progress | None = None) -> RowDataset:
    """The table of a Parquet file, read by row groups."""
    rows = ParquetRows(path, label)
    return labelled(path.name, Survey(path.name, rows, progress), rows.labels())


def _numbers(name: str, title: str, values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the column {title!r} of {name} is no column of numbers: {error}; leave it out, make it numbers, or name it as the "
            "labels (label=…)"
        ) from error
