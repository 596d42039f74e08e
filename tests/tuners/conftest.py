"""Five pictures of noise, to certify under noise chosen for each."""

import numpy as np
import pytest

from smoothcert.data import ArrayDataset


@pytest.fixture
def pixels() -> ArrayDataset:
    values = np.random.default_rng(0).integers(0, 256, size=(5, 1, 28, 28), dtype=np.uint8)
    return ArrayDataset("noise", values)
