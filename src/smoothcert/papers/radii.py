"""Figures of radii against probabilities, which need no network: what is proved, and what nobody can exceed."""

from __future__ import annotations

from smoothcert.certificates import Soundness
from smoothcert.laws import law_named
from smoothcert.papers.catalogue import Entry, scale_named
from smoothcert.papers.tables import Cell
from smoothcert.registry import written
from smoothcert.report.tightness import Request, curves, draw, even_chances


def radius_cells(entry: Entry, scale: str) -> tuple[list[Cell], bytes]:
    """The proved radius of every law and norm at as many probabilities as the scale has, and the figure."""
    assert entry.curve is not None
    smaller = scale_named(scale)
    asked = {**entry.curve, "dim": smaller.get("dim", entry.curve["dim"])}
    laws = tuple(law_named(name) for name in asked["laws"])
    chances = tuple(asked.get("chances") or even_chances(smaller["points"]))
    request = Request(laws, tuple(map(float, asked["norms"])), asked["dim"], chances, asked["sigma"])
    found = curves(request)
    cells = [
        Cell(
            f"l{curve.norm:g}, {curve.dim} dimensions, proved radius",
            curve.law,
            f"p = {written(p)}",
            bracket.lower,
            None,
            Soundness.GLOBAL.value,
            Soundness.ESTIMATE.value,
        )
        for curve in found
        for p, bracket in zip(curve.chances, curve.brackets, strict=True)
    ]
    return cells, draw(found)
