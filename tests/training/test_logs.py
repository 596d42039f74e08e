"""Logs for TensorBoard, read back with its own reader where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from smoothcert.training import EpochReport
from smoothcert.training.logs import tensorboard_log


@pytest.mark.filterwarnings("ignore")  # of the library
def test_the_logs_read_back(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for epoch in (1, 2):  # a resumed run opens the folder again
        tensorboard_log(tmp_path)(
            EpochReport(epoch, 2, loss=1 / epoch, accuracy=0.5, validation_accuracy=None, seconds=3)
        )
    scalars = {}
    for file in sorted((tmp_path / "tensorboard").iterdir()):
        events = reader.EventAccumulator(str(file)).Reload()
        scalars |= {(tag, e.step): e.value for tag in events.Tags()["scalars"] for e in events.Scalars(tag)}
    assert scalars == {
        ("loss", 1): 1.0, ("loss", 2): 0.5, ("accuracy", 1): 0.5, ("accuracy", 2): 0.5, ("seconds", 1): 3.0, ("seconds", 2): 3.0,
    }  # fmt: skip
