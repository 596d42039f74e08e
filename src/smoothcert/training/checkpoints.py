"""The checkpoint of a training run: written whole after each epoch, read as tensors and numbers only."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import RunError
from smoothcert.files import write_atomically
from smoothcert.training.settings import EpochReport

CHECKPOINT = "checkpoint.pt"
FORMAT = 2
FIELDS = frozenset({"format", "run", "progress", "learner", "optimizer", "factors"})


@dataclass(frozen=True)
class Progress:
    """How far a run has come: epochs done, the accuracies after the last, and the best one on validation data."""

    epoch: int = 0
    accuracy: float = 0.0
    validation_accuracy: float | None = None
    best_epoch: int = 0  # 0: there is none
    best_accuracy: float = -1.0

    def after(self, report: EpochReport) -> Progress:
        """The progress after one more epoch; of equal accuracies the earlier epoch stays the best."""
        found = report.validation_accuracy
        better = found is not None and found > self.best_accuracy
        return Progress(
            report.epoch,
            report.accuracy,
            found,
            report.epoch if better else self.best_epoch,
            found if found is not None and better else self.best_accuracy,
        )


def save_checkpoint(
    folder: Path,
    learner: nn.Module,
    optimizer: torch.optim.Optimizer,
    factors: Tensor,
    progress: Progress,
    run: Mapping[str, str],
) -> None:
    """Write all that the next epoch needs; ``run`` names settings, data and architecture."""
    content = {
        "format": FORMAT,
        "run": dict(run),
        "progress": asdict(progress),
        "learner": learner.state_dict(),
        "optimizer": optimizer.state_dict(),
        "factors": factors,
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    try:
        write_atomically(folder / CHECKPOINT, buffer.getvalue())
    except OSError as error:
        raise RunError(
            f"cannot write the checkpoint of epoch {progress.epoch} to {folder}: {error}; the one before it is kept"
        ) from error


def resume(
    folder: Path, learner: nn.Module, optimizer: torch.optim.Optimizer, factors: Tensor, run: Mapping[str, str]
) -> Progress:
    """Put all three where the checkpoint in ``folder`` left off; nothing done when there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        return Progress()
    content = _read(path)
    _check_same(path, content["run"], run)
    try:
        learner.load_state_dict(content["learner"])
        optimizer.load_state_dict(content["optimizer"])
    except (RuntimeError, ValueError, KeyError) as error:
        raise RunError(f"{path} is of another model: {error}; use another folder, or delete it") from error
    factors.copy_(content["factors"])
    return Progress(**content["progress"])


def _read(path: Path) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a foreign file fails in many ways
        raise RunError(f"{path} cannot be read as a checkpoint; delete it to start again") from error
    if not isinstance(content, dict) or content.keys() != FIELDS or content["format"] != FORMAT:
        raise RunError(f"{path} is not a training checkpoint of format {FORMAT}; use another folder, or delete it")
    return content


def _check_same(path: Path, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise RunError unless both runs are the same, naming each difference.

    More epochs are the same run if no step depends on how many there will be.
    """
    endless = now.get("schedule") == json.dumps("constant") and float(now.get("warmup", 1)) == 0
    longer = endless and int(before.get("epochs", 0)) < int(now.get("epochs", 0))
    differences = [
        f"{name} was {before.get(name, 'absent')}, is {now.get(name, 'absent')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name) and not (name == "epochs" and longer)
    ]
    if differences:
        more = " (more epochs go on only with --schedule constant --warmup 0: other steps depend on where the end is)"
        raise RunError(
            f"{path} is of another run: {'; '.join(differences)}; use the same settings to resume, or another folder to start anew"
            f"{more if any(each.startswith('epochs') for each in differences) else ''}"
        )
