"""The tuners, one file each: who chooses scale and loc. A new tuner is one file and one line of TUNERS."""

from __future__ import annotations

from collections.abc import Callable

from smoothcert.tuners.base import Tuner
from smoothcert.tuners.fixed import Fixed

__all__ = ["TUNERS", "Fixed", "Tuner"]

TUNERS: dict[str, Callable[..., Tuner]] = {
    "fixed": Fixed,
}
