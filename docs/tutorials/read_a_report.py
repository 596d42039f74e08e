# %% [markdown]
# # Read a report
#
# A run directory holds all that a report needs: neither the model nor torch is loaded to read it. First a small run to look at, of the
# nearest mean digit under two strengths of noise.

# %%
import tempfile
from pathlib import Path

import torch

import smoothcert as sc
from smoothcert import data

train, test = data.load("digits", split="train"), data.load("digits")
x, y = torch.from_numpy(train.inputs(range(2000))), torch.tensor(train.truths(range(2000)))
means = torch.stack([x[y == digit].flatten(1).mean(dim=0) for digit in range(10)])
folder = Path(tempfile.mkdtemp())


def nearest(batch: torch.Tensor) -> torch.Tensor:
    return -torch.cdist(batch.flatten(1), means)


for sigma in (0.25, 0.5):
    noise = sc.Noise.isotropic("gaussian", sigma=sigma, grid=test.grid)
    sc.certify_all(sc.Smoother(nearest, noise, estimate=1_000), test, folder / f"sigma-{sigma}", indices=range(60))

# %%
run = sc.Run(folder / "sigma-0.5")
run.records[0]

# %% [markdown]
# One record per input: the true class, the answer (−1: the votes could not decide), the radius, the votes. As a table:

# %%
run.to_frame()[["index", "truth", "label", "radius", "soundness"]].head()

# %% [markdown]
# **Certified accuracy** at a radius: the share of inputs that are answered right with at least that radius. The band says how far the
# share of *these* inputs may lie from that of all inputs like them.

# %%
run.figure()

# %% [markdown]
# The page compares runs: `smoothcert report RUN RUN --out report`, or

# %%
from smoothcert.report.runs import read_runs
from smoothcert.report.write import write_report

runs = read_runs([folder / "sigma-0.25", folder / "sigma-0.5"])
page = write_report(runs, [0.25, 0.5, 1.0], folder / "report")
sorted(path.name for path in page.parent.iterdir() if path.suffix in (".html", ".csv", ".pdf"))

# %% [markdown]
# How to read it, from the top:
#
# - **The cards**: per run its label, average certified radius, certified accuracy at one radius, votes and seconds per input. Compare numbers of the
#   same label only; the page says what else makes a comparison unfair.
# - **The curve**: higher is better; where two runs cross, neither is better everywhere. Strong noise reaches farther and is right less
#   often. Drag the radius, and cards, tables and pictures follow.
# - **Hollow points** are certificates that [echo](../concepts.md#echo): true, and empty.
# - **p_A**: how sure the votes are. A wall at the right end means that more votes would prove more.
# - **Every input**: sort by radius, filter the wrong ones, open a row for all its numbers.
#
# Everything that it shows: [the report](../report.md). To look into one input and move it: `smoothcert explore RUN --open`.
