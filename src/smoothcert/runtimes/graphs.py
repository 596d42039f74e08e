"""A network as a graph in ONNX: written by torch's exporter, or the file that the user brought."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.extras import import_extra
from smoothcert.files import cache_folder, forget_all_but, keep_arrays, kept_arrays
from smoothcert.identity import identity, name_for, version_of
from smoothcert.runtimes.base import Compute, quiet

if TYPE_CHECKING:
    from torch import Tensor, nn

KEPT = 8  # graphs in the cache: writing one takes seconds, and every start and every runtime reads the same
EXPORTERS = ("torch", "onnx", "onnxscript")


class OnnxFile(ABC):
    """A layer that is an ONNX file of the user's, which another runtime may read as well."""

    path: Path

    @abstractmethod
    def answered_by(self, compute: Compute) -> AbstractContextManager[None]:
        """Meanwhile, in this thread, ``compute`` answers for the file."""


def onnx_file(network: nn.Module) -> OnnxFile | None:
    """The ONNX file inside a network, if there is one."""
    return next((part for part in network.modules() if isinstance(part, OnnxFile)), None)


def onnx_of(network: nn.Module, block: Tensor) -> bytes:
    """The network in ONNX, for any number of rows where its code allows that; else for blocks of this shape."""
    rows, event = len(block), tuple(block.shape[1:])
    try:
        name = identity(network)
    except SettingError:  # named by its user: there is no telling whether it is the same
        return _exported(network, block)[0]
    for shape in ((None, *event), (rows, *event)):
        kept = kept_arrays(_place(name, shape))
        if kept is not None:  # whatever it is, it is compared with torch before a vote counts
            return kept["graph"].tobytes()
    graph, any_rows = _exported(network, block)
    place = _place(name, (None if any_rows else rows, *event))
    keep_arrays(place, {"graph": np.frombuffer(graph, np.uint8)})
    forget_all_but(KEPT, place.parent.glob("graph-*.arrays"))
    return graph


def _place(name: str, shape: tuple[int | None, ...]) -> Path:
    """Where the graph of a network is kept, which other versions of its exporter would write otherwise."""
    versions = {library: version_of(library) for library in EXPORTERS}
    return cache_folder() / f"graph-{name_for({'network': name, 'shape': shape, **versions})}.arrays"


def _exported(network: nn.Module, block: Tensor) -> tuple[bytes, bool]:
    """The graph by torch's exporter, which refuses code that branches on what is in a batch; is it for any rows?"""
    import torch

    import_extra("onnx", "graphs in ONNX")
    import_extra("onnxscript", "graphs in ONNX")
    with quiet(), torch.inference_mode(False), torch.no_grad():
        example = torch.zeros((max(2, len(block)), *block.shape[1:]))
        program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        rows = next(n for n in reversed(program.graph.nodes) if n.op == "placeholder").meta["val"].shape[0]
        any_rows = isinstance(rows, torch.SymInt)
        if not any_rows and len(example) != len(block):
            program = torch.export.export(network, (example[: len(block)],))
        made = torch.onnx.export(program, dynamo=True, verbose=False)
    assert made is not None
    return made.model_proto.SerializeToString(), any_rows
