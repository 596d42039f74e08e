"""Which inputs a page shows as pictures, and the pictures as text that stands in the page itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from PIL import Image  # comes with matplotlib

from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import round_down
from smoothcert.report.runs import Run
from smoothcert.store import open_run
from smoothcert.store.pictures import Picture, picture_of

MOST = 300  # inputs with pictures
BUDGET = 1_500_000  # characters of all pictures in a page
NONE = "No pictures: the inputs are not images, or the runs were made without keeping any."


def pictures_of(runs: Sequence[Run]) -> dict[str, Any]:
    """``inputs``: index -> picture; ``maps``: run -> index -> key into ``scales``; ``rule``: which inputs, in words.

    At most 300 inputs, evenly spaced among those that have a picture or a map, fewer when they would fill the page.
    """
    every = sorted(frozenset().union(*(_drawable(run) for run in runs)))
    number = min(MOST, len(every))
    found = _drawn(runs, evenly(every, number))
    while (size := _size(found)) > BUDGET:
        number = int(number * 0.95 * BUDGET / size)
        found = _drawn(runs, evenly(every, number))
    some = f"{number} of the {len(every)} inputs that have a picture are shown with it, evenly spaced by index."
    every_one = f"All {number} inputs that have a picture are shown with it."
    return found | {"rule": NONE if not every else every_one if number == len(every) else some}


def evenly(indices: Sequence[int], number: int) -> list[int]:
    """``number`` of the indices, evenly spaced, the first and the last among them.

    >>> evenly([3, 5, 8, 9, 12], 3)
    [3, 8, 12]
    """
    return [indices[place] for place in np.unique(np.linspace(0, len(indices) - 1, number).round().astype(int))]


def _scales(run: Run) -> dict[int, str]:
    """The address of each input's scale, where it is one value per pixel."""
    if len(run.facts.get("shape", [])) not in (2, 3):
        return {}
    records = (record for line in run.lines for record in line.records)
    # Behind a front the noise has no pixels.
    return {r.index: r.scale for r in records if isinstance(r.scale, str) and r.front is None}


def _drawable(run: Run) -> frozenset[int]:
    with open_run(run.place) as store:
        return run.indices & {*store.pictured(), *_scales(run)}


def _drawn(runs: Sequence[Run], chosen: Sequence[int]) -> dict[str, dict[str, Any]]:
    inputs: dict[str, str] = {}
    maps: dict[str, dict[str, str]] = {}
    scales: dict[str, dict[str, str]] = {}  # by address: inputs that share their noise share the picture
    for run in runs:
        addresses = _scales(run)
        with open_run(run.place) as store:
            kept = set(store.pictured())
            inputs |= {str(i): uri(store.picture(i)) for i in chosen if i in kept and str(i) not in inputs}
            maps[run.name] = {str(i): addresses[i][:16] for i in chosen if i in addresses}
            for address in {addresses[i] for i in chosen if i in addresses} - scales.keys():
                scales[address[:16]] = scale_map(store.get(address), run.facts["shape"])
    return {"inputs": inputs, "maps": maps, "scales": scales}


def _size(found: dict[str, dict[str, Any]]) -> int:
    return sum(map(len, found["inputs"].values())) + sum(len(one["picture"]) for one in found["scales"].values())


def scale_map(scale: FloatArray, shape: Sequence[int]) -> dict[str, str]:
    """The scale of the noise per pixel, the mean of the channels, from its least (dark) to its largest (bright)."""
    full = np.broadcast_to(scale, tuple(shape))
    flat = full if full.ndim == 2 else full.mean(axis=0)
    low, high = float(flat.min()), float(flat.max())
    picture = picture_of((flat - low) / (high - low if high > low else 1.0))
    assert picture is not None  # a stored scale is finite, and it has two axes
    return {"picture": uri(picture, "viridis"), "low": round_down(low), "high": round_down(high)}


def uri(picture: Picture, colours: str | None = None) -> str:
    """A PNG as a data address; with the name of a colour map, of its colours."""
    image = Image.fromarray(picture.pixels)
    if colours is not None:
        palette = (255 * matplotlib.colormaps[colours](np.arange(256))[:, :3]).round().astype(np.uint8)
        image.putpalette(palette.tobytes())
    stream = io.BytesIO()
    image.save(stream, "png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
