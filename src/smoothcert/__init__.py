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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothcert.attacks.check import attack
    from smoothcert.certificates import Certificate, Soundness
    from smoothcert.engine import Engine
    from smoothcert.errors import SmoothcertError
    from smoothcert.estimators.bounds import Bound
    from smoothcert.memory.memory import Memory
    from smoothcert.noise import Noise
    from smoothcert.radius.bracket import certified_radius
    from smoothcert.regions import Region
    from smoothcert.run import certify_all
    from smoothcert.smoother import Smoother, Tuner
    from smoothcert.tuners.ancer import Ancer
    from smoothcert.tuners.data_dependent import DataDependent
    from smoothcert.tuners.hill_climb import HillClimb
    from smoothcert.tuners.pattern import Pattern
    from smoothcert.tuners.reuse import Reuse
    from smoothcert.tuners.ucan import DatasetWise, PerInput
    from smoothcert.views import Ablation, Bands, Blocks, Chunks, Splitting
    from smoothcert.votes import Votes

__version__ = "0.1.0"
__all__ = [
    "Ablation",
    "Ancer",
    "Bands",
    "Blocks",
    "Bound",
    "Certificate",
    "Chunks",
    "DataDependent",
    "DatasetWise",
    "Engine",
    "HillClimb",
    "Memory",
    "Noise",
    "Pattern",
    "PerInput",
    "Region",
    "Reuse",
    "SmoothcertError",
    "Smoother",
    "Soundness",
    "Splitting",
    "Tuner",
    "Votes",
    "attack",
    "certified_radius",
    "certify_all",
]

_HOMES = {
    "Ablation": "views",
    "Ancer": "tuners.ancer",
    "Bands": "views",
    "Blocks": "views",
    "Bound": "estimators.bounds",
    "Certificate": "certificates",
    "Chunks": "views",
    "DataDependent": "tuners.data_dependent",
    "DatasetWise": "tuners.ucan",
    "Engine": "engine",
    "HillClimb": "tuners.hill_climb",
    "Memory": "memory",
    "Noise": "noise",
    "Pattern": "tuners.pattern",
    "PerInput": "tuners.ucan",
    "Region": "regions",
    "Reuse": "tuners.reuse",
    "Smoother": "smoother",
    "SmoothcertError": "errors",
    "Soundness": "certificates",
    "Splitting": "views",
    "Tuner": "smoother",
    "Votes": "votes",
    "attack": "attacks.check",
    "certified_radius": "radius.bracket",
    "certify_all": "run",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that reading results does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'smoothcert' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(import_module(f"smoothcert.{_HOMES[name]}"), name)
