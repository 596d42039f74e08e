"""A record and back: the region and the certificate are those that were given out, to the last bit."""

from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.data import ArrayDataset
from smoothcert.records.record import certificate_of, region_of, scale_of
from smoothcert.store import open_run

PIXELS = np.random.default_rng(3).integers(0, 256, size=(4, 6), dtype=np.uint8)


def leaning(batch: torch.Tensor) -> torch.Tensor:
    """Two classes by the sum of the first half against the second."""
    score = batch[:, :3].sum(1) - batch[:, 3:].sum(1)
    return torch.stack([score, -score], dim=1)


@pytest.mark.parametrize("grid", [1 / 255, None])
@pytest.mark.parametrize("scale", [0.7, np.linspace(0.1, 0.4, 6)], ids=["number", "array"])
def test_a_record_gives_back_the_certificate(grid: float | None, scale: float | np.ndarray, tmp_path: Path) -> None:
    """Against what certify says of the same inputs, on and off the grid."""
    smoother = sc.Smoother(leaning, sc.Noise("gaussian", scale, grid=grid), estimate=500, engine=sc.Engine(workers=1))
    x = torch.from_numpy((PIXELS / 255).astype(np.float32))
    sc.certify_all(smoother, ArrayDataset("rows", PIXELS), tmp_path / "run")
    abstained = 0
    with open_run(tmp_path / "run") as store:
        for record, given, row in zip(store.records(), smoother.certify(x), x, strict=True):
            center = smoother.noise.center_of(row)
            found = certificate_of(record, center, store)
            assert (found.label, found.bound, found.soundness, found.rule) == (
                given.label, given.bound, given.soundness, given.rule,
            )  # fmt: skip
            np.testing.assert_array_equal(scale_of(record, store), np.asarray(scale))
            if given.region is None:
                assert found.region is region_of(record, center, store) is None
                abstained += 1
                continue
            assert found.region is not None
            assert (found.region.radius, found.region.norm) == (given.region.radius, given.region.norm)
            np.testing.assert_array_equal(found.region.center, given.region.center)
            np.testing.assert_array_equal(found.region.full_scale, given.region.full_scale)
            assert found.radius == record.radius == given.radius
    assert abstained < 4
