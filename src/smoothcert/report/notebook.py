"""What a notebook shows of a certificate and of a run."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.certificates import Certificate
from smoothcert.maths.geometry import round_down
from smoothcert.regions import Region
from smoothcert.report.figures import curve_figure
from smoothcert.report.numbers import certifies_numbers, interval_figure
from smoothcert.report.numbers import sheet as interval_sheet
from smoothcert.report.pictures import scale_map, uri
from smoothcert.report.tables import ENDLESS, common_radii, main_sheet
from smoothcert.store.pictures import picture_of

if TYPE_CHECKING:
    from smoothcert.report.runs import Run

SIDE = 112  # pixels of a picture on the page


def certificate_html(certificate: Certificate) -> str:
    """The numbers of a certificate; if its input is an image, the picture, and the map of a scale that differs by pixel."""
    region, bound = certificate.region, certificate.bound
    rows = [("label", "abstains" if certificate.label is None else str(certificate.label))]
    if region is not None:
        rows += [
            (f"l{region.norm:g} radius", f"{round_down(certificate.radius)} (largest ball inside the region)"),
            ("proxy radius", _volume(certificate.proxy_radius)),
        ]
    rows += [
        ("soundness", certificate.soundness.value),
        ("p ≥", f"{round_down(bound.lower, 4)} (alpha {bound.alpha:g}, {bound.trials:,} votes)"),
        ("rule", certificate.rule or "–"),
    ]
    return f"<div style='display:flex;gap:1em;align-items:center'>{_pictures(certificate)}{_table(rows)}</div>"


def _volume(proxy_radius: float | None) -> str:
    return ENDLESS if proxy_radius is None else f"{round_down(proxy_radius)} (ball of the region's volume)"


def run_html(run: Run) -> str:
    """The table and the curve of a run."""
    if not run.lines:
        return f"<p>{escape(repr(run))}</p>"
    numbers = certifies_numbers([run])
    sheet = interval_sheet(run.lines[0]) if numbers else main_sheet(run.lines, common_radii(run.lines))
    figure = interval_figure(run.lines) if numbers else curve_figure(run.lines)
    drawn = base64.b64encode(figure._repr_png_()).decode()
    notes = f"<p>{escape(sheet.title)}. {escape(sheet.note)}</p>"
    picture = f"<img src='data:image/png;base64,{drawn}' style='max-width:40em'>"
    return f"<div>{_table([sheet.header, *sheet.rows])}{notes}{picture}</div>"


def _pictures(certificate: Certificate) -> str:
    """The input, and the scale of the region around it, where they are pictures."""
    region = certificate.region
    picture = None if region is None else picture_of(region.center)
    if region is None or picture is None:
        return ""
    shown = [_image(uri(picture), "input")]
    if isinstance(region, Region) and np.size(region.scale) > 1:
        drawn = scale_map(region.full_scale, np.shape(region.center))
        shown.append(_image(drawn["picture"], f"scale {drawn['low']} to {drawn['high']}"))
    return "".join(shown)


def _image(source: str, caption: str) -> str:
    style = f"width:{SIDE}px;image-rendering:pixelated"
    return f"<figure style='margin:0'><img src='{source}' style='{style}'><figcaption>{escape(caption)}</figcaption></figure>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
