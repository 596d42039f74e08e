"""Make src/smoothcert/data/digits.npz out of the full MNIST: python tools/make_digits.py ROOT

ROOT holds MNIST in torchvision's layout, ROOT/MNIST/raw. Of each class the first images in file order are taken, and
kept in file order; see src/smoothcert/data/DIGITS.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from smoothcert.data.idx import find_idx, read_idx

PER_CLASS = {"train": ("train", 400), "test": ("t10k", 100)}
"""Our name of each split: how its files begin, and how many images of each class to take."""

TARGET = Path(__file__).resolve().parents[1] / "src" / "smoothcert" / "data" / "digits.npz"


def first_of_each_class(labels: np.ndarray, count: int) -> np.ndarray:
    """The indices of the first ``count`` inputs of each class, in increasing order."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in range(10)]))


def read(root: Path, file_name: str, dimensions: int) -> np.ndarray:
    """One of MNIST's files, plain or gzipped."""
    path = find_idx(root / "MNIST" / "raw", file_name)
    if path is None:
        raise SystemExit(f"{root / 'MNIST' / 'raw'} holds no {file_name}, plain or .gz")
    return read_idx(path, dimensions)


def main() -> None:
    """Write the file, and say how long it is."""
    parser = argparse.ArgumentParser(description="Make digits.npz out of the full MNIST.")
    parser.add_argument("root", type=Path, help="the folder that holds MNIST/raw")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    arrays = {}
    for split, (prefix, count) in PER_CLASS.items():
        images = read(arguments.root, f"{prefix}-images-idx3-ubyte", 3)
        labels = read(arguments.root, f"{prefix}-labels-idx1-ubyte", 1)
        chosen = first_of_each_class(labels, count)
        arrays[f"{split}_x"], arrays[f"{split}_y"] = images[chosen][:, None], labels[chosen]
    np.savez_compressed(arguments.out, **arrays)
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
