"""Tiny runs, byte for byte: any change of a draw, a count, a bound or a format shows here.

Once with the class bounded alone and once with its strongest rival, the default: the votes of both are the same.
If a change is meant, write the files anew with: python tests/golden/test_golden.py
"""

from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.store import open_run

GOLDEN = {
    ":rivals=rest": Path(__file__).parent / "records.jsonl",
    "": Path(__file__).parent / "two-classes.jsonl",
}
NOISES = {
    "gaussian": sc.Noise.isotropic("gaussian", 0.25, grid=1 / 255),
    "laplace": sc.Noise("laplace", np.linspace(0.1, 0.4, 12), loc=0.01, grid=1 / 255),
    "uniform": sc.Noise.isotropic("uniform", 0.25, grid=1 / 255),
}
SETTINGS = {
    "gaussian": {"norm": 2, "estimator": "sequential"},
    "laplace": {"norm": 1, "radii": (0.05,), "estimator": "sequential"},
    "uniform": {"norm": float("inf"), "estimator": "fixed"},
}


def brightness(batch: torch.Tensor) -> torch.Tensor:
    """Three classes by sums of pixels, far from ties in floating point."""
    steps = (batch * 255).round().double()
    return torch.stack([steps[:, :4].sum(1), steps[:, 4:8].sum(1), steps[:, 8:].sum(1)], dim=1)


def lines(folder: Path, rivals: str) -> str:
    """The records of all runs, a line each."""
    pixels = np.random.default_rng(5).integers(0, 256, size=(5, 12), dtype=np.uint8)
    text = []
    for law, noise in NOISES.items():
        settings = SETTINGS[law] | {"estimator": f"{SETTINGS[law]['estimator']}{rivals}"}
        smoother = sc.Smoother(brightness, noise, estimate=2_000, select=50, seed=7, **settings)  # type: ignore[arg-type]
        sc.certify_all(smoother, ArrayDataset("golden", pixels, [0, 1, 2, 0, 1]), folder / law)
        with open_run(folder / law) as store:
            text += [record.to_json() for record in store.records()]
    return "\n".join(text) + "\n"


@pytest.mark.parametrize("rivals", GOLDEN)
def test_the_records_are_the_golden_ones(tmp_path: Path, rivals: str) -> None:
    assert lines(tmp_path, rivals) == GOLDEN[rivals].read_text(encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    for way, path in GOLDEN.items():
        with tempfile.TemporaryDirectory() as scratch:
            path.write_text(lines(Path(scratch), way), encoding="utf-8")
