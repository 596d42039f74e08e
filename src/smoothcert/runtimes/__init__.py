"""How the network is computed, one file per kind. A new one is a file and a line of RUNTIMES; torch is imported on use."""

from __future__ import annotations

from smoothcert.registry import Registry
from smoothcert.runtimes.base import Runtime
from smoothcert.runtimes.onnxruntime import OnnxRuntime
from smoothcert.runtimes.openvino import OpenVino
from smoothcert.runtimes.pytorch import Compiled, Folded, Torch

__all__ = ["REGISTRY", "RUNTIMES", "Compiled", "Folded", "OnnxRuntime", "OpenVino", "Runtime", "Torch", "runtime_named"]

RUNTIMES: dict[str, type[Runtime]] = {
    "torch": Torch,
    "folded": Folded,
    "compiled": Compiled,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
}
REGISTRY: Registry[Runtime] = Registry("runtime", "smoothcert.runtimes", RUNTIMES, Runtime)  # type: ignore[type-abstract]
runtime_named = REGISTRY.make
