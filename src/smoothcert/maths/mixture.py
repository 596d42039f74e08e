"""Noise drawn from one of several diagonal Gaussians: a certificate in l2 (after Eiras et al. 2022, Proposition 6)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import SettingError
from smoothcert.maths import FloatArray


def mixture_scale(weights: ArrayLike, scales: ArrayLike) -> FloatArray:
    """The scale of the certified ellipsoid: (Σ_k α_k/σ_k²)^(-1/2) in each coordinate.

    weights: (components,), adding up to 1; scales: (components, *event), the standard deviations of each component.

    >>> mixture_scale([0.5, 0.5], [[1.0, 2.0], [1.0, 0.5]]).round(4).tolist()
    [1.0, 0.686]
    """
    alpha, sigma = np.asarray(weights, dtype=float), np.asarray(scales, dtype=float)
    if alpha.ndim != 1 or len(alpha) != len(sigma) or not (alpha >= 0).all() or not math.isclose(alpha.sum(), 1.0):
        raise SettingError(
            f"the weights of a mixture must be one number >= 0 per component and add up to 1; got {alpha.tolist()} for "
            f"{len(sigma)} components"
        )
    if not (np.isfinite(sigma) & (sigma > 0)).all():
        raise SettingError("every scale of a mixture must be a finite number above 0")
    return np.asarray(np.tensordot(alpha, sigma**-2.0, axes=1) ** -0.5, dtype=float)


def mixture_radius(lower: float, upper: float) -> float:
    """√(π/2)·(p_A − p_B): the radius of that ellipsoid in units of its scale; 0 when the class does not lead.

    Along δ a probability changes at most at the rate Σ_k α_k E[(s_k·δ)⁺] <= √(δᵀMδ)/√(2π), M = Σ_k α_k Σ_k⁻¹, since the
    score s_k of a component is N(0, Σ_k⁻¹) and the root is concave. The paper's Corollary 3 prints 1/√(2π), π times less.

    >>> round(mixture_radius(0.9, 0.1), 4)
    1.0027
    """
    return math.sqrt(math.pi / 2) * max(lower - upper, 0.0)
