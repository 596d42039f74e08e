"""What every law of noise must pass: its density, samples, quantiles, score and claims agree with one another.

Each check takes a law and raises AssertionError. LAW_CHECKS is looped over all of EXAMPLES; a law of your own can be put
through the same checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import kstest

from smoothcert.laws import LAWS, Law, NumpyDraws, law_named
from smoothcert.maths import FloatArray
from smoothcert.maths.quadrature import HalfLine
from smoothcert.registry import parameters, setting_of

# Parameters to test each law with, beside the ends of their ranges.
PARAMETERS = {
    "generalized_normal": ("beta=0.5", "beta=0.75", "beta=1", "beta=1.5", "beta=2", "beta=3", "beta=8"),
    "pareto": ("beta=1", "beta=3", "beta=20"),
    "laplace_gaussian": ("beta=0.2", "beta=0.5"),
    "exponential_mixture": ("beta=0.5", "beta=0.7", "beta=0.9"),
}
EXAMPLES = tuple(f"{name}:{text}" if text else name for name in LAWS for text in PARAMETERS.get(name, ("",)))


def at_the_ends(kind: type[Law]) -> list[Law]:
    """The law at its default, and at both ends of the range of each parameter that has them."""
    found = [kind()]
    for name, field in parameters(kind).items():
        ends = setting_of(field).least, setting_of(field).most
        found += [kind(**{name: end}) for end in ends if end is not None]
    return found


def at_random(kind: type[Law], number: int, seed: int) -> list[Law]:
    """The law at random parameters of their ranges: even, or even in the logarithm where the range is above zero."""
    chance, found = np.random.default_rng(seed), []
    ranges = {name: (setting_of(field).least, setting_of(field).most) for name, field in parameters(kind).items()}
    for _ in range(number if ranges else 0):
        values = {}
        for name, (least, most) in ranges.items():
            if least is not None and most is not None:
                u = float(chance.random())
                values[name] = least * (most / least) ** u if least > 0 else least + (most - least) * u
        found.append(kind(**values))
    return found


FALSE_ALARM = 1e-6  # of each statistical check of a correct law
_SAMPLES = 20_000


def _places(law: Law) -> FloatArray:
    """Points between the median and the outermost thousandth, away from zero, where a density may have a corner."""
    return np.asarray(law.quantile(np.linspace(0.51, 0.999, 60)), dtype=float)


def check_density(law: Law) -> None:
    """The density integrates to one, is symmetric, and its integral is the tail."""
    half_line = HalfLine(law.log_prob)
    places = _places(law)
    np.testing.assert_allclose(law.tail(places), half_line.tail(places), rtol=1e-7, atol=1e-12)


def check_symmetry(law: Law) -> None:
    """Density, tail, quantile and score are those of a symmetric law."""
    places = _places(law)
    np.testing.assert_allclose(law.log_prob(-places), law.log_prob(places), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(law.tail(-places)) + law.tail(places), 1.0, rtol=1e-12)
    np.testing.assert_allclose(law.score(-places), -np.asarray(law.score(places)), rtol=1e-9)
    np.testing.assert_allclose(
        law.quantile(np.array([0.2, 0.01])), -np.asarray(law.quantile(np.array([0.8, 0.99]))), rtol=1e-9
    )


def check_quantile(law: Law) -> None:
    """The quantile inverts the distribution function, from both tails."""
    chances = np.array([1e-12, 1e-6, 0.01, 0.3, 0.5])
    np.testing.assert_allclose(law.tail(-np.asarray(law.quantile(chances))), chances, rtol=1e-6, atol=1e-15)
    assert np.all(np.diff(np.asarray(law.quantile(np.linspace(0.01, 0.99, 99)))) > 0)


def check_score(law: Law) -> None:
    """The score is minus the slope of the log density."""
    places = _places(law)
    slopes = HalfLine(law.log_prob).score(places)
    np.testing.assert_allclose(law.score(places), slopes, rtol=1e-5, atol=1e-7)


def check_std(law: Law) -> None:
    """The standard deviation is that of the density; None exactly when the second moment diverges."""
    numeric = HalfLine(law.log_prob).std
    if law.std is None or numeric is None:
        assert law.std is None, f"{law}: std={law.std}, but the second moment diverges"
        assert numeric is None, f"{law}: std is None, but the second moment is {numeric}"
        return
    np.testing.assert_allclose(law.std, numeric, rtol=1e-4)


def check_samples(law: Law) -> None:
    """Samples follow the distribution function (Kolmogorov and Smirnov; a false alarm has probability 1e-6)."""
    draws = NumpyDraws(np.random.default_rng(20240))
    sample = np.asarray(law.sample((_SAMPLES // 4, 2, 2), draws))
    assert sample.shape == (_SAMPLES // 4, 2, 2)
    assert np.isfinite(sample).all()
    found = kstest(sample.ravel(), lambda z: 1.0 - np.asarray(law.tail(z)))
    assert found.pvalue > FALSE_ALARM, f"{law}: samples do not follow the density, p-value {found.pvalue:.2g}"


def check_log_concave(law: Law) -> None:
    """A law that says it is log-concave has a score that never falls; one that does not say so has a fall somewhere."""
    places = np.asarray(law.quantile(np.linspace(0.501, 0.9999, 2000)), dtype=float)
    rises = np.diff(np.asarray(law.score(places), dtype=float))
    never_falls = bool(np.all(rises >= -1e-9))
    assert never_falls or not law.log_concave, f"{law} says it is log-concave, but its score falls"


def check_worst_log_ratio(law: Law) -> None:
    """No shift moves the log density by more than the law says."""
    shifts = np.array([0.01, 0.3, 1.0, 4.0])
    places = np.concatenate([-_places(law)[::-1], [0.0], _places(law), shifts])[:, None]
    with np.errstate(invalid="ignore"):
        moved = np.asarray(law.log_prob(places - shifts)) - np.asarray(law.log_prob(places))
    assert np.all(np.nan_to_num(moved, nan=-math.inf).max(axis=0) <= np.asarray(law.worst_log_ratio(shifts)) + 1e-12)


def check_name(law: Law) -> None:
    """The law's text reads back as the same law."""
    again = law_named(str(law))
    assert str(again) == str(law)
    np.testing.assert_array_equal(again.log_prob(np.array([0.3, 0.9])), law.log_prob(np.array([0.3, 0.9])))


LAW_CHECKS: dict[str, Callable[[Law], None]] = {
    "density": check_density,
    "symmetry": check_symmetry,
    "quantile": check_quantile,
    "score": check_score,
    "std": check_std,
    "samples": check_samples,
    "log_concave": check_log_concave,
    "worst_log_ratio": check_worst_log_ratio,
    "name": check_name,
}
