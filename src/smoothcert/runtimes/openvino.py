"""OpenVINO, on the CPU."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.extras import import_extra
from smoothcert.runtimes.base import Compute, Runtime, cpu_only
from smoothcert.runtimes.graphs import onnx_file, onnx_of

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor, nn

USE = "the runtime openvino"
# One core per call and wherever the system puts it, and as many calls at once as there are cores: workers would wait for each
# other in one stream. In float32 also where bfloat16 is faster.
CORES = os.cpu_count() or 1
OPTIONS = {
    "INFERENCE_NUM_THREADS": CORES,
    "NUM_STREAMS": CORES,
    "INFERENCE_PRECISION_HINT": "f32",
    "ENABLE_CPU_PINNING": False,
}


@dataclass(frozen=True)
class OpenVino(Runtime):
    """The network as a graph in ONNX, by OpenVINO: fast on Intel's processors."""

    name = "openvino"

    @property
    def dtype(self) -> torch.dtype:
        import torch

        return torch.float32

    @property
    def versions(self) -> dict[str, str]:
        return {"openvino": import_extra("openvino", USE).__version__}

    def check(self, device: torch.device) -> None:
        cpu_only(self.name, device)
        import_extra("openvino", USE)

    def load(self, network: nn.Module, block: Tensor) -> Compute:
        file = onnx_file(network)
        if file is None:
            return _compiled(onnx_of(network, block), tuple(block.shape))
        compute = _compiled(file.path, tuple(block.shape))

        def run(copies: Tensor) -> Tensor:  # what stands around the file stays with torch
            with file.answered_by(compute):
                answers: Tensor = network(copies)
                return answers

        return run


def _compiled(graph: bytes | Path, shape: tuple[int, ...]) -> Compute:
    import torch

    core = import_extra("openvino", USE).Core()
    model = core.read_model(graph)
    model.reshape(list(shape))
    compiled = core.compile_model(model, "CPU", OPTIONS)
    idle: deque[Any] = deque()  # requests, each with its own memory; as many as were ever asked at once

    def run(copies: Tensor) -> Tensor:
        try:
            request = idle.pop()
        except IndexError:
            request = compiled.create_infer_request()
        found = request.infer(copies.contiguous().numpy(), share_inputs=True)[0]
        answers = torch.from_numpy(found.copy())  # the request's own memory is written again by its next block
        idle.append(request)
        return answers

    return run
