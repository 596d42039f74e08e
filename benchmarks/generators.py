"""Pictures of generated noise: python benchmarks/generators.py GENERATOR --data mnist --sigma 0.5 --out maps.png.

Ten inputs, one of each class; under each its map of sigma (bright is much noise) and, if the generator shifts, its μ. A
dataset-wise generator gives every input the same map.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

from smoothcert.data import load
from smoothcert.noise import Noise
from smoothcert.smoother import Smoother
from smoothcert.tuners import DatasetWise, PerInput
from smoothcert.tuners.ucan import kind_of


def main() -> None:
    """Draw the maps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", type=Path)
    parser.add_argument("--root", help="where the data sets are")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--out", type=Path, default=Path("maps.png"))
    asked = parser.parse_args()
    data = load(asked.data, root=asked.root, split="test")
    truths = data.truths(range(len(data)))
    indices = [truths.index(label) for label in range(10)]
    x = torch.from_numpy(data.inputs(indices))
    start = Noise.isotropic("gaussian", asked.sigma)
    tuner = DatasetWise(asked.generator) if kind_of(asked.generator) == "dataset" else PerInput(asked.generator)
    noise = tuner.choose(Smoother(lambda batch: batch.flatten(1), start), x, start, indices)
    sigma, loc = (torch.broadcast_to(value, x.shape).numpy() for value in (noise.scale, noise.loc))
    rows = [("input", np.moveaxis(x.numpy(), 1, -1), "gray", 0.0, 1.0)]
    rows += [("sigma", sigma.mean(axis=1), "viridis", float(sigma.min()), float(sigma.max()))]
    if loc.any():
        rows += [("μ", loc.mean(axis=1), "coolwarm", -float(np.abs(loc).max()), float(np.abs(loc).max()))]
    figure, axes = plt.subplots(len(rows), 10, figsize=(14, 1.6 * len(rows)), squeeze=False, layout="constrained")
    for row, (title, pictures, colours, low, high) in zip(axes, rows, strict=True):
        for axis, picture in zip(row, pictures, strict=True):
            shown = axis.imshow(picture.squeeze(), cmap=colours, vmin=low, vmax=high)
            axis.set_xticks([])
            axis.set_yticks([])
        row[0].set_ylabel(title)
        if title != "input":
            figure.colorbar(shown, ax=list(row), pad=0.01, label="input units")
    figure.savefig(asked.out, dpi=110)
    print(f"{asked.out}: sigma from {sigma.min():.3f} to {sigma.max():.3f}, mean {sigma.mean():.3f}")


if __name__ == "__main__":
    main()
