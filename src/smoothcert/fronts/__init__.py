"""Linear front ends: which numbers of an input noise is laid on. A recipe makes one, before any input is certified."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from smoothcert.data.base import Dataset
from smoothcert.errors import SettingError
from smoothcert.fronts.front import FILE, Front, fingerprint_of, real_numbers
from smoothcert.linear import LinearMap
from smoothcert.maths import FloatArray
from smoothcert.maths.boxed import Box
from smoothcert.registry import Plugin, Registry, setting

__all__ = ["FILE", "FRONTS", "REGISTRY", "Front", "FrontRecipe", "front_named"]
GRAIN = (
    2.0**20
)  # entries of U are rounded to whole parts of this, so that the last bits of a machine do not make another front


@dataclass(frozen=True)
class Ground:
    """What a front is made for: the data that will be certified, the training data, and what inputs lie in."""

    data: Dataset
    training: Callable[[], Dataset]
    box: Box | None


class FrontRecipe(Plugin, ABC):
    """Makes a front for a data set, from training data alone."""

    @abstractmethod
    def make(self, ground: Ground) -> Front:
        """The front; ``ground.training()`` loads the training data."""


@dataclass(frozen=True)
class PrincipalComponents(FrontRecipe):
    """The k directions in which training inputs vary most (PCA), around their mean."""

    name = "pca"

    k: int = setting(help="how many", least=1)
    inputs: int = setting(10_000, "training inputs that it is fitted with, at most", least=2)
    decode: bool = setting(False, "the network gets an input again, made from the numbers; else the k numbers")

    def make(self, ground: Ground) -> Front:
        training = ground.training()
        chosen = np.linspace(0, len(training) - 1, min(self.inputs, len(training))).astype(int)
        x = training.inputs(np.unique(chosen).tolist())
        return self.fit(x, ground.box)

    def fit(self, x: np.typing.NDArray[np.float32], box: Box | None) -> Front:
        """The front of these inputs, (inputs, *event), which it remembers."""
        flat = x.reshape(len(x), -1).astype(float)
        if not 0 < self.k <= min(flat.shape):
            raise SettingError(
                f"pca: k={self.k} must be at most the number of inputs and of their coordinates; got {flat.shape}"
            )
        offset = np.rint(flat.mean(axis=0) * GRAIN) / GRAIN
        _, vectors = np.linalg.eigh(np.cov(flat, rowvar=False))
        rows = vectors[:, ::-1][:, : self.k].T
        rows = rows * np.sign(rows[np.arange(self.k), np.abs(rows).argmax(axis=1)])[:, None]
        matrix = np.rint(rows * GRAIN) / GRAIN
        fitted = frozenset(map(fingerprint_of, x))
        return Front(matrix, offset, x.shape[1:], box=box, decodes=self.decode, name=self.title, fitted=fitted)


@dataclass(frozen=True)
class BlockSums(FrontRecipe):
    """Sums of square blocks of pixels, divided by their side: orthonormal, and whole-numbered for 8-bit images."""

    name = "blocks"

    side: int = setting(2, "of a block, in pixels", least=1)
    decode: bool = setting(False, "the network gets an input again, of blocks; else the smaller picture of sums")

    def make(self, ground: Ground) -> Front:
        return self.over(ground.data.shape, ground.data.grid is not None, ground.box)

    def over(self, shape: tuple[int, ...], pixels: bool, box: Box | None) -> Front:
        """The front for pictures of this shape, of 8-bit pixels or of real numbers."""
        side, (*channels, height, width) = self.side, shape if len(shape) > 1 else (1, *shape)
        if len(shape) < 2 or height % side or width % side:
            raise SettingError(
                f"blocks:side={side} needs pictures whose height and width it divides; got inputs of shape {shape}"
            )
        rows, columns = (np.kron(np.eye(size // side), np.ones((1, side))) for size in (height, width))
        matrix = np.kron(np.eye(int(np.prod(channels, dtype=int))), np.kron(rows, columns)) / side
        seen = (*channels, height // side, width // side)
        exact = {"levels": 255 * side, "pixels": 255} if pixels else {"box": box}
        return Front(matrix, 0.0, shape, seen, decodes=self.decode, name=self.title, **exact)


@dataclass(frozen=True)
class Stored(FrontRecipe):
    """A matrix of your own, (k, dim), in a .npy file; or a whole front in a .npz file, as training writes it."""

    name = "matrix"

    path: str = setting(help="the file")
    decode: bool = setting(False, "the network gets an input again, made from the numbers; else the k numbers")

    def make(self, ground: Ground) -> Front:
        if Path(self.path).suffix == ".npz":
            return Front.load(self.path)
        (matrix,) = _arrays(self.path)
        name = f"matrix:path={self.path}"
        return Front(matrix, 0.0, ground.data.shape, box=ground.box, decodes=self.decode, name=name)


@dataclass(frozen=True)
class Covariance(FrontRecipe):
    """Noise of any covariance Σ on the input, under noise of scale 1: the numbers are Σ^(−½)x, and the network gets inputs again."""

    name = "covariance"

    path: str = setting(
        help="a .npy file with Σ, (dim, dim), or with dim standard deviations; or a .npz with deviations and factors W, Σ = diag(deviations²) + WWᵀ"
    )

    def make(self, ground: Ground) -> Front:
        matrix = LinearMap.of_covariance(*_arrays(self.path, "deviations", "factors")).matrix
        name = f"covariance:path={self.path}"
        return Front(matrix, 0.0, ground.data.shape, box=ground.box, decodes=True, name=name)


def _arrays(path: str, *names: str) -> list[FloatArray]:
    """The array of a .npy file, or those of these names in a .npz."""
    try:
        found = np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False)
        read = [found] if isinstance(found, np.ndarray) else [found[name] for name in names]
        return [real_numbers(each) for each in read]
    except (ValueError, OSError, EOFError, BadZipFile, KeyError) as problem:
        also = f", nor a .npz with {' and '.join(names)}" if names else ""
        raise SettingError(f"{path} is no readable .npy file of numbers{also} ({problem})") from problem


FRONTS: dict[str, type[FrontRecipe]] = {
    "pca": PrincipalComponents,
    "blocks": BlockSums,
    "matrix": Stored,
    "covariance": Covariance,
}
REGISTRY: Registry[FrontRecipe] = Registry("front", "smoothcert.fronts", FRONTS, FrontRecipe)  # type: ignore[type-abstract]


def front_named(spec: str) -> FrontRecipe:
    """The recipe that a text names; a .npy or .npz file is a matrix.

    >>> front_named("pca:40").title, front_named("blocks:2").title, front_named("U.npy").title
    ('pca:k=40', 'blocks', 'matrix:path=U.npy')
    """
    return Stored(spec) if Path(spec).suffix in (".npy", ".npz") and "=" not in spec else REGISTRY.make(spec)
