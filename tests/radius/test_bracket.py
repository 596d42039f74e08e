"""The bracket: never crossed, as tight as promised, sound against classifiers that are known exactly."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtri

from smoothcert.errors import SettingError
from smoothcert.laws import Law, law_named
from smoothcert.maths.composition import upper_radius
from smoothcert.maths.swarm import SearchSettings
from smoothcert.radius.bracket import Bracket, certified_radius

SPECS = (
    "gaussian",
    "laplace",
    "uniform",
    "hyperbolic_secant",
    "generalized_normal:beta=0.75",
    "generalized_normal:beta=1.5",
    "generalized_normal:beta=3",
    "cauchy",
    "pareto:beta=1",
    "pareto:beta=3",
    "laplace_gaussian",
    "exponential_mixture",
)
LOG_CONCAVE = [spec for spec in SPECS if law_named(spec).log_concave]
NORMS = (0.5, 1, 1.5, 2, 3, math.inf)


def _sound(found: Bracket) -> None:
    assert 0.0 < found.lower <= found.upper < math.inf
    assert found.rule


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("norm", NORMS)
def test_never_crossed_in_two_dimensions(spec: str, norm: float) -> None:
    _sound(certified_radius(spec, norm, 0.97, 2))


@pytest.mark.parametrize("spec", [*SPECS, "generalized_normal:beta=20", "pareto:beta=1000"])
def test_never_crossed_next_to_a_tie(spec: str) -> None:
    """A quantile there has few digits: the upper radius is rounded up, the lower one down."""
    for excess in (1e-15, 1e-12, 1e-9, 1e-6, 1e-4):
        found = certified_radius(spec, 0.3, 0.5 + excess, 10)
        assert 0.0 <= found.lower <= found.upper
        assert found.upper < 3.0 * excess * math.exp(-float(law_named(spec).log_prob(0.0))) + 2e-12


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("norm", [0.5, 1.5, np.inf])
@pytest.mark.parametrize("dim", [2, 3072])
def test_never_crossed(spec: str, norm: float, dim: int) -> None:
    """A part of the grid that benchmarks/brackets.py measures in full."""
    for p in (0.6, 0.99):
        _sound(certified_radius(spec, norm, p, dim))


@pytest.mark.parametrize("spec", LOG_CONCAVE)
@pytest.mark.parametrize("dim", [1, 3072, 150_528])
def test_l1_of_log_concave_laws_is_exact(spec: str, dim: int) -> None:
    for p in (0.51, 0.9, 0.999):
        found = certified_radius(spec, 1, p, dim)
        assert found.tightness == pytest.approx(1.0, abs=1e-6)
        assert found.lower == pytest.approx(float(law_named(spec).quantile(p)), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("spec", LOG_CONCAVE)
def test_linf_of_log_concave_laws_is_within_two_percent(spec: str) -> None:
    """At 784; wider images are tighter."""
    found = certified_radius(spec, math.inf, 0.999, 784)
    _sound(found)
    assert found.tightness <= 1.02


def test_linf_of_a_large_image() -> None:
    assert certified_radius("hyperbolic_secant", math.inf, 0.99, 150_528).tightness <= 1.001


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["laplace", "hyperbolic_secant", "generalized_normal:beta=1.5"])
@pytest.mark.parametrize("p", [0.6, 0.99])
def test_l2_of_sub_gaussian_scores(spec: str, p: float) -> None:
    found = certified_radius(spec, 2, p, 3072)
    _sound(found)
    assert found.tightness <= 1.26


@pytest.mark.parametrize("norm", NORMS)
def test_gaussian_is_exact_in_every_norm(norm: float) -> None:
    found = certified_radius("gaussian", norm, 0.9, 100, sigma=0.5)
    assert found.tightness == 1.0
    assert found.lower == pytest.approx(0.5 * 1.2815516 * 100 ** -max(0.0, 0.5 - 1 / norm))


def test_no_generalized_normal_beats_the_gaussian_in_l2() -> None:
    """At equal sigma and p, in high dimension (Cramér and Rao)."""
    for beta in (1.5, 2.25, 3):
        law = law_named(f"generalized_normal:beta={beta}")
        assert upper_radius(law, 2, 3072, 0.9, copies=[3072])[0] / law.std < float(ndtri(0.9))


# --- classifiers whose probabilities and flips are known ------------------------------------------------------------


def _half_space(law: Law, level: float) -> float:
    """P(z₁ + z₂ <= level), by quadrature."""
    inner = quad(
        lambda y: math.exp(float(law.log_prob(y))) * (1.0 - float(law.tail(level - y))),
        -60,
        60,
        points=[0, level],
        limit=400,
    )
    outer = 2 * float(law.tail(60.0))
    return float(inner[0] + 0.5 * outer)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec not in ("cauchy", "pareto:beta=1")])
@pytest.mark.parametrize("norm", [0.5, 1, 2, math.inf])
def test_diagonal_half_spaces_never_flip_inside(spec: str, norm: float) -> None:
    """{z₁ + z₂ <= c} loses its majority at l_p distance c·2^(1/p − 1) (p >= 1) or c (p < 1)."""
    law = law_named(spec)
    level = 0.8 if spec == "uniform" else 1.5
    p = _half_space(law, level)
    flip = level * 2 ** (min(1.0, 1 / norm) - 1.0)
    found = certified_radius(law, norm, p - 1e-9, 2)
    assert found.lower <= flip * (1 + 1e-6)
    assert found.lower > 0.3 * flip


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "uniform"])
def test_random_sets_never_flip_inside(spec: str) -> None:
    """Unions of random intervals in one coordinate; probabilities are exact differences of the tail."""
    law = law_named(spec)
    random = np.random.default_rng(3)
    shifts = np.linspace(0.0, 6.0, 1201)
    tried = 0
    for _ in range(400):
        cuts = np.sort(random.uniform(-4, 4, 2 * random.integers(1, 4)))
        cuts[0], cuts[-1] = (-1e9, cuts[-1]) if random.random() < 0.5 else (cuts[0], cuts[-1])
        tails = np.asarray(law.tail(cuts[None, :] - shifts[:, None]))
        inside = (tails[:, ::2] - tails[:, 1::2]).sum(axis=1)
        if not 0.55 < inside[0] < 0.97 or inside.min() > 0.5:
            continue
        flip = float(shifts[int(np.argmax(inside <= 0.5))])
        found = certified_radius(law, 1, float(inside[0]) - 1e-9, 1)
        assert found.lower <= flip
        assert found.upper <= flip + 0.01  # in one dimension the upper radius is the worst of all sets
        tried += 1
        if tried == 3:
            return
    raise AssertionError(f"only {tried} random sets had a flip to compare with")


def test_an_inflated_radius_is_caught() -> None:
    """The half-space test fails when the certified radius grows by a hundredth: its flip is the exact one."""
    law = law_named("laplace")
    p = 1.0 - float(law.tail(1.5))
    found = certified_radius(law, 1, p, 2)
    flip = brentq(lambda shift: float(law.tail(1.5 - shift)) - 0.5, 0.0, 5.0)
    assert found.lower <= flip * (1 + 1e-9) < 1.01 * found.lower


# --- a law of one's own, and everything that is refused -------------------------------------------------------------


class Logistic(Law):
    """A user's law by its density and its samples alone."""

    def sample(self, shape, draws):
        u = draws.uniform(shape)
        return np.log(u / (1.0 - u))

    def log_prob(self, z):
        size = np.abs(np.asarray(z, dtype=float))
        return -size - 2.0 * np.log1p(np.exp(-size))


def test_own_law() -> None:
    """The l1 differential inequality finds F⁻¹(p) = log(p/(1−p)) without being told that the law is log-concave."""
    found = certified_radius(Logistic(), 1, 0.9, 10)
    assert found.lower == pytest.approx(math.log(9), rel=1e-4)
    assert found.tightness == pytest.approx(1.0, abs=1e-3)
    assert certified_radius(Logistic(), 2, 0.9, 10, sigma=1.0, estimate=True).estimate > 0.5


class Ball(Law):
    """Noise with dependent coordinates: only an estimate, and no proof."""

    independent = False

    def sample(self, shape, draws):
        z = draws.normal(shape)
        return z / np.linalg.norm(z, axis=-1, keepdims=True) * draws.gamma((*shape[:-1], 1), float(shape[-1]))

    def log_prob(self, z):
        return -np.linalg.norm(z, axis=-1)


def test_dependent_coordinates_are_estimated() -> None:
    found = certified_radius(Ball(), 2, 0.9, 3, estimate=True, settings=SearchSettings(samples=500))
    assert (found.lower, found.upper, found.rule) == (0.0, math.inf, "nothing proved")
    assert found.estimate is not None
    assert 0.2 < found.estimate < 5
    assert math.isinf(found.tightness)


class Doubled(Logistic):
    def log_prob(self, z):
        return super().log_prob(z) + math.log(2.0)


class Shifted(Logistic):
    def log_prob(self, z):
        return super().log_prob(np.asarray(z) - 0.5)


class Broken(Logistic):
    def log_prob(self, z):
        return np.full(np.shape(z), np.nan)


@pytest.mark.parametrize(("law", "says"), [(Doubled, "integrates to 2"), (Shifted, "not symmetric"), (Broken, "NaN")])
def test_bad_densities_are_refused(law: type[Law], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        certified_radius(law(), 2, 0.9, 10)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"p": 0.5}, "certifies nothing"),
        ({"p": 0.3}, "certifies nothing"),
        ({"p": 1.0}, "strictly between"),
        ({"p": math.nan}, "strictly between"),
        ({"norm": 0}, "norm=0"),
        ({"norm": -1}, "norm=-1"),
        ({"norm": math.nan}, "norm=nan"),
        ({"dim": 0}, "dim=0"),
        ({"sigma": 0.0}, "sigma=0.0"),
        ({"scale": -1.0}, "scale=-1.0"),
        ({"sigma": 1.0, "scale": 1.0}, "give one of them"),
        ({"upper_p": 0.2}, "upper_p=0.2"),
        ({"upper_p": 0.0}, "upper_p=0.0"),
        ({"law": "cauchy", "sigma": 1.0}, "no standard deviation"),
    ],
)
def test_bad_requests_are_refused(change: dict[str, object], says: str) -> None:
    request = {"law": "laplace", "norm": 1, "p": 0.9, "dim": 10, **change}
    with pytest.raises(SettingError, match=says):
        certified_radius(**request)


def test_two_classes() -> None:
    found = certified_radius("laplace", 2, 0.6, 100, upper_p=0.2)
    one = certified_radius("laplace", 2, 0.6, 100)
    assert one.lower < found.lower <= found.upper
    assert certified_radius("gaussian", 2, 0.4, 100, upper_p=0.2).lower == pytest.approx(0.294, abs=5e-4)
    below = certified_radius("hyperbolic_secant", math.inf, 0.4, 100, upper_p=0.2)
    assert below.lower <= below.upper <= 1.02 * below.lower


@pytest.mark.parametrize(
    "spec", ["generalized_normal:beta=0.3", "generalized_normal:beta=12", "pareto:beta=1000", "laplace"]
)
@pytest.mark.parametrize("p", [0.5000001, 1 - 1e-14])
def test_extremes(spec: str, p: float) -> None:
    """Near a tie, near certainty, and laws of extreme shape: never crossed, never a warning."""
    for norm, dim in ((1, 1), (2, 3072), (math.inf, 3072)):
        found = certified_radius(spec, norm, p, dim)
        assert 0.0 <= found.lower <= found.upper * (1 + 1e-12) < math.inf


def test_scale_and_sigma() -> None:
    unit = certified_radius("laplace", 1, 0.9, 10)
    assert certified_radius("laplace", 1, 0.9, 10, scale=3.0).lower == pytest.approx(3 * unit.lower)
    assert certified_radius("laplace", 1, 0.9, 10, sigma=1.0).lower == pytest.approx(unit.lower / math.sqrt(2))
