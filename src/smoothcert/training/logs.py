"""Logs that TensorBoard reads; needs the extra ``tensorboard``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from smoothcert.extras import import_extra
from smoothcert.training.settings import EpochReport

FOLDER = "tensorboard"


def tensorboard_log(out: Path) -> Callable[[EpochReport], None]:
    """A progress function that writes the numbers of each epoch to ``out/tensorboard``."""
    library = import_extra("torch.utils.tensorboard", "logs for TensorBoard", "tensorboard")

    def write(report: EpochReport) -> None:
        # One file per epoch, closed at once: a killed run leaves nothing half-written, and a resumed one adds to it.
        with library.SummaryWriter(str(out / FOLDER)) as writer:
            for name in ("loss", "accuracy", "validation_accuracy", "seconds"):
                value = getattr(report, name)
                if value is not None:
                    writer.add_scalar(name, value, report.epoch)

    return write
