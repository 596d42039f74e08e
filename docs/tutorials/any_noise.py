# %% [markdown]
# # Any noise, any norm
#
# A law of noise and a norm make a theorem; where none is known, a computed table stands for it. `certified_radius` gives what is
# proved, what no rule could exceed, and the rule.

# %%
import smoothcert as sc

for law in ("gaussian", "laplace", "uniform", "generalized_normal:beta=1.5"):
    for norm in (1, 2, "inf"):
        found = sc.certified_radius(law, norm, p=0.9, dim=784, sigma=1.0)
        print(f"{law:28} l{norm:<4} {found.lower:.4f} to {found.upper:.4f}  {found.rule}")

# %% [markdown]
# `p` is the probability of the answer, `sigma` the standard deviation of the noise. Where the two numbers agree, the rule is exact: no
# other rule proves more from the same votes. Laplace noise is the better in l1 as p rises, Gaussian noise in l2:

# %%
for p in (0.6, 0.9, 0.99, 0.999):
    radii = [sc.certified_radius(law, 1, p=p, dim=784, sigma=1.0).lower for law in ("gaussian", "laplace", "uniform")]
    print(p, [f"{radius:.3f}" for radius in radii])

# %% [markdown]
# The same names certify. The votes of one classifier under three laws, in the norm of each:

# %%
import torch

from smoothcert import data

train, test = data.load("digits", split="train"), data.load("digits")
x, y = torch.from_numpy(train.inputs(range(2000))), torch.tensor(train.truths(range(2000)))
means = torch.stack([x[y == digit].flatten(1).mean(dim=0) for digit in range(10)])


def nearest(batch: torch.Tensor) -> torch.Tensor:
    return -torch.cdist(batch.flatten(1), means)


for law, norm in (("gaussian", 2), ("laplace", 1), ("uniform", 1)):
    noise = sc.Noise.isotropic(law, sigma=0.5, grid=1 / 255)
    certificate = sc.Smoother(nearest, noise, norm=norm, estimate=2_000).certify(test.inputs([0]))[0]
    print(law, certificate)

# %% [markdown]
# Noise may differ from coordinate to coordinate: `sc.Noise(law, scale)` with an array gives an ellipsoid (a cross-polytope in l1, a box in l∞).
# `smoothcert curve --noise laplace --norms 1,2,inf --p 0.9` draws radii, and `smoothcert list laws` names the laws.
# How near to the best the tables are: [results](../results/any-norm.md).
