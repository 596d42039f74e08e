"""Draws the pictures of the concepts, from a toy in the plane and from simulated votes: python tools/figures.py DIRECTORY [NAME…].

Each function returns the figure that is saved under its name. Nothing is drawn by hand: bounds, regions and answers come from
the library.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.stats import norm
from torch import Tensor

import smoothcert as sc
from smoothcert.maths.intervals import lower_bound
from smoothcert.maths.sequential import late_spending, looks, running_lower
from smoothcert.report.figures import COLOURS, STYLE

BLUE, ORANGE, GREEN, PINK = COLOURS[:4]
SIGMA = 0.25
PAIR = torch.tensor([[0.0, 0.0], [0.0, 2.2]])  # an input of either class
SHAPE = torch.tensor([2.2, 0.8])


def canvas(width: float = 6.4, height: float = 3.2) -> Figure:
    """An empty figure that leaves room for its labels."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def ellipse(batch: Tensor) -> Tensor:
    """Scores of a classifier of the plane: class 1 is |(x/2.2, y/0.8)| < 1."""
    inside = 1 - (batch / SHAPE).norm(dim=1)
    return torch.stack([-inside, inside], dim=1)


class Wide(sc.Tuner):
    """More noise outside the ellipse than inside it: a method that reads its input."""

    reads_input = True

    def choose(self, smoother: sc.Smoother, x: Tensor, start: sc.Noise, indices: object) -> sc.Noise:
        outside = ellipse(x)[:, :1] > 0
        scale = torch.where(outside, torch.tensor([3.0, 1.4]), torch.tensor([0.5, SIGMA]))
        return sc.Noise(start.law, scale.double())


def plane(axes: Axes) -> None:
    """Which class the classifier answers, without noise, and units on both axes."""
    axes.set(xlim=(-5, 5), ylim=(-1.6, 4.6), aspect="equal", xlabel="first coordinate (input units)")
    axes.set_facecolor("#e8eef4")
    axes.add_patch(Ellipse((0, 0), *(2 * SHAPE).tolist(), color="#f6e3c5"))
    axes.plot(*PAIR.T, "ko", markersize=4)
    axes.grid(visible=False)
    axes.text(-4.8, -1.4, "class 0", color="#44525f")
    axes.text(1.55, -0.4, "class 1", color="#6b4e13", fontsize=9)


def certified(tuner: sc.Tuner | None, memory: sc.Memory | None = None) -> list[sc.Certificate]:
    """Certificates of the two inputs."""
    noise = sc.Noise.isotropic("gaussian", SIGMA)
    return sc.Smoother(ellipse, noise, estimate=10_000, tuner=tuner, memory=memory).certify(PAIR)


def regions(axes: Axes, certificates: list[sc.Certificate], colour: str, dashes: str) -> None:
    """The outlines of the certified regions."""
    for certificate in certificates:
        if isinstance(certificate.region, sc.Region):
            width, height = 2 * certificate.region.radius * np.broadcast_to(certificate.region.scale, 2)
            place = tuple(certificate.region.center)
            axes.add_patch(Ellipse(place, width, height, fill=False, color=colour, linestyle=dashes, linewidth=1.6))


def label() -> Figure:
    """Regions of fixed noise and of noise chosen for each input."""
    figure = canvas(7.2, 4.6)
    axes = figure.subplots()
    plane(axes)
    for name, tuner, colour, dashes in (("fixed", None, "black", "--"), ("chosen per input", Wide(), PINK, "-")):
        found = certified(tuner)
        regions(axes, found, colour, dashes)
        sizes = ", ".join(f"{certificate.proxy_radius:.2f}" for certificate in found)
        axes.plot([], [], color=colour, linestyle=dashes, label=f"{name} [{found[0].soundness}]: proxy radii {sizes}")
    axes.set_ylabel("second coordinate (input units)")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure


def memory() -> Figure:
    """The same two inputs without a memory and with one: the second region is cut where it meets the first."""
    figure = canvas(9, 3.2)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, kept in zip(panels, (None, sc.Memory()), strict=True):
        plane(panel)
        found = certified(Wide(), kept)
        regions(panel, found, PINK, "-")
        radii = " and ".join(f"{certificate.radius:.2f}" for certificate in found)
        panel.set_title(f"{found[0].soundness}: radii {radii}", fontsize=11)
    panels[0].set_ylabel("second coordinate\n(input units)")
    return figure


def echo() -> Figure:
    """How often inputs of class 1 are answered class 0, against sigma."""
    torch.manual_seed(0)
    points = (torch.rand(4000, 2) * 2 - 1) * SHAPE
    points = points[ellipse(points)[:, 1] > 0].repeat(10, 1)
    sigmas = np.geomspace(0.1, 6.4, 25)
    shares = [100 * float((ellipse(points + s * torch.randn_like(points))[:, 0] > 0).double().mean()) for s in sigmas]
    figure = canvas()
    axes = figure.subplots()
    axes.plot(sigmas, shares, color=BLUE)
    axes.axhline(50, color="gray", linewidth=1, linestyle="--")
    axes.text(0.1, 52, "echoes from here on", color="#444444", fontsize=9)
    axes.set(xscale="log", ylim=(0, 101), xlabel="sigma of the noise (input units)")
    axes.set_ylabel("inputs of class 1\nanswered class 0 (%)")
    axes.set_xticks([0.1, 0.25, 0.5, 1, 2, 4], ["0.1", "0.25", "0.5", "1", "2", "4"])
    return figure


def alpha() -> Figure:
    """Two hundred bounds on the same probability, each from votes of its own, at an alpha of one in twenty."""
    truth, trials, level = 0.9, 1000, 0.05
    bounds = np.sort(lower_bound(np.random.default_rng(0).binomial(trials, truth, 200), trials, level))
    wrong = bounds > truth
    figure = canvas()
    axes = figure.subplots()
    axes.plot(np.flatnonzero(~wrong), bounds[~wrong], ".", color=BLUE, markersize=4, label=f"true: {(~wrong).sum()}")
    axes.plot(
        np.flatnonzero(wrong), bounds[wrong], "x", color=ORANGE, markersize=6, label=f"too large: {wrong.sum()} of 200"
    )
    axes.axhline(truth, color="black", linewidth=1, linestyle="--", label="the probability itself")
    axes.set(xlabel="200 sets of 1 000 votes, sorted by their bound", ylabel="lower bound on p_A, alpha = 0.05")
    axes.legend(loc="lower right", fontsize=9)
    return figure


def votes() -> Figure:
    """The radius that the votes so far prove, look by look, against that of all votes at once."""
    trials, sigma, level = 100_000, 0.5, 0.001
    times = looks(trials)
    figure = canvas()
    axes = figure.subplots()
    for chance, colour in ((0.999, BLUE), (0.9, GREEN)):
        answers = np.random.default_rng(3).random(trials) < chance
        counts = np.cumsum(answers)[times - 1]
        proved = running_lower(counts[None], times, late_spending(times, level))[0]
        axes.plot(
            times, sigma * norm.ppf(proved), "o-", color=colour, markersize=4, label=f"p_A = {chance}, look by look"
        )
        at_once = sigma * norm.ppf(lower_bound(counts[-1], trials, level))
        axes.axhline(at_once, color=colour, linewidth=1, linestyle="--")
    axes.plot([], [], color="gray", linestyle="--", linewidth=1, label="all 100 000 votes at once")
    axes.axhline(0.5, color="black", linewidth=1, linestyle=":")
    axes.text(1.05e5, 0.4, "a radius that was asked for", ha="right", fontsize=9)
    axes.set(xscale="log", ylim=(0, 1.65), xlabel="votes", ylabel="certified l2 radius (sigma = 0.5)")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8.5)
    return figure


def grid() -> Figure:
    """The last bits of a float32 pixel under noise tell which input it was; on the grid they tell nothing."""
    random = np.random.default_rng(0)
    z = (SIGMA * random.standard_normal(200_000)).astype(np.float32)
    figure = canvas(7.6, 3.0)
    panels = figure.subplots(1, 2)
    width = 0.4
    for shift, (pixel, colour) in enumerate(((0, BLUE), (128, ORANGE))):
        x = np.float32(pixel / 255)
        units = np.abs(x + z) / np.float32(2.0**-30)
        lost = [100 * np.mean(units % 2**power == 0) for power in range(1, 8)]
        panels[0].bar(np.arange(1, 8) + width * (shift - 0.5), lost, width, color=colour, label=f"pixel {pixel}/255")
        steps = pixel + np.rint(255 * z.astype(float))
        panels[1].hist(
            steps - pixel,
            bins=np.arange(-200, 201, 10),
            density=True,
            histtype="step",
            color=colour,
            linestyle=("-", "--")[shift],
            linewidth=1.6,
        )
    panels[0].set(xlabel="m", ylabel="x + noise a multiple of\n$2^{m-30}$, float32 (%)")
    panels[1].set(xlabel="steps of 1/255 from the pixel", ylabel="share per step, on the grid")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure


FIGURES = {function.__name__: function for function in (label, echo, alpha, votes, grid, memory)}


def main(folder: Path, names: list[str]) -> None:
    """Write the named pictures, or all."""
    with matplotlib.rc_context({**STYLE, "font.size": 10}):
        for name in names or FIGURES:
            FIGURES[name]().savefig(folder / f"concept-{name}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
