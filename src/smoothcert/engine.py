"""Where and how votes are cast: what a run needs beside its model, its noise and its plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.errors import SettingError
from smoothcert.registry import Checked, setting

if TYPE_CHECKING:
    import torch


AUTO = "auto"  # the runtime that is yet to be chosen


@dataclass(frozen=True)
class Engine(Checked):
    """How votes are cast.

    workers: on the CPU each takes one thread; give 1 for a callable that must not be called twice at once. No number
    depends on workers or rows.
    """

    block: int | None = setting(
        None,
        "Noisy copies per call of the network: it sets when votes may stop and which noise is drawn. Else 200, fewer for "
        "large inputs (10 at 3 × 224 × 224).",
        least=1,
    )
    device: str = setting("cpu", "Where the network is computed: cpu or cuda.", changes="rounding")
    workers: int | None = setting(
        None,
        "Blocks in flight at once on this machine; changes no number. Else one per thread.",
        least=1,
        changes="nothing",
        flag=None,
    )
    shared_noise: bool = setting(
        False,
        "The same draws for all inputs: faster; each certificate is as sure, but their errors come together.",
        flag="--shared-noise/--own-noise",
    )
    runtime: str = setting(
        "torch",
        "What computes the network, with parameters: torch:precision=bfloat16,channels_last=true, folded, compiled, onnxruntime "
        "or openvino. certify also takes auto: what is fastest here, tried for a few seconds before a long run.",
        changes="rounding",
        metavar="NAME[:KEY=VALUE,…]",
    )
    executor: str = setting(
        "threads",
        "Where votes are cast: threads (of this process), or ray:actors=8,gpus=1 (a cluster); changes no number.",
        changes="nothing",
        flag="--engine",
        metavar="NAME[:KEY=VALUE,…]",
    )
    rows: int = setting(64, "Inputs taken in at once; changes no number.", least=1, changes="nothing", flag=None)


def device_named(name: str) -> torch.device:
    """The device, if it is here."""
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as problem:
        raise SettingError(
            f"device {name!r} cannot be used here ({str(problem).splitlines()[0]}); "
            "allowed: cpu, or cuda where it exists"
        ) from problem
    return device
