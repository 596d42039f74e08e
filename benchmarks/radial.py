"""Isotropic against anisotropic regions on a toy problem: python benchmarks/radial.py OUT.png (after ANCER, Figure 1).

Two classes in the plane, an ellipse within a ring, and a small network trained on them with noise. For a few inputs the
picture shows the region of fixed noise, of data-dependent noise and of ANCER on the classifier's landscape.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from torch import nn

import smoothcert as sc

SIGMA = 0.25
METHODS = (
    ("fixed", None, "#ffffff"),
    ("data-dependent", sc.DataDependent(), "#ffb000"),
    ("ANCER", sc.Ancer(), "#dc267f"),
)


def trained() -> nn.Module:
    """A network that tells |(x/2.2, y/0.8)| < 1 from the rest, in 400 steps."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(400):
        x = (torch.rand(512, 2) * 2 - 1) * torch.tensor([4.0, 2.0])
        y = ((x / torch.tensor([2.2, 0.8])).norm(dim=1) < 1).long()
        loss = nn.functional.cross_entropy(network(x + SIGMA * torch.randn_like(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


def draw(out: str) -> None:
    """The landscape, the inputs and their regions."""
    network, noise = trained(), sc.Noise.isotropic("gaussian", SIGMA)
    x = torch.tensor([[0.0, 0.0], [-1.2, 0.1], [1.3, -0.1], [0.0, 1.6]])
    figure = Figure(figsize=(9, 4.8), dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    sides = np.linspace(-4, 4, 321), np.linspace(-2.2, 2.2, 177)
    plane = torch.tensor(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2), dtype=torch.float32)
    with torch.no_grad():
        sure = network(plane).softmax(dim=1)[:, 1].reshape(177, 321)
    axes.contourf(*sides, sure, levels=12, cmap="viridis", alpha=0.8)
    axes.contour(*sides, sure, levels=[0.5], colors="black", linewidths=1)
    for name, tuner, colour in METHODS:
        certificates = sc.Smoother(network, noise, estimate=10_000, tuner=tuner).certify(x)
        proxy = np.mean([certificate.proxy_radius for certificate in certificates])
        inner = np.mean([certificate.radius for certificate in certificates])
        print(f"{name:16} inner radius {inner:.3f}, proxy radius {proxy:.3f}")
        axes.plot([], [], color=colour, linewidth=2, label=f"{name}: proxy radius {proxy:.2f}")
        for certificate in certificates:
            if certificate.region is not None:
                width, height = 2 * certificate.region.radius * np.broadcast_to(certificate.region.scale, 2)
                axes.add_patch(Ellipse(certificate.region.center, width, height, fill=False, color=colour, linewidth=2))
    axes.plot(*x.T, "k.", markersize=5)
    axes.set(xlim=(-4, 4), ylim=(-2.2, 2.2), aspect="equal")
    axes.legend(loc="lower right", facecolor="#888888", labelcolor="white", fontsize=8)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    draw(sys.argv[1])
