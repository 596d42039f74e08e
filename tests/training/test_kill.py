"""A training killed by force, on the command line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from smoothcert.models import read_state

COMMAND = (
    *("train", "--model", "mlp", "--sigma", "0.3", "--limit", "200", "--epochs", "5", "--recipe", "smoothadv"),
    *("--data-dependent", "--validation", "50", "--out"),
)


def start(out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "smoothcert", *COMMAND, str(out)], stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    killed = start(tmp_path / "part")
    while not (tmp_path / "part/checkpoint.pt").exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "part/model.safetensors").exists()
    for out in ("part", "whole"):
        assert start(tmp_path / out).wait() == 0
    for file in ("model.safetensors", "best.safetensors"):
        part, whole = read_state(tmp_path / "part" / file), read_state(tmp_path / "whole" / file)
        assert all(torch.equal(part[name], whole[name]) for name in whole)
