"""The tuners, one file each: who chooses scale and loc. A new tuner is one file and one line of TUNERS."""

from __future__ import annotations

from smoothcert.registry import Registry
from smoothcert.smoother import FixedNoise, Tuner
from smoothcert.tuners.ancer import Ancer
from smoothcert.tuners.data_dependent import DataDependent
from smoothcert.tuners.hill_climb import HillClimb
from smoothcert.tuners.pattern import Pattern
from smoothcert.tuners.published import PublishedAncer, PublishedDataDependent
from smoothcert.tuners.reuse import Reuse
from smoothcert.tuners.ucan import DatasetWise, PerInput

__all__ = [
    "REGISTRY",
    "TUNERS",
    "Ancer",
    "DataDependent",
    "DatasetWise",
    "FixedNoise",
    "HillClimb",
    "Pattern",
    "PerInput",
    "PublishedAncer",
    "PublishedDataDependent",
    "Reuse",
    "Tuner",
    "tuner_named",
]

TUNERS: dict[str, type[Tuner]] = {
    "fixed": FixedNoise,
    "data_dependent": DataDependent,
    "data_dependent_published": PublishedDataDependent,
    "ancer": Ancer,
    "ancer_published": PublishedAncer,
    "hill_climb": HillClimb,
    "reuse": Reuse,
    "pattern": Pattern,
    "dataset": DatasetWise,
    "per_input": PerInput,
}

REGISTRY: Registry[Tuner] = Registry("method", "smoothcert.tuners", TUNERS, Tuner)  # type: ignore[type-abstract]
tuner_named = REGISTRY.make
