"""One MLP, 20 digits, n = 10 000 votes: processor seconds and average certified radius, three ways, in turns.

    python benchmarks/side_by_side.py

smoothcert with all the votes, as it decides by itself, and a plain loop as in Cohen et al. (2019): noise in batches, counts, and
the Clopper-Pearson bound. If the Adversarial Robustness Toolbox is installed, its PyTorchRandomizedSmoothing as well. The ways
take turns, several times, and the least time of each is printed, since others may use the machine too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import beta, norm
from torch import Tensor, nn

import smoothcert as sc
from smoothcert import data
from smoothcert.training import new_model

SIGMA, VOTES, SELECT, ALPHA, INPUTS, BATCH, TURNS = 0.5, 10_000, 100, 0.001, 20, 400, 3
Radii = list[tuple[int | None, float]]  # the label and the radius of each input


def trained() -> nn.Module:
    """A perceptron that saw this noise for a few epochs."""
    digits = data.load("digits", split="train")
    x, y = torch.from_numpy(digits.inputs(range(4000))), torch.tensor(digits.truths(range(4000)))
    model = new_model({"name": "mlp", "shape": digits.shape, "classes": 10}, 0)
    optimizer, chance = torch.optim.Adam(model.parameters(), lr=3e-3), torch.Generator().manual_seed(0)
    for _ in range(4):
        for rows in torch.randperm(len(x), generator=chance).split(128):
            noisy = x[rows] + SIGMA * torch.randn(x[rows].shape, generator=chance)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(noisy), y[rows]).backward()
            optimizer.step()
    return model.eval()


def by_smoothcert(model: nn.Module, x: Tensor, estimator: str) -> Radii:
    """With or without stopping early."""
    noise = sc.Noise.isotropic("gaussian", SIGMA)
    smoothed = sc.Smoother(model, noise, select=SELECT, estimate=VOTES, alpha=ALPHA, estimator=estimator)
    return [(c.label, c.radius) for c in smoothed.certify(x)]


@torch.no_grad()
def plain_counts(model: nn.Module, x: Tensor, votes: int) -> Tensor:
    """How often each class won among so many noisy copies."""
    counts = torch.zeros(10, dtype=torch.long)
    for start in range(0, votes, BATCH):
        copies = x.repeat(min(BATCH, votes - start), 1, 1, 1)
        counts += model(copies + SIGMA * torch.randn_like(copies)).argmax(dim=1).bincount(minlength=10)
    return counts


def by_plain_loop(model: nn.Module, x: Tensor) -> Radii:
    """The certificate of Cohen et al. (2019), Algorithm 1."""
    found: Radii = []
    for one in x:
        label = int(plain_counts(model, one, SELECT).argmax())
        wins = int(plain_counts(model, one, VOTES)[label])
        lower = float(beta.ppf(ALPHA, wins, VOTES - wins + 1)) if wins else 0.0
        found.append((None, 0.0) if lower < 0.5 else (label, SIGMA * float(norm.ppf(lower))))
    return found


def by_toolbox(model: nn.Module, x: Tensor) -> Radii:
    """The Adversarial Robustness Toolbox."""
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    classifier = PyTorchRandomizedSmoothing(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape[1:]),
        nb_classes=10,
        sample_size=SELECT,
        scale=SIGMA,
        alpha=ALPHA,
        device_type="cpu",
    )
    labels, radii = classifier.certify(x.numpy(), n=VOTES, batch_size=BATCH)
    return [(None, 0.0) if label < 0 else (int(label), float(r)) for label, r in zip(labels, radii, strict=True)]


def ways() -> dict[str, Callable[[nn.Module, Tensor], Radii]]:
    """What is compared, by name."""
    known: dict[str, Callable[[nn.Module, Tensor], Radii]] = {
        "smoothcert, all the votes": lambda model, x: by_smoothcert(model, x, "fixed"),
        "smoothcert, as it is": lambda model, x: by_smoothcert(model, x, "sequential"),
        "plain loop (Cohen et al.)": by_plain_loop,
    }
    try:
        import art.estimators.certification.randomized_smoothing  # noqa: F401
        import statsmodels.stats.proportion  # noqa: F401  (the toolbox asks for it late)
    except (ImportError, RuntimeError, OSError, AttributeError) as problem:
        print(f"without the toolbox, which does not import here: {problem}")
        return known
    return known | {"toolbox (ART)": by_toolbox}


def main() -> None:
    """Print the table."""
    torch.manual_seed(0)
    digits = data.load("digits")
    chosen = range(0, 10 * INPUTS, 10)
    x, truths = torch.from_numpy(digits.inputs(chosen)), digits.truths(chosen)
    model, compared = trained(), ways()
    seconds, radius = dict.fromkeys(compared, math.inf), dict.fromkeys(compared, 0.0)
    for _ in range(TURNS):
        for name, way in compared.items():
            began = time.process_time()
            found = way(model, x)
            seconds[name] = min(seconds[name], time.process_time() - began)
            radius[name] = float(
                np.mean([r if label == truth else 0.0 for (label, r), truth in zip(found, truths, strict=True)])
            )
    print(f"{'':28}processor seconds   average certified radius")
    for name in compared:
        print(f"{name:28}{seconds[name]:>17.2f}{radius[name]:>27.4f}")


if __name__ == "__main__":
    main()
