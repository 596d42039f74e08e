"""Models written by TorchScript: torch.jit.save, a ``.ts``, ``.torchscript`` or ``.pt`` file.

Like a ``.pt2`` file it is code: load one only from whom you would also run a program. TorchScript is deprecated; torch says
so at every call, which is silenced here and nowhere else. For new files use torch.export.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError, WeightsError
from smoothcert.models.travel import FromFile

SUFFIXES = (".ts", ".torchscript")
# Operators that differ between training and evaluation, and where they take the flag.
MODES = {"aten::batch_norm": 5, "aten::dropout": 2, "aten::feature_dropout": 2}


class Scripted(FromFile):
    """A TorchScript model in eval mode, put there when it is loaded: it may have no other."""

    def __init__(self, script: nn.Module) -> None:
        super().__init__()
        self.script = script

    @classmethod
    def read(cls, path: Path) -> Self:
        """The model of a TorchScript file; the file is trusted as code is."""
        allowed = "allowed: a file written by torch.jit.save"
        if not path.is_file():
            raise ModelError(f"the TorchScript model {path} does not exist; {allowed}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                script = torch.jit.load(path, map_location="cpu").eval()  # type: ignore[no-untyped-call]
        except Exception as error:  # a foreign archive fails in many ways
            raise WeightsError(f"{path} cannot be read as a TorchScript model: {error}; {allowed}") from error
        fixed = training_operators(script)
        if fixed:
            raise ModelError(
                f"{path} was traced in train mode ({', '.join(fixed)}), so its answer depends on the batch or on chance for "
                "ever; call model.eval() before torch.jit.trace"
            )
        return cls(script)

    def forward(self, x: Tensor) -> Tensor:
        """The output of the script."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            output: Tensor = self.script(x)
        return output


def is_scripted(path: Path) -> bool:
    """Is this a TorchScript archive, by its ending or by the code in it? A file of weights has none."""
    if path.suffix.lower() in SUFFIXES:
        return True
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def training_operators(script: nn.Module) -> list[str]:
    """The operators that a trace fixed in training mode, and batch norms that have no statistics of their own."""
    graph: Any = script.inlined_graph  # kept, since its nodes die with it
    found = set()
    for operator, flag in MODES.items():
        for node in graph.findAllNodes(operator):
            inputs = list(node.inputs())
            statistics = operator != "aten::batch_norm" or "None" not in str(inputs[3].type())
            if inputs[flag].toIValue() is True or not statistics:
                found.add(operator.removeprefix("aten::"))
    return sorted(found)
