"""Where the tuned noise is: python benchmarks/maps.py OUT.png RUN… draws up to ten inputs of each run and their scales.

The run was certified with --method ancer, so each of its records holds a scale per coordinate (channels are averaged). Each run
has one logarithmic colour bar, in units of the input.
"""

from __future__ import annotations

import sys
import tomllib

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from smoothcert import data
from smoothcert.store import open_run

NUMBER = 10


def tuned(run: str) -> tuple[str, np.ndarray, np.ndarray]:
    """The name of the data, up to ten inputs that are answered right, and the scale of each pixel's noise."""
    with open_run(run) as store:
        settings = tomllib.loads(store.facts()["notes"]["settings"])["data"]
        rows = [row for row in store.records() if isinstance(row.scale, str) and row.correct][:NUMBER]
        scales = [store.get(str(row.scale)).mean(axis=0) for row in rows]
    dataset = data.load(settings["source"])
    return dataset.name, dataset.inputs([row.index for row in rows]), np.array(scales)


def draw(out: str, runs: list[str]) -> None:
    """Two rows per run: the inputs, and the map of each one's scale."""
    found = [tuned(run) for run in runs]
    number = min(len(images) for _, images, _ in found)
    figure = Figure(figsize=(1.2 * number + 1, 2.6 * len(runs)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2 * len(runs), number, squeeze=False)
    for panel in grid.ravel():
        panel.set(xticks=[], yticks=[])
        panel.set_frame_on(False)
    for at, (name, images, scales) in enumerate(found):
        colours = LogNorm(scales.min(), scales.max())
        for column, (image, scale) in enumerate(zip(images[:number], scales, strict=False)):
            grid[2 * at, column].imshow(image.transpose(1, 2, 0).squeeze(), cmap="gray", vmin=0, vmax=1)
            drawn = grid[2 * at + 1, column].imshow(scale, cmap="viridis", norm=colours)
        grid[2 * at, 0].set_ylabel(f"{name}\ninput")
        grid[2 * at + 1, 0].set_ylabel("scale of\nthe noise")
        bar = figure.colorbar(drawn, ax=list(grid[2 * at + 1]), pad=0.01, format=LogFormatter(minor_thresholds=(3, 1)))
        bar.set_label("input units")
    figure.savefig(out)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    draw(sys.argv[1], sys.argv[2:])
