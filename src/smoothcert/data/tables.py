"""Tables: a row per input, a column per coordinate, and perhaps one of labels; from CSV and Parquet files."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import ArrayDataset
from smoothcert.errors import DataError
from smoothcert.extras import import_extra

LABELS = ("label", "labels", "target", "class", "y")
"""What the column of labels is called, if nobody says: the first of these that is there."""


def of_columns(name: str, columns: Mapping[str, Any], label: str | None = None) -> ArrayDataset:
    """The data set of a table: one column of labels, numbers from 0 or words, and every other one a coordinate.

    >>> table = of_columns("three", {"a": [0.0, 1.0, 2.0], "b": [1, 1, 0], "label": ["0", "1", "0"]})
    >>> table.inputs([1]).tolist(), table.truths([0, 1, 2])
    ([[1.0, 1.0]], [0, 1, 0])
    """
    chosen = label if label is not None else next((each for each in LABELS if each in columns), None)
    if chosen is not None and chosen not in columns:
        raise DataError(f"{name} has no column {chosen!r} for the labels; its columns are {', '.join(columns)}")
    features = {title: _numbers(name, title, values) for title, values in columns.items() if title != chosen}
    if not features:
        raise DataError(f"{name} has no columns of numbers beside the labels; each other column is a coordinate")
    labels = None if chosen is None else np.asarray(columns[chosen])
    return labelled(name, np.stack(list(features.values()), axis=1), labels)


def labelled(name: str, inputs: npt.NDArray[Any], labels: npt.NDArray[Any] | None) -> ArrayDataset:
    """The data set of inputs and their labels, as numbers: as they are, or words by their place in the alphabet.

    How words were numbered is said, since no network knows of it. Numbers that are not all whole are targets of regression.

    >>> labelled("two", np.zeros((2, 1)), np.array([2.0, 0.0])).truths([0, 1])
    [2, 0]
    """
    if labels is None:
        return ArrayDataset(name, inputs)
    if labels.dtype.kind not in "OSUT":
        whole = labels.dtype.kind in "fb" and bool(np.all((labels == np.floor(labels)) & (labels >= 0)))
        return ArrayDataset(name, inputs, labels.astype(np.int64) if whole else labels)
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
    return ArrayDataset(name, inputs, numbers, class_names=names.tolist())


def load_csv(path: Path, label: str | None = None) -> ArrayDataset:
    """The table of a CSV file whose first line names the columns."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path} cannot be read as a CSV file: {error}; give a text file with a line of titles"
        ) from error
    if not rows or len(set(header)) < len(header):
        raise DataError(f"{path} needs a first line of different column titles, and a line per input; got {header[:5]}")
    short = next((number for number, row in enumerate(rows, start=2) if len(row) != len(header)), None)
    if short is not None:
        raise DataError(f"row {short} of {path} has not the {len(header)} columns of the first line; repair the file")
    return of_columns(path.name, {title: [row[at] for row in rows] for at, title in enumerate(header)}, label)


def load_parquet(path: Path, label: str | None = None) -> ArrayDataset:
    """The table of a Parquet file."""
    parquet = import_extra("pyarrow.parquet", "Parquet files", "parquet")
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow's errors share no base of their own
        raise DataError(f"{path} cannot be read as a Parquet file: {error}") from error
    return of_columns(path.name, {title: table[title].to_pylist() for title in table.column_names}, label)


def _numbers(name: str, title: str, values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the column {title!r} of {name} is no column of numbers: {error}; leave it out, make it numbers, or name it as the "
            "labels (label=…)"
        ) from error
