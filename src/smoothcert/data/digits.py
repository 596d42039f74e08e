"""Digits: a part of MNIST that comes with the package, for examples and tests that need no download.

4000 images to train and 1000 to test: of each of the ten classes the first 400 (100) in the order of MNIST's files,
kept in that order. The source is MNIST by Yann LeCun, Corinna Cortes and Christopher Burges, derived from NIST's
databases and made available under the licence CC BY-SA 3.0, which holds for ``digits.npz`` too; see ``DIGITS.md``.
"""

from __future__ import annotations

from importlib import resources

import numpy as np

from smoothcert.data.rows import ArrayDataset
from smoothcert.errors import look_up

CLASSES = 10
SPLITS = {"train": "train", "test": "test"}


def load_digits(split: str = "test") -> ArrayDataset:
    """Digits, shape (1, 28, 28), 10 classes.

    >>> test = load_digits()
    >>> len(test), test.shape, test.classes, test.truths([0, 1, 2])
    (1000, (1, 28, 28), 10, [7, 2, 1])
    """
    prefix = look_up("split", split, SPLITS)
    packed = resources.files("smoothcert.data").joinpath("digits.npz")
    with packed.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays[f"{prefix}_x"], arrays[f"{prefix}_y"]
    return ArrayDataset("digits", images, labels, classes=CLASSES)
