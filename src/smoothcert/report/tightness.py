"""Is a radius tight? p_A against R: proved, unbeatable, estimated, in closed form and as published before.

UniCR's tightness validation (Hong et al. 2022, Figures 4, 6-8, 12 and 13), with a bracket where it has an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.table import Table
from scipy.special import ndtr, ndtri

from smoothcert.errors import SettingError
from smoothcert.laws import Law
from smoothcert.laws.gaussian import Gaussian
from smoothcert.laws.laplace import Laplace
from smoothcert.laws.pareto import Pareto
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.geometry import digits_of, round_down, round_up, shrinkage
from smoothcert.maths.published import pixeldp_gaussian, pixeldp_laplace, renyi_gaussian, yang_pareto
from smoothcert.radius.bracket import Bracket, Engines, certified_radius, check_request
from smoothcert.registry import written
from smoothcert.report.figures import COLOURS, STYLE, bytes_of
from smoothcert.report.sheets import rows_to_csv

LARGEST_P = 0.999  # where a curve ends unless probabilities are given
_MOST_POINTS = 1000
MORE_COLOURS = ("#999999", "#7F3B08")  # all laws of the package in one figure, no colour twice
_ROWS = 6  # of one curve in the printed table
# Column, words, and the line style of every published rule.
PUBLISHED = {
    "lecuyer_2019": ("PixelDP (Lecuyer et al. 2019)", (0, (1, 1.2))),
    "li_2019": ("Rényi (Li et al. 2019)", (0, (5, 1.5, 1, 1.5))),
    "yang_2020": ("differential (Yang et al. 2020)", (0, (3, 1.5, 1, 1.5, 1, 1.5))),
}


@dataclass(frozen=True)
class Request:
    """Laws and norms to compare in one dimension, at one standard deviation or one scale; the scale is one by default."""

    laws: tuple[Law, ...]
    norms: tuple[float, ...]
    dim: int
    chances: tuple[float, ...]
    sigma: float | None = None
    scale: float | None = None
    box: Box | None = None

    def __post_init__(self) -> None:
        for law in self.laws:
            self.size(law)
            for norm in self.norms:
                check_request(law, norm, self.dim)
        for p in self.chances:  # the Gaussian's closed form costs nothing, and refuses what no law could answer
            certified_radius("gaussian", 2.0, p, self.dim, sigma=self.sigma, scale=self.scale)

    def size(self, law: Law) -> float:
        """The scale of the law that was asked for."""
        if self.sigma is not None:
            return law.scale_of(self.sigma)
        return 1.0 if self.scale is None else self.scale


@dataclass(frozen=True)
class Curve:
    """The radii of one law in one norm, in input units, one entry per probability."""

    law: str
    norm: float
    dim: int
    scale: float
    chances: tuple[float, ...]
    brackets: tuple[Bracket, ...]
    closed_form: bool
    published: dict[str, tuple[float, ...]]

    @property
    def lower(self) -> FloatArray:
        """The proved radii."""
        return np.array([bracket.lower for bracket in self.brackets])

    @property
    def upper(self) -> FloatArray:
        """The radii that nobody can exceed."""
        return np.array([bracket.upper for bracket in self.brackets])

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per probability, numbers exact; None where there is no such number."""
        return [
            {
                "law": self.law,
                "norm": self.norm,
                "dim": self.dim,
                "scale": self.scale,
                "p": p,
                "lower": bracket.lower,
                "upper": bracket.upper,
                "tightness": bracket.tightness,
                "rule": bracket.rule,
                "closed_form": bracket.lower if self.closed_form else None,
                "estimate": bracket.estimate,
                **{name: self.published[name][at] if name in self.published else None for name in PUBLISHED},
            }
            for at, (p, bracket) in enumerate(zip(self.chances, self.brackets, strict=True))
        ]


def even_chances(number: int) -> tuple[float, ...]:
    """Probabilities above one half and up to 0.999, even in Φ⁻¹(p), rounded so that they can be read and typed.

    >>> even_chances(4)
    (0.7801, 0.9388, 0.9898, 0.999)
    """
    if not 1 <= number <= _MOST_POINTS:
        raise SettingError(f"points={number} must be a whole number from 1 to {_MOST_POINTS}")
    chances = ndtr(np.linspace(0.0, float(ndtri(LARGEST_P)), number + 1)[1:])
    return tuple(np.round(chances, 4 if number <= 50 else 6).tolist())


def published_radii(law: Law, norm: float, dim: int, chances: FloatArray) -> dict[str, FloatArray]:
    """What was published for this law before a tight rule was, at unit scale, one class bounded.

    Gaussian rules are converted from l2 to any norm; rules in l1 are kept to p <= 1, where the same radius holds.

    >>> from smoothcert.laws import law_named
    >>> list(published_radii(law_named("gaussian"), 2, 784, np.array([0.9]))), published_radii(law_named("laplace"), 2, 9, np.array([0.9]))
    (['lecuyer_2019', 'li_2019'], {})
    """
    rival = 1.0 - chances
    if isinstance(law, Gaussian):
        factor = shrinkage(2.0, norm, dim)
        return {
            "lecuyer_2019": factor * pixeldp_gaussian(chances, rival),
            "li_2019": factor * renyi_gaussian(chances, rival),
        }
    if isinstance(law, Laplace) and norm <= 1.0:
        return {"lecuyer_2019": pixeldp_laplace(chances, rival)}
    if isinstance(law, Pareto) and norm <= 1.0:
        return {"yang_2020": yang_pareto(law.beta, chances)}
    return {}


def curves(
    request: Request, *, estimate: bool = False, seed: int = 0, advance: Callable[[], object] = lambda: None
) -> list[Curve]:
    """The curve of each law in each norm; ``estimate`` adds UniCR's search, and ``advance`` is called once per radius."""
    return [_curve(request, law, norm, estimate, seed, advance) for norm in request.norms for law in request.laws]


def _curve(request: Request, law: Law, norm: float, estimate: bool, seed: int, advance: Callable[[], object]) -> Curve:
    size, chances = request.size(law), np.array(request.chances)
    brackets = []
    for p in request.chances:
        found = certified_radius(law, norm, p, request.dim, scale=size, estimate=estimate, seed=seed, box=request.box)
        brackets.append(found)
        advance()
    published = published_radii(law, norm, request.dim, chances)
    return Curve(
        str(law),
        norm,
        request.dim,
        size,
        request.chances,
        tuple(brackets),
        Engines(law, request.dim).tight(norm, chances, 1.0 - chances) is not None,
        {name: tuple((size * radius).tolist()) for name, radius in published.items()},
    )


def to_csv(found: Sequence[Curve]) -> bytes:
    """Comma-separated, one line per law, norm and probability, numbers exact."""
    return rows_to_csv([row for curve in found for row in curve.rows()])


def table(curve: Curve) -> Table:
    """A few points of a curve for people: what is proved rounded down, what bounds it rounded up; below it, the rules."""
    rows = curve.rows()
    shown = [rows[at] for at in np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).round().astype(int))]
    digits = digits_of(max((row["upper"] for row in rows if math.isfinite(row["upper"])), default=1.0))
    result = Table(title=f"{curve.law} (scale {curve.scale:.4g}), l{curve.norm:g}, {curve.dim} dimensions")
    estimated = curve.brackets[0].estimate is not None
    heads = ["p", "proved", "at most", "tightness", *(["UniCR estimate"] if estimated else [])]
    for head in heads + [PUBLISHED[name][0] for name in curve.published]:
        result.add_column(head, justify="right")
    for row in shown:
        cells = [written(row["p"]), round_down(row["lower"], digits), round_up(row["upper"], digits)]
        cells.append(round_up(row["tightness"]))
        cells += [f"≈ {row['estimate']:.{digits}f}"] if estimated else []
        result.add_row(*cells, *(round_down(row[name], digits) for name in curve.published))
    result.caption = "proved by: " + _rules(rows)
    if len(shown) < len(rows):
        result.caption += f"\n{len(shown)} of {len(rows)} probabilities; all are in curve.csv, exact"
    return result


def _rules(rows: Sequence[dict[str, Any]]) -> str:
    """The rules in order, each with the probability from which it is the best."""
    words = [rows[0]["rule"]]
    for before, row in pairwise(rows):
        if row["rule"] != before["rule"]:
            words.append(f"from p = {written(row['p'])} {row['rule']}")
    return "; ".join(words)


def draw(found: Sequence[Curve]) -> bytes:
    """A PNG: radius against p_A, one panel per norm; with one probability and several norms, radius against the norm."""
    norms = sorted({curve.norm for curve in found})
    by_norm = len(norms) > 1 and len(found[0].chances) == 1
    laws = list(dict.fromkeys(curve.law for curve in found))
    panels = len(laws if by_norm else norms)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(6.4, (3.0 if by_norm else 4.6) * panels), 4.9), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, panels, sharey=by_norm))
        colours = dict(zip(laws, (*COLOURS, *MORE_COLOURS) * len(found), strict=False))
        for number, panel in enumerate(axes):
            if by_norm:
                _against_norm(panel, [curve for curve in found if curve.law == laws[number]], colours[laws[number]])
            else:
                _against_chance(panel, [curve for curve in found if curve.norm == norms[number]], colours)
        axes[0].set_ylabel("radius (input units)")
        if by_norm:
            figure.suptitle(f"p_A = {written(found[0].chances[0])}, {found[0].dim} dimensions")
        else:
            handles = [Line2D([], [], color=colour, linewidth=4, label=law) for law, colour in colours.items()]
            axes[0].legend(handles=handles, loc="upper left", fontsize=9)
        kinds = _kinds(found)
        figure.legend(handles=kinds, loc="outside lower center", ncols=min(len(kinds), 2 * panels, 5), fontsize=9)
        return bytes_of(figure)


def _against_chance(panel: Axes, own: Sequence[Curve], colours: dict[str, str]) -> None:
    """Every line starts at one half, where nothing is certified and nothing could be."""
    for curve in own:
        x = np.array([0.5, *curve.chances])
        _lines(panel, x, lambda values: np.concatenate([[0.0], values]), curve.rows(), colours[curve.law])
    panel.set(xlabel="p_A, the label's probability", title=f"l{own[0].norm:g}, {own[0].dim} dimensions")
    panel.set_xlim(0.5, 1.005)  # room for the marks near one
    panel.set_ylim(bottom=0.0)


def _against_norm(panel: Axes, own: Sequence[Curve], colour: str) -> None:
    """One law; norms stand side by side in order. Their radii differ by powers of the dimension, hence the logs."""
    own = sorted(own, key=lambda curve: curve.norm)
    _lines(panel, np.arange(len(own), dtype=float), lambda values: values, [curve.rows()[0] for curve in own], colour)
    names = ["l∞" if curve.norm == math.inf else f"l{curve.norm:g}" for curve in own]
    panel.set_xticks(np.arange(len(own)), names, rotation=60)
    panel.set_yscale("log")
    panel.set_xlabel("norm")
    panel.set_title(own[0].law, fontsize=11)


def _lines(
    panel: Axes, x: FloatArray, extend: Callable[[FloatArray], FloatArray], rows: Sequence[dict[str, Any]], colour: str
) -> None:
    """One law's numbers in its colour, each kind in its own style."""

    def column(name: str) -> FloatArray:
        return extend(np.array([math.nan if row[name] is None else row[name] for row in rows], dtype=float))

    lower, upper = column("lower"), column("upper")
    panel.fill_between(x, lower, upper, color=colour, alpha=0.15, linewidth=0)
    panel.plot(x, upper, color=colour, linewidth=0.9, linestyle="--")
    panel.plot(x, lower, color=colour, linewidth=1.8)
    panel.plot(x, column("closed_form"), color=colour, linestyle="none", marker="s", markersize=3.5)
    panel.plot(x, column("estimate"), color=colour, linestyle="none", marker="o", markersize=5, markerfacecolor="none")
    for name, (_, style) in PUBLISHED.items():
        panel.plot(x, column(name), color=colour, linewidth=1.2, linestyle=style)


def _kinds(found: Sequence[Curve]) -> list[Line2D]:
    """Colours are laws, styles are kinds of number: the styles that are drawn, in grey."""
    grey: dict[str, Any] = {"color": "0.3"}
    handles = [Line2D([], [], **grey, linewidth=1.8, label="proved")]
    handles.append(Line2D([], [], **grey, linewidth=0.9, linestyle="--", label="nobody can exceed"))
    if any(curve.closed_form for curve in found):
        handles.append(
            Line2D([], [], **grey, linestyle="none", marker="s", markersize=3.5, label="closed form: both in one")
        )
    if any(bracket.estimate is not None for curve in found for bracket in curve.brackets):
        handles.append(
            Line2D([], [], **grey, linestyle="none", marker="o", markerfacecolor="none", label="UniCR's estimate")
        )
    for name, (words, style) in PUBLISHED.items():
        if any(name in curve.published for curve in found):
            handles.append(Line2D([], [], **grey, linewidth=1.2, linestyle=style, label=words))
    return handles
