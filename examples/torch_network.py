"""Your own torch network and a DataLoader: train a little under noise, certify, look.

python examples/torch_network.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import smoothcert as sc
from smoothcert import data

torch.manual_seed(0)
SIGMA = 0.5


def tensors(split: str, number: int) -> TensorDataset:
    """Some embedded digits, as a torch data set."""
    digits = data.load("digits", split=split)
    return TensorDataset(torch.from_numpy(digits.inputs(range(number))), torch.tensor(digits.truths(range(number))))


network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(5):
    for x, y in DataLoader(tensors("train", 2000), batch_size=64, shuffle=True):
        loss = nn.functional.cross_entropy(network(x + SIGMA * torch.randn_like(x)), y)  # train as it is certified
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

noise = sc.Noise.isotropic("gaussian", sigma=SIGMA, grid=1 / 255)  # the inputs are 8-bit pixels
smoothed = sc.Smoother(network.eval(), noise, norm=2, estimate=2_000)
loader = DataLoader(
    tensors("test", 8), batch_size=4, shuffle=True
)  # its order does not matter: indices are the data set's
for certificate in smoothed.certify(loader):
    print(certificate)
