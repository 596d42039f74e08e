# %% [markdown]
# # Train for certificates
#
# A certificate is as large as the network is sure under noise. A recipe is a loss for that. Here three of them, two epochs each,
# on 2 000 embedded digits, judged by what they certify.

# %%
import tempfile
from pathlib import Path

import numpy as np
import torch

import smoothcert as sc
from smoothcert import data
from smoothcert.training import TrainSettings, new_model, train

digits, test = data.load("digits", split="train"), data.load("digits")
inputs, labels = digits.inputs(range(2000)), np.array(digits.truths(range(2000)))
noise = sc.Noise.isotropic("gaussian", sigma=0.5)
shape = {"name": "mlp", "shape": digits.shape, "classes": 10}

# %% [markdown]
# `train` writes the network, its settings and a checkpoint; called again it goes on. On the command line the same is
# `smoothcert train --model mlp --data digits --sigma 0.5 --recipe consistency --epochs 2 --out net`.

# %%
networks = {}
for recipe in ("gaussian", "consistency", "macer"):
    model = new_model(shape, seed=0)
    settings = TrainSettings(recipe=recipe, epochs=2)
    train(model, inputs, labels, settings, noise=noise, out=Path(tempfile.mkdtemp()) / recipe, architecture=shape)
    networks[recipe] = model

# %% [markdown]
# Certify the same 30 test digits with each. Wrong answers and abstentions count as radius 0.

# %%
x, truths = torch.from_numpy(test.inputs(range(30))), test.truths(range(30))
on_grid = sc.Noise.isotropic("gaussian", sigma=0.5, grid=digits.grid)
for recipe, model in networks.items():
    found = sc.Smoother(model, on_grid, estimate=2_000).certify(x)
    radii = [
        certificate.radius * (certificate.label == truth) for certificate, truth in zip(found, truths, strict=True)
    ]
    right = sum(certificate.label == truth for certificate, truth in zip(found, truths, strict=True))
    print(f"{recipe:12} right and certified {right} of 30, average certified radius {np.mean(radii):.3f}")

# %% [markdown]
# Two epochs and 30 digits rank nothing; [the results](../results/training.md) compare the recipes in equal time. What to choose, and a
# recipe of your own: [training](../training.md).
