"""Step 4: from a bound to the certified radius at unit scale: by a theorem, converted from one, or from a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from smoothcert.errors import SettingError
from smoothcert.estimators.bounds import Bound
from smoothcert.files import cache_folder
from smoothcert.laws import BoxedRule, Law, RadiusRule
from smoothcert.maths import FloatArray
from smoothcert.maths.geometry import shrinkage
from smoothcert.radius.bracket import check_norm
from smoothcert.radius.tables import TableCache


@dataclass(frozen=True)
class ProvedRadius:
    """The answer cannot change within this l_p distance at unit scale; rule names the theorem."""

    value: float
    rule: str


def proved_radius(law: Law, norm: float, dim: int, bound: Bound, caps: FloatArray | None = None) -> ProvedRadius:
    """The largest radius that a theorem about the law gives in this norm; zero when the bound decides nothing.

    A rule proved in norm a also certifies l_p: for p < a with the same radius, for p > a divided by d^(1/a - 1/p). Where
    no rule is tight in the norm, a table of the best numerical bound is looked up too (built once, kept on disk).
    ``caps`` (dim,), in units of scale, are those of a box that inputs are clipped to, where a law may prove more.

    >>> import math
    >>> from smoothcert.laws import law_named
    >>> bound = Bound(lower=0.9, alpha=0.001, trials=1000)
    >>> proved_radius(law_named("gaussian"), 2, 3072, bound).value
    1.2815515655446...
    >>> proved_radius(law_named("gaussian"), math.inf, 3072, bound).rule
    'Gaussian l2 (Cohen et al. 2019, Thm 1), converted to linf'
    """
    check_norm(norm)
    candidates = [_by_theorem(proved, rule, dim, norm, dim, bound) for proved, rule in law.radii.items()]
    if caps is not None:
        candidates += [_by_theorem(proved, rule, caps, norm, dim, bound) for proved, rule in law.boxed_radii.items()]
    if not has_exact_rule(law, norm) and bound.upper is None and law.independent:
        table = tables().get(law, norm, dim)
        candidates.append(ProvedRadius(table.certified(bound.lower), table.rule(bound.lower)))
    if not candidates:
        raise SettingError(
            f"the law {law} has no proved radius in l{norm:g} for two bounded classes or dependent coordinates; "
            "bound one class (rivals=rest), or use certified_radius with estimate=True"
        )
    # All candidates rest on the same bound, so the best of them is as sure as each.
    return max(candidates, key=lambda candidate: candidate.value)


def has_exact_rule(law: Law, norm: float) -> bool:
    """Is there a theorem in this norm, for one class and for two, that no other way from probabilities to radii can beat?"""
    return any(rule.tight and rule.tight[0] <= norm <= rule.tight[1] for rule in law.radii.values())


def _by_theorem(
    proved: float, rule: RadiusRule | BoxedRule, size: Any, norm: float, dim: int, bound: Bound
) -> ProvedRadius:
    """What one theorem gives, converted to the norm that was asked for."""
    # A class that is just known to lead has radius zero; the next number above one half proves no more.
    leads = bound.lower - bound.rival > 1e-15
    at_unit = float(rule.radius(bound.lower, bound.rival, size)) if leads else 0.0
    name = rule.theorem if proved == norm else f"{rule.theorem}, converted to l{norm:g}"
    return ProvedRadius(max(at_unit, 0.0) * shrinkage(proved, norm, dim), name)


@cache
def tables() -> TableCache:
    """The tables of radii that were computed before, in memory and on disk."""
    return TableCache(cache_folder() / "tables")


def probability_for(law: Law, norm: float, dim: int, radius: float, caps: FloatArray | None = None) -> float:
    """The least probability of the class, one class bounded, at which a theorem gives this radius at unit scale.

    Rounded up: the radius at the returned probability is never below the one asked for. One if there is no such.

    >>> from smoothcert.laws import law_named
    >>> probability_for(law_named("gaussian"), 2, 10, 1.0)
    0.8413447460685...
    >>> probability_for(law_named("uniform"), 1, 10, 1.0)
    1.0
    """
    low, high = 0.5, 1.0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        reached = proved_radius(law, norm, dim, Bound(middle, 0.5, 1), caps).value >= radius
        low, high = (low, middle) if reached else (middle, high)
