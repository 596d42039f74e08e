"""The tuners, one file each: who chooses scale and loc. A new tuner is one file and one line of TUNERS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smoothcert.tuners.base import Tuner
from smoothcert.tuners.fixed import Fixed
from smoothcert.tuners.hill_climb import HillClimb
from smoothcert.tuners.pattern import Pattern
from smoothcert.tuners.ucan import DatasetWise, PerInput

__all__ = ["TUNERS", "DatasetWise", "Fixed", "HillClimb", "Pattern", "PerInput", "Tuner"]

TUNERS: dict[str, Callable[..., Tuner]] = {
    "fixed": Fixed,
    "hill_climb": HillClimb,
    "hill_climb_keep_label": partial(HillClimb, keep_label=True),
    "pattern": Pattern,
    "dataset": DatasetWise,
    "per_input": PerInput,
}
