"""ONNX Runtime, on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.extras import import_extra
from smoothcert.runtimes.base import Compute, Runtime, cpu_only
from smoothcert.runtimes.graphs import onnx_file, onnx_of

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor, nn

USE = "the runtime onnxruntime and ONNX models"


@dataclass(frozen=True)
class OnnxRuntime(Runtime):
    """The network as a graph in ONNX, by onnxruntime: fast for small convolutional networks and for large pictures."""

    name = "onnxruntime"

    @property
    def dtype(self) -> torch.dtype:
        import torch

        return torch.float32

    @property
    def versions(self) -> dict[str, str]:
        return {"onnxruntime": import_extra("onnxruntime", USE).__version__}

    def check(self, device: torch.device) -> None:
        cpu_only(self.name, device)
        import_extra("onnxruntime", USE)

    def load(self, network: nn.Module, block: Tensor) -> Compute:
        import torch

        if onnx_file(network) is not None:  # which onnxruntime computes as it is
            return network
        session = session_of(onnx_of(network, block))
        name = session.get_inputs()[0].name
        return lambda copies: torch.from_numpy(session.run(None, {name: copies.numpy()})[0])


def session_of(graph: bytes | Path) -> Any:
    """A session that computes on the calling thread alone: workers run blocks side by side, and rounding depends on threads."""
    library = import_extra("onnxruntime", USE)
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    source = graph if isinstance(graph, bytes) else str(graph)
    return library.InferenceSession(source, options, providers=["CPUExecutionProvider"])
