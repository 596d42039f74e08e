"""The tuners, one file each: who chooses scale and loc. A new tuner is one file and one line of TUNERS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smoothcert.tuners.base import Tuner
from smoothcert.tuners.fixed import Fixed
from smoothcert.tuners.hill_climb import HillClimb

__all__ = ["TUNERS", "Fixed", "HillClimb", "Tuner"]

TUNERS: dict[str, Callable[..., Tuner]] = {
    "fixed": Fixed,
    "hill_climb": HillClimb,
    "hill_climb_keep_label": partial(HillClimb, keep_label=True),
}
