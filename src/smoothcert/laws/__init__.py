"""The laws of noise, one file each. A new law is one file and one line of LAWS."""

from __future__ import annotations

from smoothcert.laws.base import BoxedRule, Draws, Law, RadiusRule
from smoothcert.laws.cauchy import Cauchy
from smoothcert.laws.draws import NumpyDraws
from smoothcert.laws.exponential_mixture import ExponentialMixture
from smoothcert.laws.gaussian import Gaussian
from smoothcert.laws.generalized_normal import GeneralizedNormal
from smoothcert.laws.hyperbolic_secant import HyperbolicSecant
from smoothcert.laws.laplace import Laplace
from smoothcert.laws.laplace_gaussian import LaplaceGaussian
from smoothcert.laws.pareto import Pareto
from smoothcert.laws.uniform import Uniform
from smoothcert.registry import Registry

__all__ = ["LAWS", "REGISTRY", "BoxedRule", "Draws", "Law", "NumpyDraws", "RadiusRule", "law_named"]

LAWS: dict[str, type[Law]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "uniform": Uniform,
    "hyperbolic_secant": HyperbolicSecant,
    "generalized_normal": GeneralizedNormal,
    "cauchy": Cauchy,
    "pareto": Pareto,
    "laplace_gaussian": LaplaceGaussian,
    "exponential_mixture": ExponentialMixture,
}

REGISTRY: Registry[Law] = Registry("law", "smoothcert.laws", LAWS, Law)  # type: ignore[type-abstract]


def law_named(spec: str | Law) -> Law:
    """The law written as ``name`` or ``name:parameter=value,…``, or as ``package.module:Name``; a Law is returned as it is.

    >>> str(law_named("laplace")), str(law_named("generalized_normal:beta=1.5"))
    ('laplace', 'generalized_normal:beta=1.5')
    """
    return REGISTRY.make(spec)
