"""Models in ``.onnx`` files, run by onnxruntime on the CPU: answers only, no gradients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from smoothcert.errors import MissingExtra, ModelError, WeightsError
from smoothcert.extras import import_extra
from smoothcert.models.travel import FromFile
from smoothcert.runtimes.base import Compute
from smoothcert.runtimes.graphs import OnnxFile
from smoothcert.runtimes.onnxruntime import session_of


class OnnxModel(FromFile, OnnxFile):
    """An onnxruntime session as a module; the hash of its files stands for its weights."""

    path: Path

    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session, self.sizes = session, _input_sizes(session)
        self._other = threading.local()  # what computes the graph instead of the session

    @classmethod
    def read(cls, path: Path) -> Self:
        """The model of an ``.onnx`` file, one thread per call, as votes are cast from several."""
        if not path.is_file():
            raise ModelError(f"the ONNX model {path} does not exist")
        try:
            session = session_of(path)
        except MissingExtra:
            raise
        except Exception as error:  # onnxruntime's errors share no base of their own
            raise WeightsError(
                f"{path} cannot be read as an ONNX model: {error}; allowed: a file written by torch.onnx.export or the like"
            ) from error
        layers = _in_train_mode(path)
        if layers:
            raise ModelError(
                f"the nodes {layers[:5]} of {path} are in training mode, so an answer depends on the rest of the batch or on chance; "
                "export the model in eval mode: torch.onnx.export(model.eval(), …)"
            )
        return cls(session)

    @staticmethod
    def files(path: Path) -> list[Path]:
        """The file, and the files beside it that it names, where large models keep their weights."""
        content = path.read_bytes()
        beside = sorted(file for file in path.parent.iterdir() if file != path and file.is_file())
        return [path, *(file for file in beside if file.name.encode() in content)]

    def forward(self, x: Tensor) -> Tensor:
        """The first output of the graph for a batch in float32."""
        if torch.is_grad_enabled() and x.requires_grad:
            raise ModelError(
                "an ONNX model answers but has no gradients, and gradients were asked for (by training, an attack or a "
                "tuner that climbs them); use a PyTorch model for that, or a method without gradients"
            )
        self._check(tuple(x.shape))
        other: Compute | None = getattr(self._other, "compute", None)
        if other is not None:
            return other(x)
        name = self.session.get_inputs()[0].name
        output = self.session.run(None, {name: x.detach().cpu().float().numpy()})[0]
        return torch.from_numpy(output).to(x.device)

    @contextmanager
    def answered_by(self, compute: Compute) -> Iterator[None]:
        self._other.compute = compute
        try:
            yield
        finally:
            self._other.compute = None

    def _check(self, shape: tuple[int, ...]) -> None:
        fits = len(shape) == len(self.sizes) and all(
            want in (None, got) for want, got in zip(self.sizes, shape, strict=True)
        )
        if not fits:
            expected = ", ".join("any" if size is None else str(size) for size in self.sizes)
            only = self.sizes and self.sizes[0] not in (None, shape[0])
            hint = f"; export it with a dynamic batch dimension, or use --block {self.sizes[0]}" if only else ""
            raise ModelError(f"the ONNX model takes batches of shape ({expected}); got {shape}{hint}")


def _in_train_mode(path: Path) -> list[str]:
    """The batch norms and dropouts that average over the batch, or throw dice, whenever the graph is run."""
    onnx = import_extra("onnx", "ONNX models")
    model = onnx.load(path, load_external_data=False)
    known = {value.name: value for value in model.graph.initializer}
    nodes = [node for part in (model.graph, *model.functions) for node in _nodes(part)]
    constants = [node for node in nodes if node.op_type == "Constant" and node.attribute[0].name == "value"]
    known |= {node.output[0]: node.attribute[0].t for node in constants}
    found = []
    for node in nodes:
        training = {value.name: value.i for value in node.attribute}.get("training_mode", 0)
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in known:
            training = onnx.numpy_helper.to_array(known[node.input[2]]).any()
        # Before opset 14 a batch norm in training mode is one that also gives out its statistics.
        if training or (node.op_type == "BatchNormalization" and len(node.output) > 1):
            found.append(node.name or f"{node.op_type} of {node.output[0]}")
    return found


def _nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for value in node.attribute:
            for inner in (*([value.g] if value.HasField("g") else ()), *value.graphs):
                yield from _nodes(inner)


def _input_sizes(session: Any) -> tuple[int | None, ...]:
    """The size of each dimension of the graph's input, None where any is taken."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ModelError(f"an ONNX classifier must take one input, the batch; this one takes {len(inputs)}")
    if inputs[0].type != "tensor(float)":
        raise ModelError(f"an ONNX classifier must take float32; this one takes {inputs[0].type}; export it in float32")
    return tuple(size if isinstance(size, int) else None for size in inputs[0].shape)
