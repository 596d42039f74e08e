# %% [markdown]
# # Extend
#
# A law, a method, an estimator, an attack, a recipe, a store of your own is a small class; a suite in `smoothcert.testing` says whether it
# is right. Here a law of noise from nothing to a certificate: Student's t.

# %%
import math
from dataclasses import dataclass

import numpy as np
import torch

import smoothcert as sc
from smoothcert.laws import Law
from smoothcert.registry import setting


@dataclass(frozen=True)
class Student(Law):
    """Student's t, of unit scale."""

    freedom: float = setting(5.0, "degrees of freedom: the power of the tail", least=2, most=100)

    def sample(self, shape, draws):
        return draws.normal(shape) / (draws.gamma(shape, self.freedom / 2) * (2 / self.freedom)) ** 0.5

    def log_prob(self, z):
        half = (self.freedom + 1) / 2
        total = math.lgamma(half) - math.lgamma(self.freedom / 2) - 0.5 * math.log(self.freedom * math.pi)
        return total - half * np.log1p(np.square(z) / self.freedom)


# %% [markdown]
# Two methods: how it is drawn, and its density. A bound is about the law that is drawn, so the suite compares the two, in both
# precisions, on and off the pixel grid:

# %%
from smoothcert.testing.laws import LawSuite

LawSuite().check(Student())

# %% [markdown]
# No error: they agree. What would a wrong one look like? The density of freedom 5 with draws of freedom 4:


# %%
class Wrong(Student):
    def sample(self, shape, draws):
        return Student(freedom=4.0).sample(shape, draws)


try:
    LawSuite().check(Wrong())
except Exception as error:
    print(type(error).__name__, str(error)[:200])

# %% [markdown]
# A law without theorems of its own is certified by a computed table, in any norm:

# %%
found = sc.certified_radius(Student(), norm=2, p=0.9, dim=100, sigma=1.0)
print(f"proved {found.lower:.3f}, at most {found.upper:.3f}, by {found.rule}")

# %%
noise = sc.Noise.isotropic(Student(), sigma=0.5)


def sign(batch: torch.Tensor) -> torch.Tensor:
    """Class 0 where the sum is positive."""
    total = batch.sum(dim=1)
    return torch.stack([total, -total], dim=1)


sc.Smoother(sign, noise, norm=2, estimate=2_000).certify(torch.full((1, 100), 0.1))

# %% [markdown]
# On the command line it is `--noise mylaws:Student:freedom=4`, and with an entry point of your package `--noise student`. The other kinds,
# each with an example and its suite: [extending](../extending.md).
