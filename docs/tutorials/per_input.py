# %% [markdown]
# # Per-input noise and what its label means
#
# Noise that suits an input proves more about it. But then every point has noise of its own, and a certificate speaks of one noise only.

# %%
import torch

import smoothcert as sc


def ellipse(batch: torch.Tensor) -> torch.Tensor:
    """Class 1 inside an ellipse of the plane, class 0 outside."""
    inside = 1 - (batch / torch.tensor([2.2, 0.8])).norm(dim=1)
    return torch.stack([-inside, inside], dim=1)


x = torch.tensor([[0.0, 0.0], [0.0, 2.2]])
noise = sc.Noise.isotropic("gaussian", sigma=0.25)
sc.Smoother(ellipse, noise, estimate=5_000).certify(x)

# %% [markdown]
# Fixed noise, `global` certificates. Now a method that gives inputs outside the ellipse more noise. `reads_input` says that the
# noise depends on the input.


# %%
class Wide(sc.Tuner):
    reads_input = True

    def choose(self, smoother, x, start, indices):
        outside = ellipse(x)[:, :1] > 0
        return sc.Noise(start.law, torch.where(outside, torch.tensor([3.0, 1.4]), torch.tensor([0.5, 0.25])).double())


frozen = sc.Smoother(ellipse, noise, tuner=Wide(), estimate=5_000).certify(x)
frozen

# %% [markdown]
# Larger, and labelled `frozen`. With reason: here is a point in both regions, which have different classes.

# %%
point = torch.tensor([0.0, 0.4]).numpy()
[(certificate.label, bool(certificate.region.contains(point))) for certificate in frozen]

# %% [markdown]
# The deployed classifier chooses its noise at that point anew, so at most one of the two is true of it. The falsifier finds out:
# it searches each region for a point where the deployed classifier answers otherwise.

# %%
smoothed = sc.Smoother(ellipse, noise, tuner=Wide(), estimate=5_000)
for certificate, finding in zip(frozen, sc.attack(frozen, smoothed, x), strict=True):
    print(f"class {certificate.label}, radius {certificate.radius:.2f}: broken is {finding.violated}")

# %% [markdown]
# ## A memory makes it sound
#
# A memory keeps every region it was given and cuts a later one where it would contradict an earlier one. It answers inside its
# regions before the classifier is asked, so what it promised stays true.

# %%
memory = sc.Memory()  # sc.Memory.open("memory.sqlite") outlives the program
settled = sc.Smoother(ellipse, noise, tuner=Wide(), memory=memory, estimate=5_000).certify(x)
settled

# %%
memory.answer(point)

# %% [markdown]
# The label is `memory` now: true of the classifier that answers through this memory, in the order in which it was asked. Methods that
# are built in: `data_dependent`, `ancer`, `hill_climb`, and [shapes](../ucan.md). They also keep the [echo](../concepts.md#echo) small, so that a
# large region still says something of its input.
