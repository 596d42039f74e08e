"""A page of smoothcert as one HTML document: its data, style, scripts and charting library are inside."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

# For a page that a server of ours sends: nothing from elsewhere, and nothing asked but of that server.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SCRIPTS = ("basics.js", "charts.js", "inputs.js", "report.js")
SILENT = "This page needs JavaScript, which is switched off."


def document(data: Any, *, title: str, heading: str, start: str, own: str | None = None, silent: str = SILENT) -> str:
    """The document whose script calls ``start`` with the data; ``own``: the room that has a style and a script beside ours.

    ``silent`` is said where scripts are switched off.
    """
    parts = {
        "title": title,
        "heading": heading,
        "style": _text("report", "style.css") + ("" if own is None else _text(own, f"{own}.css")),
        "silent": silent,
        "libraries": _text("report", "d3.min.js") + "\n" + _text("report", "plot.min.js"),
        # A closing tag inside the data must not end the script that holds it.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/"),
        "scripts": "\n".join(_text("report", name) for name in SCRIPTS)
        + ("" if own is None else _text(own, f"{own}.js")),
        "start": start,
    }
    return re.sub(r"/\*(\w+)\*/", lambda place: parts[place[1]], _text("report", "template.html"))


def _text(room: str, name: str) -> str:
    return files(f"smoothcert.{room}").joinpath("page", name).read_text(encoding="utf-8")
