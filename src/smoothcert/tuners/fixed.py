"""Fixed noise: the same for every input, as in Cohen et al. (2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from smoothcert.noise import Noise
from smoothcert.tuners.base import Tuner

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother


@dataclass(frozen=True)
class Fixed(Tuner):
    """Keeps the noise the user gave."""

    name = "fixed"
    reads_input = False

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return start
