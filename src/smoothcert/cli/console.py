"""What the commands print: results to standard output, progress and notes to standard error."""

from __future__ import annotations

import codecs
import json
import math
import sys
from contextlib import AbstractContextManager
from io import TextIOWrapper
from typing import Any

from rich.console import Console

from smoothcert.progress import Tell, progress_of

output = Console(soft_wrap=False)
# No markup: messages hold brackets that mean themselves, such as smoothcert[parquet].
errors = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
# What stands for a character that a terminal of few characters does not have.
PLAIN = {
    **{"≥": ">=", "≤": "<=", "⊇": "contains", "∞": "inf", "σ": "sigma", "α": "alpha", "β": "beta", "δ": "delta"},
    **{
        "Φ": "Phi",
        "⁻": "-",
        "¹": "1",
        "²": "2",
        "−": "-",
        "–": "-",
        "—": "-",
        "…": "...",
        "×": "x",
        "·": "*",
        "→": "->",
    },
    **{"‖": "|", "’": "'", "√": "sqrt", "⊆": "within", "∈": "in", "é": "e", "π": "pi", "ℓ": "l", "₂": "2", "₁": "1"},
}


def progress_bar(title: str, total: float | None = None) -> AbstractContextManager[Tell]:
    """How far a command is, between its other messages on standard error."""
    return progress_of(title, total, errors)


def print_json(value: Any) -> None:
    """The value for machines, on standard output."""
    print(json.dumps(_plain(value), allow_nan=False, default=str))


def _plain(value: Any) -> Any:
    """The value with null where there is no number, and infinities as text, since JSON has neither."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def print_anywhere() -> None:
    """Let every character be printed: where an encoding lacks one, something plainer stands for it."""
    codecs.register_error("smoothcert", _plainer)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="smoothcert")


def _plainer(problem: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for the characters that cannot be encoded, and where to go on."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    unknown = problem.object[problem.start : problem.end]
    return "".join(PLAIN.get(letter, "?") for letter in unknown), problem.end
