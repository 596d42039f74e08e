"""Who chooses the noise of an input: what a tuner is, and the one that chooses nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from smoothcert.noise import Noise
from smoothcert.registry import Plugin

if TYPE_CHECKING:
    from smoothcert.smoother.smoother import Smoother


class Tuner(Plugin, ABC):
    """Chooses the noise for a batch, from draws that are never the certifying draws.

    A frozen dataclass whose fields are its parameters; they are part of every run that it serves.
    """

    reads_input: ClassVar[bool]  # True: certificates are FROZEN until a memory settles them
    costly: ClassVar[bool] = True  # reading inputs takes work: they are taken one by one, and each is voted on at once

    @abstractmethod
    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        """The noise for each input of x, from the noise the user gave; draws are keyed by index and stage TUNE."""

    def chosen_by(self, noise: Noise, x: Tensor) -> bool:
        """Was this noise, which all inputs share, chosen with this very input? Its certificate is frozen, then."""
        return False

    def check(self, facts: Mapping[str, Any]) -> None:
        """Refuse a run that this tuner cannot serve; facts is the run's configuration."""


@dataclass(frozen=True)
class FixedNoise(Tuner):
    """Keeps the noise the user gave: the same for every input, as in Cohen et al. (2019)."""

    name = "fixed"
    reads_input = False

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return start


def tuner_named(tuner: Tuner | str | None) -> Tuner:
    """The tuner; a text names it as on the command line."""
    if tuner is None or isinstance(tuner, Tuner):
        return tuner or FixedNoise()
    # The tuners are built on this room, so they are imported only when one is asked for.
    named: Tuner = import_module("smoothcert.tuners").tuner_named(tuner)
    return named
