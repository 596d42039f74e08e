"""A linear front end: k numbers z = U(x − μ) of an input, on a grid, for noise to be laid on; U is fixed before any input."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import Dataset
from smoothcert.errors import DataError, InputError, SettingError
from smoothcert.files import write_atomically
from smoothcert.linear import LinearRegion
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.maths.front_rounding import product_error, rounded_centers
from smoothcert.maths.grid import LARGEST_STEP, certified_point, domain_of, whole_steps
from smoothcert.regions import Region

LEVELS = 2**14  # steps of the grid of z in one unit, a power of two
FILE = "front.npz"  # what training calls it, beside the model
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Front:
    """z = U(x − μ), rounded to a grid: what the noise is laid on, and what the network gets, or decodes to μ + U⁺z first.

    Two inputs are as near as their numbers, up to rounding: {y : ‖U(y − x)/scale‖ <= r} is certified once r is certified of z, less
    ``slack``. ``box`` is what every input must lie in, since the error of a product depends on its size. With ``pixels``
    inputs lie on the grid of 1/pixels, z is whole-numbered by itself, and nothing is lost. ``seen`` is the shape of z. ``fitted`` names the
    inputs that U was chosen by: certificates of these are frozen.

    >>> front = Front(np.array([[0.5, 0.5, 0.5, 0.5]]), shape=(4,), box=Box(0, 1))
    >>> front.encode(np.float32([[1.0, 1.0, 0.0, 0.5]])).tolist(), front.slack < 2**-13
    ([[1.25]], True)
    """

    matrix: FloatArray
    offset: FloatArray | float = 0.0
    shape: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    box: Box | None = None
    levels: int = LEVELS
    pixels: int | None = None
    decodes: bool = False
    name: str = "matrix"
    fitted: frozenset[int] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        matrix = real_numbers(self.matrix)
        if matrix.ndim != 2 or not matrix.size or not np.all(np.isfinite(matrix)):
            wrong = "" if np.all(np.isfinite(matrix)) else " and holds NaN or infinity"
            raise SettingError(f"the matrix of a front has shape {matrix.shape}{wrong}; give finite numbers (k, dim)")
        shape = tuple(self.shape) or matrix.shape[1:]
        seen = tuple(self.seen) or matrix.shape[:1]
        if math.prod(shape) != matrix.shape[1] or math.prod(seen) != matrix.shape[0]:
            raise SettingError(
                f"a matrix of shape {matrix.shape} takes inputs of {matrix.shape[1]} coordinates and gives {matrix.shape[0]} numbers; "
                f"got inputs of shape {shape}, and {seen} for what is seen"
            )
        try:
            offset = np.broadcast_to(np.asarray(self.offset, dtype=float).ravel(), matrix.shape[1:]).copy()
        except ValueError:
            raise SettingError(
                f"the offset has shape {np.shape(self.offset)}; give one number, or {matrix.shape[1]}"
            ) from None
        values = {"matrix": matrix, "offset": offset, "shape": shape, "seen": seen}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """Refuse what no certificate could follow from."""
        rank = int(np.linalg.matrix_rank(self.matrix @ self.matrix.T, hermitian=True))
        if rank < len(self.matrix):
            raise SettingError(
                f"the matrix of a front has {len(self.matrix)} rows and rank {rank}: some of its numbers follow from others; leave "
                "those rows out"
            )
        if not np.all(np.isfinite(self.offset)):
            raise SettingError("the offset of a front holds NaN or infinity; give finite numbers")
        if self.pixels is not None:
            weights = self.matrix * (self.levels / self.pixels)
            if np.any(self.offset) or not np.allclose(weights, np.rint(weights), rtol=0, atol=1e-9):
                raise SettingError(
                    f"inputs on the grid of 1/{self.pixels} give no whole multiples of 1/{self.levels} here; leave pixels out"
                )
            # What pixels are multiplied by is what shapes regions, to the last bit.
            object.__setattr__(self, "matrix", np.rint(weights) * (self.pixels / self.levels))
        elif self.box is None:
            raise SettingError(
                "a front must know what its inputs lie in, since rounding depends on it; give a box, such as box=Box(0, 1) (on the "
                "command line --set noise.box=LOW..HIGH)"
            )
        if not 1 <= self._reach * self.levels <= LARGEST_STEP:
            raise SettingError(
                f"the numbers of this front reach {self._reach:.3g}, and they are rounded to 1/{self.levels}, and sums with noise are "
                f"exact up to {LARGEST_STEP / self.levels:g}; multiply or divide the matrix (and the noise with it)"
            )

    @property
    def _largest(self) -> float:
        """max |x_i − μ_i| over every input that may ever be asked about; of pixels without a box, those up to 1."""
        low, high = (0.0, 1.0) if self.box is None else (self.box.low, self.box.high)
        return float(np.maximum(np.abs(low - self.offset), np.abs(high - self.offset)).max())

    @property
    def _reach(self) -> float:
        return float(np.abs(self.matrix).sum(axis=1).max()) * self._largest

    @cached_property
    def slack(self) -> float:
        """By how much rounding may set one number of two inputs farther apart than U does: a step, and errors of products."""
        if self.pixels is not None:
            return 0.0
        # Twice for z of two inputs, once more for the rounding of U/scale in the region, and once to spare.
        return 1.0 / self.levels + 4.0 * product_error(self.matrix, self._largest)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that decides what it does."""
        plain = (self.shape, self.seen, str(self.box), self.levels, self.pixels, self.decodes)
        found = hashlib.sha256(repr(plain).encode())
        for array in (self.matrix, self.offset):
            found.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return found.hexdigest()

    @cached_property
    def seal(self) -> str:
        """SHA-256 of all that decides what it does, and where that is frozen."""
        return hashlib.sha256(f"{self.digest} {sorted(self.fitted)}".encode()).hexdigest()

    @property
    def told(self) -> str:
        """What a run calls it: its name, for people, and its content."""
        return f"{self.name} sha256:{self.seal[:32]}"

    @property
    def domain(self) -> str:
        """Where a certificate's perturbations live."""
        where = domain_of(self.pixels) if self.pixels is not None else "reals"
        return f"{where}{'' if self.box is None else f' in {self.box}'}, front {self.digest[:12]}"

    def center_of(self, x: npt.ArrayLike) -> FloatArray:
        """The input as a certificate means it: the exact grid point, or the float32 that is multiplied."""
        return certified_point(x, self.domain)

    def encode(self, x: npt.ArrayLike) -> Singles:
        """z of each input, (inputs, *seen) in float32, which holds it exactly; inputs outside the box are refused."""
        given = np.asarray(x)
        if given.shape[1:] != self.shape:
            raise InputError(f"the front takes inputs of shape {self.shape}; got {given.shape[1:]}")
        flat = given.reshape(len(given), -1)
        if self.box is not None and not self.box.holds(flat):
            raise InputError(
                f"an input reaches from {float(flat.min()):g} to {float(flat.max()):g}, outside {self.box}, where the front was made "
                "for: rounding is bounded for inputs inside alone"
            )
        # One by one, so that an input's last bits do not depend on those beside it.
        steps = [self._steps(row) for row in flat]
        return (np.reshape(steps, (len(flat), *self.seen)) / self.levels).astype(np.float32)

    def _steps(self, row: npt.NDArray[Any]) -> FloatArray:
        """z as whole numbers of steps of its grid."""
        if self.pixels is not None:
            return np.asarray(self._weights @ whole_steps(row, self.pixels))
        return rounded_centers(self.matrix @ (row.astype(float) - self.offset), 1.0 / self.levels)

    @cached_property
    def _weights(self) -> FloatArray:
        """U in whole numbers: steps of z for a step of a pixel."""
        assert self.pixels is not None
        return np.asarray(np.rint(self.matrix * (self.levels / self.pixels)))

    @cached_property
    def decoder(self) -> FloatArray:
        """U⁺, (dim, k): from z to the nearest input that has these numbers, less μ."""
        return np.asarray(np.linalg.pinv(self.matrix))

    def decoded(self, z: npt.ArrayLike) -> FloatArray:
        """μ + U⁺z of each row, (rows, *shape): the input nearest to μ that has these numbers."""
        rows = np.asarray(z, dtype=float)
        return np.asarray(self.offset + rows.reshape(len(rows), -1) @ self.decoder.T).reshape(-1, *self.shape)

    def pulled_back(self, seen: Region, x: npt.ArrayLike) -> LinearRegion:
        """What a region around z(x) says of inputs around x."""
        return LinearRegion.behind(self.center_of(x), self.matrix, seen.full_scale, seen.radius, seen.norm, self.slack)

    def chosen_by(self, x: npt.ArrayLike) -> bool:
        """Was U fitted with this very input?"""
        return fingerprint_of(x) in self.fitted

    def over(self, dataset: Dataset) -> Dataset:
        """The numbers of every input of a data set, as one."""
        return _Behind(self, dataset)

    def save(self, path: Path) -> None:
        """Write it to one file, from which ``Front.load`` makes it again."""
        plain = {
            "shape": self.shape,
            "seen": self.seen,
            "box": None if self.box is None else str(self.box),
            "levels": self.levels,
            "pixels": self.pixels,
            "decodes": self.decodes,
            "name": self.name,
        }
        content = io.BytesIO()
        fitted = np.array(sorted(self.fitted), dtype=np.uint64)
        told = np.array(json.dumps(plain))
        np.savez(content, matrix=self.matrix, offset=self.offset, fitted=fitted, plain=told, seal=np.array(self.seal))
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Front:
        """The front of a file that ``save`` wrote."""
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as found:
                plain = json.loads(str(found["plain"]))
                plain |= {"box": None if plain["box"] is None else Box.read(plain["box"])}
                plain |= {name: tuple(plain[name]) for name in ("shape", "seen")}
                fitted = frozenset(found["fitted"].tolist())
                front, seal = cls(matrix=found["matrix"], offset=found["offset"], fitted=fitted, **plain), found["seal"]
                if front.seal != str(seal):
                    raise ValueError(
                        "it was changed after it was written, so nobody knows which inputs it was fitted with"
                    )
                return front
        except (OSError, EOFError, BadZipFile, KeyError, ValueError, TypeError) as problem:
            raise SettingError(
                f"{path} holds no front ({problem}); give a {FILE} that smoothcert train --front wrote, or a .npy file with a matrix"
            ) from problem

    def called(self, name: str) -> Front:
        """The same under another name."""
        return replace(self, name=name)


def real_numbers(values: npt.ArrayLike) -> FloatArray:
    """A copy of the array as float64; what is no real number is refused."""
    found = np.asarray(values)
    if found.dtype.kind not in "biuf":
        raise SettingError(f"an array of {found.dtype} is none of real numbers; give floats")
    return np.array(found, dtype=float)


def fingerprint_of(x: npt.ArrayLike) -> int:
    """One input by its content, in 64 bits; 8-bit pixels are the same however they were divided by 255, and −0 is 0."""
    content = np.asarray(x, dtype="<f4") + np.float32(0)
    with suppress(InputError):
        content = certified_point(content, domain_of(255)).astype("<f4")
    return int.from_bytes(hashlib.sha256(content.tobytes()).digest()[:8], "little")


def known_among(fingerprints: frozenset[int], x: npt.ArrayLike, center: npt.ArrayLike) -> bool:
    """Is it one of these, as it was given or as a certificate means it? On a grid a point is written in more than one way."""
    return not fingerprints.isdisjoint((fingerprint_of(x), fingerprint_of(center)))


class _Behind(Dataset):
    """A data set seen through a front."""

    def __init__(self, front: Front, inputs: Dataset) -> None:
        if inputs.shape != front.shape:
            raise DataError(f"the front takes inputs of shape {front.shape}; {inputs.name!r} has {inputs.shape}")
        self.front, self.behind = front, inputs
        self.name, self.classes, self.class_names = inputs.name, inputs.classes, inputs.class_names
        self.shape, self.grid = front.seen, 1 / front.levels

    @property
    def box(self) -> Box | None:
        return None

    def __len__(self) -> int:
        return len(self.behind)

    def inputs(self, indices: Sequence[int]) -> Singles:
        return self.front.encode(self.behind.inputs(indices))

    def truths(self, indices: Sequence[int]) -> list[int | None]:
        return self.behind.truths(indices)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.front.digest} {self.behind.fingerprint()}".encode()).hexdigest()
