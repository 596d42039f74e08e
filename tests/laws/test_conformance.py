"""Every law passes every check; a broken law fails the check that is meant for it."""

import math
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest

from smoothcert.errors import SettingError
from smoothcert.laws import LAWS, Law, law_named
from smoothcert.laws.base import in_place
from smoothcert.laws.cauchy import Cauchy
from smoothcert.laws.gaussian import Gaussian
from smoothcert.registry import setting
from smoothcert.testing.laws import EXAMPLES, LawSuite, at_random, at_the_ends

SPECS = sorted({*EXAMPLES, *(str(law) for kind in LAWS.values() for law in at_the_ends(kind) + at_random(kind, 2, 43))})


class TestLaws(LawSuite):
    members = [law_named(spec) for spec in SPECS]  # noqa: RUF012


def test_every_law_is_an_example() -> None:
    assert {spec.partition(":")[0] for spec in EXAMPLES} == set(LAWS)


class Own(Law):
    """A user's law: sech density, and nothing but the two methods."""

    def sample(self, shape, draws):
        return in_place(np.arcsinh, draws.normal(shape) / draws.normal(shape))

    def log_prob(self, z):
        return -math.log(math.pi) - np.logaddexp(z, -np.asarray(z)) + math.log(2.0)


def test_own_law() -> None:
    assert len(LawSuite().check(Own())) >= 10


def test_own_law_agrees_with_closed_forms() -> None:
    own, known = Own(), law_named("hyperbolic_secant")
    places = np.array([0.01, 0.5, 2.0, 8.0, 30.0])
    np.testing.assert_allclose(own.tail(places), known.tail(places), rtol=1e-9)
    np.testing.assert_allclose(own.quantile([0.3, 0.9, 0.999]), known.quantile([0.3, 0.9, 0.999]), rtol=1e-9)
    assert own.std == pytest.approx(math.pi / 2, rel=1e-9)
    assert str(own) == f"{__name__}:Own"
    assert isinstance(law_named(str(own)), Own)


class WrongScale(Gaussian):
    def sample(self, shape, draws):
        return 1.1 * draws.normal(shape)


class OneSize(Law):
    """Student's t of one size for all coordinates of a copy, as it is drawn in many places: every number follows its density."""

    def sample(self, shape, draws):
        return draws.normal(shape) / (draws.gamma((shape[0], *[1] * (len(shape) - 1)), 2.5) / 2.5) ** 0.5

    def log_prob(self, z):
        return np.log(8 / (3 * math.sqrt(5) * math.pi)) - 3 * np.log1p(np.square(z) / 5)


class RowsInPairs(Gaussian):
    def sample(self, shape, draws):
        z = draws.normal(shape)
        z[1::2] = z[: len(z) // 2 * 2 : 2]
        return z


class ChannelsAlike(Gaussian):
    def sample(self, shape, draws):
        z = draws.normal(shape)
        return z if len(shape) < 3 else z[:, :1] + 0 * z


class WrongTail(Gaussian):
    def tail(self, z):
        return super().tail(np.asarray(z) * 1.001)


class WrongScore(Gaussian):
    def score(self, z):
        return 1.01 * np.asarray(z)


class WrongStd(Gaussian):
    std = 1.01


class NotConcave(Cauchy):
    log_concave = True


class WrongRatio(Cauchy):
    def worst_log_ratio(self, shift):
        return 0.9 * super().worst_log_ratio(shift)


class Skew(Gaussian):
    def log_prob(self, z):
        return super().log_prob(np.asarray(z) - 0.01)


@pytest.mark.parametrize(
    ("law", "check"),
    [
        (WrongScale, "samples"),
        (OneSize, "independence"),
        (RowsInPairs, "independence"),
        (ChannelsAlike, "independence"),
        (WrongTail, "density"),
        (WrongTail, "quantile"),
        (WrongScore, "score"),
        (WrongStd, "std"),
        (NotConcave, "log_concave"),
        (WrongRatio, "worst_log_ratio"),
        (Skew, "symmetry"),
    ],
)
def test_a_broken_law_is_caught(law: type[Law], check: str) -> None:
    with pytest.raises(AssertionError):
        getattr(LawSuite(), f"test_{check}")(law())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("generalized_normal:beta=0", "beta must be"),
        ("generalized_normal:beta=nan", "beta must be"),
        ("pareto:beta=-1", "beta must be"),
        ("laplace_gaussian:beta=1.5", "beta must be"),
        ("exponential_mixture:beta=1", "at most 0.99"),
        ("gaussian:beta=2", "it has none"),
        ("pareto:beta=x", "must be a number"),
        ("pareto:alpha=2", "pareto:beta=3"),
        (f"{__name__}:Tent", "lacks width: write .*:Tent:width=…"),
        ("cauchi", "did you mean 'cauchy'"),
    ],
)
def test_bad_names(spec: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        law_named(spec)


@pytest.mark.parametrize("spec", ["cauchy", "pareto:beta=2"])
def test_no_sigma_without_a_variance(spec: str) -> None:
    with pytest.raises(SettingError, match="no standard deviation"):
        law_named(spec).scale_of(1.0)


@dataclass(frozen=True)
class Tent(Own):
    """A user's law with a parameter that has no usual value."""

    width: float = setting(above=0.0)


def test_laws_are_values() -> None:
    """Equal parameters, equal laws: a law may be a key, and its text reads back as the same value."""
    for spec in SPECS:
        assert law_named(spec) == law_named(spec)
        assert hash(law_named(spec)) == hash(law_named(spec))
        assert str(law_named(str(law_named(spec)))) == spec
    assert len({law_named(spec) for spec in SPECS}) == len(SPECS)
    assert law_named("pareto") == law_named("pareto:beta=3")
    assert Tent(2.0) == law_named(f"{__name__}:Tent:width=2") != Tent(3.0)
    with pytest.raises(FrozenInstanceError):
        law_named("pareto").beta = 4.0  # type: ignore[attr-defined]


def test_dependent_laws_have_no_coordinate() -> None:
    class Ball(Own):
        independent = False

    assert Ball().std is None
    with pytest.raises(SettingError, match="dependent"):
        Ball().tail(0.0)


def test_mixture_weight_of_the_published_density() -> None:
    assert law_named("laplace_gaussian:beta=0.5").weight == pytest.approx(0.530, abs=5e-4)
