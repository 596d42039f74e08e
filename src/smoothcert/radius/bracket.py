"""Any noise, any norm: the radius that is proved, the radius that nothing can exceed, and UniCR's estimate beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.laws import Law, NumpyDraws, law_named
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.composition import upper_radius
from smoothcert.maths.differential import Growth, coordinate_growth, sum_growth
from smoothcert.maths.domination import Domination, dominations, l2_radius
from smoothcert.maths.geometry import shrinkage
from smoothcert.maths.neyman_pearson import estimated_radius
from smoothcert.maths.quadrature import HalfLine
from smoothcert.maths.renyi import Divergences
from smoothcert.maths.swarm import SearchSettings
from smoothcert.registry import fitted

LARGEST_P = 1.0 - 1e-7  # tables end here, and the grid of the Rényi envelope reaches at least as far


@dataclass(frozen=True)
class Bracket:
    """The label cannot change within ``lower``; from these probabilities alone nobody can certify more than ``upper``.

    ``rule`` names what proved lower; ``estimate`` is UniCR's value, which proves nothing.
    """

    lower: float
    upper: float
    estimate: float | None
    rule: str

    @property
    def tightness(self) -> float:
        """upper/lower: 1.0 when the radius is known exactly, infinite when nothing is certified."""
        return self.upper / self.lower if self.lower > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Candidate:
    """A certified radius for each probability asked for, at unit scale, and the rule that proves it."""

    rule: str
    radius: FloatArray


class Engines:
    """Everything that is known about one law in one dimension, computed once; ``flips`` may be shared between dimensions."""

    def __init__(self, law: Law, dim: int, flips: dict[tuple[int, float, float | None], float] | None = None) -> None:
        self.law, self.dim = law, dim
        self.flips = {} if flips is None else flips

    @cached_property
    def _one(self) -> Growth:
        return coordinate_growth(self.law)

    @cached_property
    def _sum(self) -> Growth:
        return sum_growth(self.law, self.dim)

    @cached_property
    def _dominations(self) -> list[Domination]:
        return dominations(self.law)

    def tight(self, norm: float, lower: FloatArray, rival: FloatArray) -> Candidate | None:
        """The proved rule that is exact in this norm, if there is one."""
        for candidate, exact in self._proved(norm, lower, rival):
            if exact:
                return candidate
        return None

    def _proved(self, norm: float, lower: FloatArray, rival: FloatArray) -> list[tuple[Candidate, bool]]:
        found = []
        for own, rule in self.law.radii.items():
            name = rule.theorem if own == norm else f"{rule.theorem}, converted to l{norm:g}"
            radius = np.asarray(rule.radius(lower, rival, self.dim), dtype=float) * shrinkage(own, norm, self.dim)
            exact = self.dim == 1 or (rule.tight is not None and rule.tight[0] <= norm <= rule.tight[1])
            found.append((Candidate(name, radius), exact and rule.tight is not None))
        return found

    def cheap(self, norm: float, lower: FloatArray, rival: FloatArray) -> list[Candidate]:
        """Every proved radius but the Rényi envelope's: the law's rules, and three differential inequalities."""
        found = [candidate for candidate, _ in self._proved(norm, lower, rival)]
        if not self.law.independent:
            return found
        integrals = {
            "differential inequality in l1": (1.0, self._one.radius(lower, rival)),
            "differential inequality in l∞": (math.inf, self._sum.radius(lower, rival)),
            "Gaussian domination in l2": (2.0, l2_radius(self._dominations, self.dim, lower, rival)),
        }
        for name, (own, radius) in integrals.items():
            note = "" if own == norm else f", converted to l{norm:g}"
            found.append(Candidate(name + note, radius * shrinkage(own, norm, self.dim)))
        return found

    def renyi(self, norm: float, lower: FloatArray, rival: FloatArray) -> Candidate:
        """The Rényi envelope (Li et al. 2019, Theorem 2).

        One grid of shifts for all probabilities, as far as the largest of them can reach: a grid that ended at a small
        radius would begin with shifts too small for the quadrature to be believed, and lose the order altogether.
        """
        highest = max(float(lower.max()), LARGEST_P)
        longest, _ = upper_radius(self.law, norm, self.dim, highest, copies=[1, self.dim], flips=self.flips)
        reach = Divergences.of(self.law, self.dim, longest)
        return Candidate("Rényi envelope", reach.radius(norm, self.dim, lower, rival))


def check_norm(norm: float | str) -> float:
    """A norm is any p > 0, up to infinity, also as text: its number.

    >>> check_norm("inf"), check_norm(2)
    (inf, 2.0)
    """
    value: float = fitted("", "norm", norm, float)
    if not value > 0:
        raise SettingError(f"norm={norm} must be a number above 0 or inf; the usual ones are 1, 2 and inf")
    return value


def check_request(law: Law, norm: float | str, dim: int) -> float:
    """The norm; refuse one or a dimension that means nothing, and a density that is not one."""
    norm = check_norm(norm)
    if dim < 1 or dim != int(dim):
        raise SettingError(f"dim={dim} must be a whole number from 1 up: the number of coordinates of an input")
    if law.independent:
        HalfLine(law.log_prob)  # refuses a density that is NaN, asymmetric or not normalised
    return norm


def _check_chances(p: float, upper_p: float | None) -> float:
    """The rival's largest probability, after refusing pairs that decide nothing."""
    if not 0.0 < p < 1.0:
        raise SettingError(f"p={p} must lie strictly between 0 and 1: it is a lower bound of the label's probability")
    if upper_p is None:
        if p <= 0.5:
            raise SettingError(
                f"p={p} certifies nothing: with one class bounded it must exceed 1/2; abstain, or give upper_p"
            )
        return 1.0 - p
    if not (0.0 < upper_p < p and p + upper_p <= 1.0):
        raise SettingError(
            f"upper_p={upper_p} must lie above 0, below p={p}, and together with it at most at 1: it bounds every rival"
        )
    return upper_p


def _unit_to_user(law: Law, sigma: float | None, scale: float | None) -> float:
    if sigma is not None and scale is not None:
        raise SettingError(f"sigma={sigma} and scale={scale} both set the size of the noise; give one of them")
    size = 1.0 if sigma is None and scale is None else scale
    for name, value in {"sigma": sigma, "scale": scale}.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise SettingError(f"{name}={value} must be a finite number above 0")
    return law.scale_of(sigma) if sigma is not None else float(size or 1.0)


def certified_radius(
    law: str | Law,
    norm: float | str,
    p: float,
    dim: int,
    *,
    sigma: float | None = None,
    scale: float | None = None,
    estimate: bool = False,
    upper_p: float | None = None,
    settings: SearchSettings | None = None,
    seed: int = 0,
    box: Box | None = None,
) -> Bracket:
    """The l_norm radius certified when the label's probability is at least p (and every rival's at most ``upper_p``).

    The noise has standard deviation ``sigma`` or the law's ``scale``; with neither, scale one. ``estimate`` adds UniCR's
    search, with its ``settings`` and ``seed``. box: what inputs are clipped to before the noise, where uniform noise proves
    more in l1; nobody can prove more at an input in a corner of it.

    >>> certified_radius("gaussian", 2, 0.9, 3072, sigma=1.0).tightness
    1.0
    >>> found = certified_radius("laplace", 2, 0.9, 3072, sigma=1.0)
    >>> round(found.lower, 2), found.rule, found.tightness < 1.26
    (0.73, 'Rényi envelope', True)
    """
    law = law_named(law)
    norm = check_request(law, norm, dim)
    rival = _check_chances(p, upper_p)
    size = _unit_to_user(law, sigma, scale)
    [found] = _brackets(Engines(law, dim), norm, np.array([p]), np.array([rival]), upper_p)
    rule = None if box is None else law.boxed_radii.get(norm)
    if rule is not None and box is not None:
        boxed = float(rule.radius(p, rival, box.widths(size, dim)))
        found = max(found, Bracket(boxed, boxed, None, rule.theorem), key=lambda bracket: bracket.lower)
    guess = estimate_of(law, norm, dim, p, upper_p, settings, seed) * size if estimate else None
    return Bracket(found.lower * size, found.upper * size, guess, found.rule)


def brackets(engines: Engines, norm: float, chances: ArrayLike) -> list[Bracket]:
    """The brackets at unit scale for many probabilities, one class bounded; what they share is computed once.

    >>> [round(found.lower, 3) for found in brackets(Engines(law_named("laplace"), 10), 1, [0.6, 0.9])]
    [0.223, 1.609]
    """
    check_request(engines.law, norm, engines.dim)
    first = np.asarray(chances, dtype=float)
    for p in first.tolist():
        _check_chances(p, None)
    return _brackets(engines, norm, first, 1.0 - first, None)


def _brackets(
    engines: Engines, norm: float, first: FloatArray, second: FloatArray, upper_p: float | None
) -> list[Bracket]:
    """The best proved radius and the upper one for each pair of probabilities, at unit scale."""
    exact = engines.tight(norm, first, second)
    if exact is not None:
        return [Bracket(radius, radius, None, exact.rule) for radius in exact.radius.tolist()]
    found = [Candidate("nothing proved", np.zeros(first.size)), *engines.cheap(norm, first, second)]
    best = np.max([each.radius for each in found], axis=0)
    upper = np.full(first.size, math.inf)
    if engines.law.independent:
        for at, p in enumerate(first.tolist()):
            upper[at], _ = upper_radius(
                engines.law, norm, engines.dim, p, upper_p, enough=float(best[at]), flips=engines.flips
            )
        if np.any(best < 0.999 * upper):
            found.append(engines.renyi(norm, first, second))
    stacked = np.stack([each.radius for each in found])
    which, lower = stacked.argmax(axis=0), stacked.max(axis=0)
    return [Bracket(float(lower[at]), float(upper[at]), None, found[which[at]].rule) for at in range(first.size)]


def estimate_of(
    law: Law,
    norm: float,
    dim: int,
    p: float,
    upper_p: float | None = None,
    settings: SearchSettings | None = None,
    seed: int = 0,
) -> float:
    """UniCR's radius at unit scale, which proves nothing: Monte Carlo and a particle swarm, from the seed."""
    generator = np.random.default_rng(seed)
    draws = NumpyDraws(generator)

    def log_density(z: FloatArray) -> FloatArray:
        values = np.asarray(law.log_prob(z), dtype=float)
        return np.asarray(values.sum(axis=-1)) if law.independent else values

    return estimated_radius(
        lambda count: np.asarray(law.sample((count, dim), draws)),
        log_density,
        norm,
        dim,
        p,
        upper_p,
        generator,
        settings,
    )
