"""Who chooses the noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from smoothcert.errors import SettingError
from smoothcert.laws.base import written
from smoothcert.noise import Noise

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


class Tuner(ABC):
    """Chooses the noise for a batch, from draws that are never the certifying draws."""

    name: ClassVar[str]
    reads_input: ClassVar[bool]  # True: certificates are FROZEN until a memory settles them
    costly: ClassVar[bool] = (
        True  # reading an input takes work: inputs are then taken one by one, each voted on at once
    )

    @abstractmethod
    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        """The noise for each input of x, from the noise the user gave; draws are keyed by index and stage TUNE."""

    def check(self, facts: Mapping[str, Any]) -> None:  # noqa: B027 (most tuners serve every run)
        """Refuse a run that this tuner cannot serve; facts is the run's configuration."""


def named(tuner: Tuner, *settings: float) -> str:
    """The name with its settings: it goes into the run's configuration, so that two settings never mix in one run."""
    return f"{type(tuner).name} {','.join(map(written, settings))}"


def positive(**settings: float) -> None:
    """Refuse settings that are not finite numbers above 0."""
    for name, value in settings.items():
        if not (value > 0 and math.isfinite(value)):
            raise SettingError(f"{name}={value} must be a finite number above 0")
