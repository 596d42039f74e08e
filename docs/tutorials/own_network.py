# %% [markdown]
# # Certify your own network
#
# Anything that takes a batch and returns scores can be certified. Here a small PyTorch network and the embedded digits; put your own in
# their place.

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import smoothcert as sc
from smoothcert import data

torch.manual_seed(0)


def tensors(split: str, number: int) -> TensorDataset:
    digits = data.load("digits", split=split)
    return TensorDataset(torch.from_numpy(digits.inputs(range(number))), torch.tensor(digits.truths(range(number))))


# %% [markdown]
# Votes are cast on noisy inputs, so the network has to be trained on noisy inputs: with the noise that certifies. One line of the
# usual loop changes.

# %%
SIGMA = 0.5
network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(5):
    for x, y in DataLoader(tensors("train", 2000), batch_size=64, shuffle=True):
        loss = nn.functional.cross_entropy(network(x + SIGMA * torch.randn_like(x)), y)  # this line
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %% [markdown]
# Eight test digits. The pixels have 8 bits, so the noise is laid on their grid ([why](../concepts.md#grid)).

# %%
noise = sc.Noise.isotropic("gaussian", sigma=SIGMA, grid=1 / 255)
smoothed = sc.Smoother(network.eval(), noise, norm=2, estimate=2_000)
certificates = smoothed.certify(DataLoader(tensors("test", 8), batch_size=4))
certificates

# %% [markdown]
# In a notebook a certificate shows its input. Its `radius` is an l2 distance in the units of the input; `p` is the probability of
# the answer under noise that the votes prove.

# %%
certificates[0]

# %% [markdown]
# Over a data set, keep records: the call can be stopped at any moment, and goes on when it is made again.

# %%
import tempfile

folder = tempfile.mkdtemp()
sc.certify_all(smoothed, tensors("test", 30), folder)
run = sc.Run(folder)
run.figure()

# %%
radii, accuracy = run.curve([0, 0.25, 0.5, 1.0])
for radius, share in zip(radii, accuracy, strict=True):
    print(f"right and certified at {radius:g}: {share:.0%} of {len(run)} digits")

# %% [markdown]
# The same on the command line, with a network of your own in `mynet.py`: see the [quickstart](../quickstart.md). Next:
# [read a report](read_a_report.py).
