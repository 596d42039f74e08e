"""smoothcert: certify that a classifier's answer cannot change, by randomized smoothing.

The walk of one input, one file per step:

1. ``noise``         x becomes many noisy copies
2. ``polling``       the classifier votes on them; ``votes`` counts
3. ``estimators``    counts become a bound on the probability that the class wins
4. ``radius``        a theorem turns the bound into a radius
5. ``regions``       radius and scale make a region
6. ``certificates``  the region, its label, and what it is worth
7. ``records``       one exact row, kept in a ``store``

``Smoother`` does steps 1-6 in one call, ``certify_all`` all of them over a data set.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"
# Where each public name lives: __init__.pyi declares it, for type checkers and for this file.
_HOMES = {
    name: home
    for home, name in re.findall(
        r"^from (\S+) import (\w+) as \2$", Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"), flags=re.M
    )
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that reading results does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'smoothcert' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, and what is imported already."""
    return sorted({*globals(), *__all__})
