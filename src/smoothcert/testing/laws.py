"""What every law of noise must pass: its density, samples, quantiles, score and claims agree with one another."""

from __future__ import annotations

import math

import numpy as np

from smoothcert.laws import LAWS, REGISTRY, Law
from smoothcert.maths import FloatArray
from smoothcert.maths.quadrature import HalfLine
from smoothcert.registry import parameters, setting_of
from smoothcert.testing.samplers import SAMPLE_CHECKS, SOURCES, check_extremes, check_independence
from smoothcert.testing.suite import Suite, reads_back

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


def _places(law: Law) -> FloatArray:
    """Points between the median and the outermost thousandth, away from zero, where a density may have a corner."""
    return np.asarray(law.quantile(np.linspace(0.51, 0.999, 60)), dtype=float)


class LawSuite(Suite):
    """Each statistical test of a correct law, from one source, raises a false alarm with probability 1e-6."""

    samples = 40_000

    def test_density(self, member: Law) -> None:
        """The density integrates to one, is symmetric, and its integral is the tail."""
        half_line = HalfLine(member.log_prob)
        places = _places(member)
        np.testing.assert_allclose(member.tail(places), half_line.tail(places), rtol=1e-7, atol=1e-12)

    def test_symmetry(self, member: Law) -> None:
        """Density, tail, quantile and score are those of a symmetric law."""
        places = _places(member)
        np.testing.assert_allclose(member.log_prob(-places), member.log_prob(places), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(member.tail(-places)) + member.tail(places), 1.0, rtol=1e-12)
        np.testing.assert_allclose(member.score(-places), -np.asarray(member.score(places)), rtol=1e-9)
        np.testing.assert_allclose(
            member.quantile(np.array([0.2, 0.01])), -np.asarray(member.quantile(np.array([0.8, 0.99]))), rtol=1e-9
        )

    def test_quantile(self, member: Law) -> None:
        """The quantile inverts the distribution function, from both tails."""
        chances = np.array([1e-12, 1e-6, 0.01, 0.3, 0.5])
        np.testing.assert_allclose(member.tail(-np.asarray(member.quantile(chances))), chances, rtol=1e-6, atol=1e-15)
        assert np.all(np.diff(np.asarray(member.quantile(np.linspace(0.01, 0.99, 99)))) > 0)

    def test_score(self, member: Law) -> None:
        """The score is minus the slope of the log density."""
        places = _places(member)
        slopes = HalfLine(member.log_prob).score(places)
        np.testing.assert_allclose(member.score(places), slopes, rtol=1e-5, atol=1e-7)

    def test_std(self, member: Law) -> None:
        """The standard deviation is that of the density; None exactly when the second moment diverges."""
        numeric = HalfLine(member.log_prob).std
        if member.std is None or numeric is None:
            assert member.std is None, f"{member}: std={member.std}, but the second moment diverges"
            assert numeric is None, f"{member}: std is None, but the second moment is {numeric}"
            return
        np.testing.assert_allclose(member.std, numeric, rtol=1e-4)

    def test_log_concave(self, member: Law) -> None:
        """A law that says it is log-concave has a score that never falls."""
        places = np.asarray(member.quantile(np.linspace(0.501, 0.9999, 2000)), dtype=float)
        rises = np.diff(np.asarray(member.score(places), dtype=float))
        never_falls = bool(np.all(rises >= -1e-9))
        assert never_falls or not member.log_concave, f"{member} says it is log-concave, but its score falls"

    def test_worst_log_ratio(self, member: Law) -> None:
        """No shift moves the log density by more than the law says."""
        shifts = np.array([0.01, 0.3, 1.0, 4.0])
        places = np.concatenate([-_places(member)[::-1], [0.0], _places(member), shifts])[:, None]
        with np.errstate(invalid="ignore"):
            moved = np.asarray(member.log_prob(places - shifts)) - np.asarray(member.log_prob(places))
        assert np.all(
            np.nan_to_num(moved, nan=-math.inf).max(axis=0) <= np.asarray(member.worst_log_ratio(shifts)) + 1e-12
        )

    def test_samples(self, member: Law) -> None:
        """Draws follow the law from every source, in every type, on and off the pixel grid."""
        for draw in SOURCES.values():
            sample = draw(member, self.samples, 11)
            for check in SAMPLE_CHECKS.values():
                check(member, sample)

    def test_independence(self, member: Law) -> None:
        """A noisy copy is as many draws as it has coordinates, and the next copy has others."""
        check_independence(member, self.samples, 11)

    def test_extreme_numbers_stay_finite(self, member: Law) -> None:
        """The smallest and largest numbers of a source become numbers."""
        check_extremes(member)

    def test_its_text_reads_back(self, member: Law) -> None:
        """As it would be written on the command line, and as the same law."""
        reads_back(member, REGISTRY)
        places = np.array([0.3, 0.9])
        np.testing.assert_array_equal(REGISTRY.make(str(member)).log_prob(places), member.log_prob(places))
