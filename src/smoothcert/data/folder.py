"""Folders of images, one folder per class as ImageNet is kept: ROOT/<class>/<file>.png, .jpg, …"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import PIXEL_GRID, Dataset, FloatArray, check_indices, pixels_to_inputs
from smoothcert.errors import DataError, MissingExtra, SettingError

COMPRESSED = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".jp2"})
UNCOMPRESSED = frozenset({".bmp", ".ppm", ".pgm", ".tif", ".tiff"})
SUFFIXES = COMPRESSED | UNCOMPRESSED
HASHED_END = 1 << 16
"""Bytes at each end of a long compressed file that its fingerprint reads."""


class ImageFolder(Dataset):
    """Images in class folders, read from disk when asked for; needs Pillow.

    The classes are numbered in the order of their folders' names, and the images by class, then by file name. They are
    made RGB, shape (3, height, width), or gray, (1, height, width). With ``size`` the shorter side is resized to size
    (bilinear), then the centre size × size is cut out; the result has 8 bits per pixel again, and *that* image is the
    input that is certified. Without ``size`` all images must have the size of the first.
    """

    def __init__(self, root: Path, size: int | None = None, gray: bool = False) -> None:
        if size is not None and size < 1:
            raise SettingError(f"size is {size}; allowed are whole numbers of pixels from 1; leave it out to keep all")
        self._root, self._size, self._mode = root, size, "L" if gray else "RGB"
        names = _class_names(root)
        self._files = [(path, label) for label, name in enumerate(names) for path in _images(root / name)]
        if not self._files:
            raise DataError(
                f"{root} has {len(names)} class folders but no image in them; allowed are "
                f"{', '.join(sorted(SUFFIXES))}; expected is ROOT/<class>/<file>"
            )
        self.name = root.resolve().name
        self.classes = len(names)
        self.grid = PIXEL_GRID
        self.shape = self._pixels(self._files[0][0]).shape

    def __len__(self) -> int:
        return len(self._files)

    def inputs(self, indices: Sequence[int]) -> FloatArray:
        chosen = check_indices(self.name, indices, len(self))
        pixels = np.empty((len(chosen), *self.shape), dtype=np.uint8)
        for row, index in enumerate(chosen):
            pixels[row] = self._of_one_size(self._files[index][0])
        return pixels_to_inputs(pixels)

    def truths(self, indices: Sequence[int]) -> list[int | None]:
        return [self._files[index][1] for index in check_indices(self.name, indices, len(self))]

    def fingerprint(self) -> str:
        """SHA-256 over size and colour, and over each file's label, path, length and content.

        Reading all of ImageNet takes minutes, so of a compressed file longer than 128 KiB only the first and the last
        64 KiB are read. Compression carries any change of a picture to its length or its end (a PNG ends with a
        checksum of its pixels), so another picture is noticed; one forged byte in the middle is not. Files of
        uncompressed formats are read whole. The version of Pillow, whose decoders may differ by a rounding, is not
        part of it.
        """
        digest = hashlib.sha256(f"smoothcert folder, version 1\n{self._size} {self._mode}\n".encode())
        for path, label in self._files:
            length, content = _digest_of(path)
            digest.update(f"{label}\0{path.relative_to(self._root).as_posix()}\0{length}\0{content}\n".encode())
        return digest.hexdigest()

    def _of_one_size(self, path: Path) -> npt.NDArray[np.uint8]:
        """The pixels of a file, once they are found to have the shape of the others."""
        pixels = self._pixels(path)
        if pixels.shape != self.shape:
            raise DataError(
                f"{path} is {pixels.shape[2]}×{pixels.shape[1]} pixels, the first image is {self.shape[2]}×"
                f"{self.shape[1]}; all must have one size: give size=... to resize and crop them"
            )
        return pixels

    def _pixels(self, path: Path) -> npt.NDArray[np.uint8]:
        """The pixels of one file, (channels, height, width)."""
        image = _decoded(path)
        if image.mode.startswith(("I", "F")):
            raise DataError(
                f"{path} has more than 8 bits per pixel (mode {image.mode}); allowed are 8-bit images; convert it first"
            )
        image = image.convert(self._mode)
        if self._size is not None:
            image = _resized_and_cropped(image, self._size)
        return np.asarray(image).reshape(image.height, image.width, -1).transpose(2, 0, 1)


def _class_names(root: Path) -> list[str]:
    """The names of the class folders, sorted; hidden ones are passed over."""
    if not root.is_dir():
        raise DataError(f"there is no folder {root}; give the path of a folder of class folders, ROOT/<class>/<file>")
    names = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise DataError(f"{root} holds no class folders; expected is one folder per class, ROOT/<class>/<file>")
    return names


def _images(folder: Path) -> list[Path]:
    """The image files directly in a folder, sorted by name."""
    entries = (path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in entries if path.is_file())


def _decoded(path: Path) -> Any:
    """The Pillow image in a file, decoded to its last pixel."""
    try:
        from PIL import Image
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingExtra(
            f"folders of images are read by Pillow, which does not import here ({error}); "
            f"pip install smoothcert[images]"
        ) from error
    try:
        with Image.open(path) as image:
            image.load()
            return image.copy()
    except Exception as error:  # a damaged file fails a decoder in any way it likes
        raise DataError(
            f"{path} cannot be read as an image: {error}; replace the file, or take it out of its folder"
        ) from error


def _resized_and_cropped(image: Any, size: int) -> Any:
    """The centre of the image after its shorter side became size, by torchvision's Resize and CenterCrop rules."""
    from PIL import Image

    shorter = min(image.size)
    width, height = (size if side == shorter else int(size * side / shorter) for side in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return resized.crop((left, top, left + size, top + size))


def _digest_of(path: Path) -> tuple[int, str]:
    """The length of a file and the SHA-256 of its content, or of its two ends; see ImageFolder.fingerprint."""
    try:
        with open(path, "rb") as file:
            length = file.seek(0, 2)
            file.seek(0)
            if length <= 2 * HASHED_END or path.suffix.lower() in UNCOMPRESSED:
                return length, hashlib.file_digest(file, "sha256").hexdigest()
            digest = hashlib.sha256(file.read(HASHED_END))
            file.seek(length - HASHED_END)
            digest.update(file.read(HASHED_END))
            return length, digest.hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}; the folder must not change while it is used") from error
