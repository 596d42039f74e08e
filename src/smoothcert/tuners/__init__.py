"""The tuners, one file each: who chooses scale and loc. A new tuner is one file and one line of TUNERS."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from smoothcert.errors import SettingError, look_up
from smoothcert.tuners.ancer import Ancer
from smoothcert.tuners.base import Tuner
from smoothcert.tuners.data_dependent import DataDependent
from smoothcert.tuners.fixed import Fixed
from smoothcert.tuners.hill_climb import HillClimb
from smoothcert.tuners.pattern import Pattern
from smoothcert.tuners.published import PublishedAncer, PublishedDataDependent
from smoothcert.tuners.reuse import Reuse
from smoothcert.tuners.ucan import DatasetWise, PerInput

__all__ = [
    "TUNERS",
    "Ancer",
    "DataDependent",
    "DatasetWise",
    "Fixed",
    "HillClimb",
    "Pattern",
    "PerInput",
    "PublishedAncer",
    "PublishedDataDependent",
    "Reuse",
    "Tuner",
    "tuner_named",
]

TUNERS: dict[str, Callable[..., Tuner]] = {
    "fixed": Fixed,
    "data_dependent": DataDependent,
    "data_dependent_published": PublishedDataDependent,
    "ancer": Ancer,
    "ancer_published": PublishedAncer,
    "hill_climb": HillClimb,
    "hill_climb_keep_label": partial(HillClimb, keep_label=True),
    "reuse": Reuse,
    "pattern": Pattern,
    "dataset": DatasetWise,
    "per_input": PerInput,
}


def tuner_named(name: str, **options: Any) -> Tuner:
    """The tuner of this name with these options; what is left out is its own default."""
    make = look_up("method", name, TUNERS)
    known = inspect.signature(make).parameters
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise SettingError(f"the method {name} has no option {option!r} ([tune] of the settings); {has}")
    if name == "reuse" and "run" not in options:
        raise SettingError("the method reuse needs the run whose noise is used again; give it as --tuned RUN")
    return make(**options)
