"""Noise chosen for each input, and a memory that makes it sound: what was promised once is answered for ever.

python examples/per_input_noise.py
"""

import torch
from torch import nn

import smoothcert as sc

torch.manual_seed(0)
line = nn.Linear(2, 2).eval()
x = torch.tensor([[2.0, 0.5], [2.1, 0.4], [-1.0, 1.0]])

noise = sc.Noise.isotropic("gaussian", sigma=0.5)
frozen = sc.Smoother(line, noise, tuner="data_dependent", estimate=2_000).certify(x)
memory = sc.Memory()  # Memory.open("memory.sqlite") outlives the program
smoothed = sc.Smoother(line, noise, tuner="data_dependent", memory=memory, estimate=2_000)
settled = smoothed.certify(x)
for before, after in zip(frozen, settled, strict=True):
    print(before, "->", after)
print("answered from memory, without the model:", memory.answer(x[0]))
