"""Where the tuned noise is: python benchmarks/maps.py OUT.png RUN… draws ten inputs of each run and their scales.

The run was certified with --method ancer, so each of its records holds a scale per coordinate (channels are averaged). The
isotropic scale of the tuner cannot be seen in it, so colours run from the least to the largest scale of each input.
"""

from __future__ import annotations

import sys
import tomllib

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from smoothcert import data
from smoothcert.store import open_run

NUMBER = 10


def draw(out: str, runs: list[str]) -> None:
    """Two rows per run: the inputs, and the map of each one's scale with its least and largest value."""
    figure = Figure(figsize=(NUMBER * 1.2, 2.9 * len(runs)), dpi=110)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2 * len(runs), NUMBER, squeeze=False)
    for at, run in enumerate(runs):
        with open_run(run) as store:
            settings = tomllib.loads(store.facts()["notes"]["settings"])["data"]
            tuned = [row for row in store.records() if isinstance(row.scale, str) and row.correct][:NUMBER]
            scales = [store.get(str(row.scale)) for row in tuned]
        dataset = data.load(settings["source"], root=settings.get("root"), split=settings["split"])
        images = dataset.inputs([row.index for row in tuned])
        for column in range(NUMBER):
            above, below = grid[2 * at, column], grid[2 * at + 1, column]
            above.axis("off")
            below.axis("off")
            if column >= len(tuned):
                continue
            image, scale = images[column], scales[column].mean(axis=0)
            above.imshow(image.transpose(1, 2, 0).squeeze(), cmap="gray", vmin=0, vmax=1)
            below.imshow(np.log(scale), cmap="viridis")
            below.set_title(f"{scale.min():.2f}–{scale.max():.2f}", fontsize=7)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    draw(sys.argv[1], sys.argv[2:])
