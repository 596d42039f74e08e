"""The universal transformation (UCAN Thm. 2): noise of any law, stretched by a map of factors and shifted."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from smoothcert.maths import FloatArray
from smoothcert.noise import Noise


@dataclass(frozen=True, eq=False)
class Maps:
    """Factors on the scale of each coordinate, above 0, and shifts in units of that scale; (*event), or a row per input.

    If noise of scale s certifies {δ : ‖δ/s‖ <= r}, noise of scale factor·s and any loc certifies
    {δ : ‖δ/(factor·s)‖ <= r}, for any law, norm and radius rule. ``fitted`` names the inputs that the map was chosen by:
    certificates of these are frozen.
    """

    factors: FloatArray
    shifts: FloatArray | float = 0.0
    fitted: frozenset[int] = field(default=frozenset(), repr=False)

    def on(self, noise: Noise) -> Noise:
        """The noise, stretched and shifted.

        >>> import numpy as np
        >>> stretched = Maps(np.array([1.0, 3.0]), np.array([0.0, 1.0])).on(Noise("laplace", 0.5))
        >>> stretched.scale.tolist(), stretched.loc.tolist()
        ([0.5, 1.5], [0.0, 0.5])
        """
        factors, shifts = (torch.as_tensor(value, dtype=torch.float64) for value in (self.factors, self.shifts))
        return noise.shaped(noise.scale * factors, noise.loc + noise.scale * shifts)
