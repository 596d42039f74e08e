"""An ONNX file: certify it into a run, and read the run.

python examples/onnx_file.py
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

import smoothcert as sc
from smoothcert import data
from smoothcert.models import load_model

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    train = data.load("digits", split="train")
    x, y = torch.from_numpy(train.inputs(range(1000))), torch.tensor(train.truths(range(1000)))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x + 0.25 * torch.randn_like(x)), y).backward()
        optimizer.step()
    path = Path(folder) / "network.onnx"
    torch.onnx.export(
        network.eval(),
        (torch.zeros(1, 1, 28, 28),),
        path,
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        verbose=False,
    )

    digits = data.load("digits")
    model = load_model(path, shape=digits.shape)  # smoothcert certify --model network.onnx does the same
    noise = sc.Noise.isotropic("gaussian", sigma=0.25, grid=digits.grid)
    run = sc.certify_all(sc.Smoother(model, noise, estimate=500), digits, Path(folder) / "run", indices=range(5))
    for record in sc.Run(run).records:
        print(record)
