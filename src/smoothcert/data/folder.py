"""Folders of images, one folder per class as ImageNet is kept (ROOT/<class>/<file>.png, .jpg, …) or flat; one image too."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.data.base import PIXEL_GRID, Dataset, FloatArray, check_indices, pixels_to_inputs, reading
from smoothcert.data.classes import classes_of
from smoothcert.errors import DataError, SettingError
from smoothcert.extras import import_extra

COMPRESSED = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".jp2"})
UNCOMPRESSED = frozenset({".bmp", ".ppm", ".pgm", ".tif", ".tiff"})
SUFFIXES = COMPRESSED | UNCOMPRESSED
HASHED_END = 1 << 16
"""Bytes at each end of a long compressed file that its fingerprint reads."""
READERS = 16
"""Files that are read at a time for a fingerprint."""


class ImageFolder(Dataset):
    """Images in class folders, in one folder, or a single file, read from disk when asked for; needs Pillow.

    ``classes`` says what the classes are: ``imagenet``, ``sorted`` or a file, as in ``classes_of``, which else goes by
    the names of the folders. Images of a flat folder, and a single one, have no class unless a file gives them one.
    Images are numbered by class, then by name, and made RGB, shape (3, height, width), or gray, (1, height, width).

    With ``size`` the shorter side is resized to size (bilinear), then the centre is cut out: crop × crop, or size × size
    without ``crop``; the result has 8 bits per pixel again, and *that* image is the input that is certified. Without
    ``size`` all images must have the size of the first.
    """

    def __init__(
        self,
        root: Path,
        size: int | None = None,
        gray: bool = False,
        *,
        crop: int | None = None,
        classes: str | None = None,
    ) -> None:
        if size is not None and size < 1:
            raise SettingError(f"size is {size}; allowed are whole numbers of pixels from 1; leave it out to keep all")
        if crop is not None and not 1 <= crop <= (size or 0):
            raise SettingError(
                f"crop is {crop} and size {size}; the centre is cut out of the resized image, so give both, crop from 1 "
                "to size: 256 and 224, say"
            )
        self._root, self._mode = root if root.is_dir() else root.parent, "L" if gray else "RGB"
        self._size, self._crop = size, crop or size
        folders, paths = _found(root)
        known = classes_of(folders, classes)
        found = [(path, None if known is None else known.of(path.relative_to(self._root))) for path in paths]
        self._files = sorted(found, key=lambda each: -1 if each[1] is None else each[1])
        self.name = root.resolve().name
        self.classes = None if known is None else known.number
        self.class_names = () if known is None else known.names
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
        cut = "" if self._crop == self._size else f" crop {self._crop}"
        digest = hashlib.sha256(f"smoothcert folder, version 1\n{self._size}{cut} {self._mode}\n".encode())
        with ThreadPoolExecutor(READERS) as readers:  # each waits for its disk or its server
            digests = readers.map(_digest_of, [path for path, _ in self._files])
        for (path, label), (length, content) in zip(self._files, digests, strict=True):
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
        if self._size is not None and self._crop is not None:
            image = _resized_and_cropped(image, self._size, self._crop)
        return np.asarray(image).reshape(image.height, image.width, -1).transpose(2, 0, 1)


def _found(root: Path) -> tuple[list[str], list[Path]]:
    """The names of the class folders, none where there are none, and all images in order; hidden ones are passed over."""
    if root.is_file():
        return [], [root]
    if not root.is_dir():
        raise DataError(
            f"there is no folder {root}; give the path of an image, or of a folder of images or class folders"
        )
    names = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    beside, inside = _images(root), [path for name in names for path in _images(root / name)]
    if beside and inside:
        raise DataError(
            f"{root} holds {len(beside)} images beside class folders with {len(inside)}; give a folder of images, or one "
            "of class folders, ROOT/<class>/<file>"
        )
    if not beside and not inside:
        raise DataError(
            f"{root} has {len(names)} class folders but no image in them, and none of its own; allowed are "
            f"{', '.join(sorted(SUFFIXES))}; expected is ROOT/<class>/<file>, or ROOT/<file>"
        )
    return ([], beside) if beside else (names, inside)


def _images(folder: Path) -> list[Path]:
    """The image files directly in a folder, sorted by name."""
    entries = (path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in entries if path.is_file())


def _decoded(path: Path) -> Any:
    """The Pillow image in a file, decoded to its last pixel."""
    library = import_extra("PIL.Image", "folders of images", "images")
    try:
        with path.open("rb") as file, library.open(file) as image:
            image.load()
            return image.copy()
    except Exception as error:  # a damaged file fails a decoder in any way it likes
        raise DataError(
            f"{path} cannot be read as an image: {error}; replace the file, or take it out of its folder"
        ) from error


def _resized_and_cropped(image: Any, size: int, crop: int) -> Any:
    """The crop × crop centre of the image after its shorter side became size, by torchvision's Resize and CenterCrop."""
    from PIL import Image

    shorter = min(image.size)
    width, height = (size if side == shorter else int(size * side / shorter) for side in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - crop) / 2), round((height - crop) / 2)
    return resized.crop((left, top, left + crop, top + crop))


def _digest_of(path: Path) -> tuple[int, str]:
    """The length of a file and the SHA-256 of its content, or of its two ends; see ImageFolder.fingerprint."""
    with reading(path, "a file", "the folder must not change while it is used"), path.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(0)
        if length <= 2 * HASHED_END or path.suffix.lower() in UNCOMPRESSED:
            return length, hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(file.read(HASHED_END))
        file.seek(length - HASHED_END)
        digest.update(file.read(HASHED_END))
        return length, digest.hexdigest()
