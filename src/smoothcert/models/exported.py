"""Models written by torch.export: a graph in a ``.pt2`` file.

A ``.pt2`` file is code: torch.export.load runs what the file says. Load one only from whom you would also
run a program. For weights from strangers use safetensors with a built-in architecture.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, fx, nn

from smoothcert.errors import ModelError, WeightsError
from smoothcert.models.travel import FromFile


class Exported(FromFile):
    """An exported graph: it has one mode, that of its export, so train() and eval() change nothing."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph
        self.sizes = _input_sizes(graph)
        for module in self.modules():
            module.training = False

    @classmethod
    def read(cls, path: Path) -> Self:
        """The graph of a ``.pt2`` file; the file is trusted as code is."""
        allowed = "allowed: a .pt2 file written by torch.export.save"
        if not path.is_file():
            raise ModelError(f"the exported model {path} does not exist; {allowed}")
        if not zipfile.is_zipfile(path):
            raise WeightsError(f"{path} is not an exported model, or it is truncated; {allowed}")
        try:
            return cls(torch.export.load(path).module())
        except Exception as error:  # a foreign archive fails in many ways
            raise WeightsError(f"{path} cannot be read as an exported model: {error}; {allowed}") from error

    def content(self) -> object:
        return self.digest or self.graph

    def forward(self, x: Tensor) -> Tensor:
        """The output of the graph, for a batch of a size it was exported for."""
        self._check(x.shape)
        try:
            output: Tensor = self.graph(x)
        except AssertionError as error:  # a guard of the graph that its input sizes do not show
            raise ModelError(
                f"the exported model refused a batch of shape {tuple(x.shape)}: {error}; "
                "export it for these inputs with a dynamic batch dimension"
            ) from error
        return output

    def _check(self, shape: Sequence[int]) -> None:
        if not self.sizes:
            return
        batch = self.sizes[0]
        if batch is not None and batch != shape[0]:
            raise ModelError(
                f"the exported model takes batches of exactly {batch}, and got {shape[0]}; export it with a dynamic "
                f'batch dimension (dynamic_shapes=({{0: torch.export.Dim("batch")}},)), or use --block {batch}'
            )
        self.check_event(shape[1:])

    def check_event(self, shape: Sequence[int]) -> None:
        """Raise ModelError unless the graph takes inputs of ``shape``, without the batch."""
        wanted = self.sizes[1:]
        fits = len(wanted) == len(shape) and all(want in (None, got) for want, got in zip(wanted, shape, strict=True))
        if self.sizes and not fits:
            expected = ", ".join("any" if size is None else str(size) for size in wanted)
            raise ModelError(f"the exported model takes inputs of shape ({expected}); got {tuple(shape)}")


def _input_sizes(graph: nn.Module) -> tuple[int | None, ...]:
    """The size of each dimension of the graph's input, None where any is taken; empty when unknown."""
    if not isinstance(graph, fx.GraphModule):
        return ()
    inputs = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        raise ModelError(f"an exported classifier must take one input, the batch; this one takes {len(inputs)}")
    if not isinstance(inputs[0], Tensor):
        return ()
    return tuple(size if isinstance(size, int) else None for size in inputs[0].shape)
