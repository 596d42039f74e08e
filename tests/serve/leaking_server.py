"""A server of the example of theory §3, as a process that may be killed: python leaking_server.py MEMORY SECONDS_PER_BLOCK."""

import json
import sys
import time

import torch
from tests.serve.conftest import DATA, PLANE, smoother_with
from torch import Tensor

from smoothcert.cli.serve import _memory
from smoothcert.serve.server import serve
from smoothcert.serve.service import Service
from smoothcert.serve.settings import Serving
from smoothcert.testing.leaks import LocLeak


class Slow(torch.nn.Module):
    """The half-space, which takes its time."""

    def forward(self, batch: Tensor) -> Tensor:
        time.sleep(float(sys.argv[2]))
        return PLANE(batch)


if __name__ == "__main__":
    settings = Serving(port=0)

    def load() -> Service:
        smoother = smoother_with(Slow(), tuner=LocLeak(), estimate=500, identity="leaking")
        return Service(smoother, DATA, _memory(sys.argv[1], None), settings)

    serve(load, settings, as_json=True, said=lambda address: print(json.dumps({"address": address}), flush=True))
