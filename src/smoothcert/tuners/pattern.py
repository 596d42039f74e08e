"""Pattern-wise noise (UCAN): one fixed map of factors on the scale, by a formula, an array or a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from smoothcert.errors import SettingError
from smoothcert.extras import import_extra
from smoothcert.maths import FloatArray
from smoothcert.noise import Noise
from smoothcert.registry import setting
from smoothcert.smoother import Tuner
from smoothcert.tuners.maps import Maps

if TYPE_CHECKING:
    from smoothcert.smoother import Smoother

NORMS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
KAPPA, IOTA = 0.2, 0.8  # as released
ALLOWED = "allowed: l1, l2 or linf, an .npy file of factors, or a picture"


@dataclass(frozen=True, eq=False)
class Pattern(Tuner):
    """The same map for every input: low in the centre, high at the border, or whatever the user gives.

    ``l1``, ``l2`` and ``linf`` are UCAN's patterns. An array holds the factors themselves, above 0; a picture is read as
    brightness, its black as iota and its white as iota + kappa. A map of (height, width) serves every channel.
    """

    name = "pattern"
    reads_input = False

    source: str | Path | ArrayLike = setting("l2", "l1, l2 or linf, an .npy file of factors, or a picture")
    kappa: float = setting(KAPPA, "by how much the factor grows: to a border's middle, or from black to white")
    iota: float = setting(IOTA, "the factor in the centre, or of black")

    def __post_init__(self) -> None:
        corner = 2 ** (2 / NORMS[str(self.source)]) if self.formula else 0.0  # ‖(1, 1)‖² at the corners of the picture
        _check(np.array([self.iota, self.iota + self.kappa * corner]) if self.formula else self.factors)

    @property
    def formula(self) -> bool:
        """Is it one of UCAN's patterns?"""
        return isinstance(self.source, str) and self.source in NORMS

    @cached_property
    def factors(self) -> FloatArray:
        """The factors of an array, a file or a picture."""
        if isinstance(self.source, str | Path):
            return _read(Path(self.source), self.kappa, self.iota)
        factors = np.asarray(self.source, dtype=float)
        if not factors.size:
            raise SettingError(f"the pattern is an empty array; {ALLOWED}")
        return factors

    def content(self) -> object:
        return super().content() if self.formula else self.factors

    def maps(self, shape: Sequence[int]) -> Maps:
        """The factors for inputs of this shape."""
        factors = radial(shape, NORMS[str(self.source)], self.kappa, self.iota) if self.formula else self.factors
        try:
            return Maps(np.array(np.broadcast_to(factors, shape)))
        except ValueError:
            raise SettingError(
                f"the pattern has shape {factors.shape} and the inputs {tuple(shape)}; "
                "give it the height and width of the inputs, or their whole shape"
            ) from None

    def choose(self, smoother: Smoother, x: Tensor, start: Noise, indices: Sequence[int]) -> Noise:
        return self.maps(tuple(x.shape[1:])).on(start)


def radial(shape: Sequence[int], norm: float, kappa: float = KAPPA, iota: float = IOTA) -> FloatArray:
    """κ‖(a, b)‖² + ι over the pixels of (…, height, width), a and b from -1 at one border to 1 at the other (UCAN Eq. 12).

    As released, a and b end at ±1/4, so that the pattern is nearly flat; here it is as printed.

    >>> radial((1, 3, 3), 2.0).round(3).tolist()
    [[1.2, 1.0, 1.2], [1.0, 0.8, 1.0], [1.2, 1.0, 1.2]]
    """
    if len(shape) < 2:
        raise SettingError(
            f"the patterns l1, l2 and linf are for images (…, height, width); the inputs have shape {tuple(shape)}: "
            "give an .npy file with one factor per coordinate"
        )
    a, b = (np.linspace(-1, 1, size) if size > 1 else np.zeros(1) for size in shape[-2:])
    distance = np.linalg.norm(np.stack(np.meshgrid(a, b, indexing="ij")), ord=norm, axis=0)
    return np.asarray(kappa * distance**2 + iota)


def _read(path: Path, kappa: float, iota: float) -> FloatArray:
    """The factors of an .npy file, or of a picture: iota where it is black, iota + kappa where it is white."""
    if not path.is_file():
        raise SettingError(f"there is no pattern and no file {str(path)!r}; {ALLOWED}")
    if path.suffix.lower() == ".npy":
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=float)
        except (ValueError, OSError) as problem:
            raise SettingError(
                f"{path} is not an .npy file of numbers ({problem}); save it with numpy.save"
            ) from problem
    library = import_extra("PIL.Image", "pictures", "images")
    try:
        with library.open(path) as picture:
            brightness = np.asarray(picture.convert("L"), dtype=float) / 255
    except Exception as problem:  # a damaged file fails a decoder in any way it likes
        raise SettingError(f"{path} cannot be read as a picture: {problem}; {ALLOWED}") from problem
    return kappa * brightness + iota


def _check(factors: FloatArray) -> None:
    if not (np.all(np.isfinite(factors)) and np.all(factors > 0)):
        raise SettingError(
            f"every factor of a pattern must be a finite number above 0; these go from {np.min(factors):g} to "
            f"{np.max(factors):g}: without noise in some coordinate nothing is certified there"
        )
