"""Models of files, known by what was read; on their way to another process their bytes travel, as they do not pickle."""

from __future__ import annotations

import hashlib
import pickle
from abc import abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from torch import nn

from smoothcert.errors import ModelError
from smoothcert.identity import Kept


class FromFile(nn.Module, Kept):
    """A model that was loaded from a file, which is read once more when the model is sent.

    It has one mode, that of its file. digest: SHA-256 of the files, in order, since not all they hold shows among weights.
    path: None if it was made otherwise, and cannot be sent.
    """

    digest: bytes = b""
    path: Path | None = None
    folder: TemporaryDirectory[str]  # of one that was sent: where its files are

    def __init__(self) -> None:
        super().__init__()
        self.training = False

    @classmethod
    def load(cls, path: Path) -> Self:
        """The model of a file, which must not change meanwhile: its digest stands for what was read."""
        before = _joined(cls.bytes_of(path)) if path.is_file() else b""
        model = cls.read(path)
        model.digest, model.path = _joined(cls.bytes_of(path)), path
        if model.digest != before:
            raise ModelError(f"{path} was changed while it was read; load it again when it is written")
        return model

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> Self:
        """The model that is in a file."""

    def content(self) -> object:
        return self.digest

    def train(self, mode: bool = True) -> Self:
        """Do nothing: there is one mode."""
        return self

    @staticmethod
    def files(path: Path) -> list[Path]:
        """The file, and those beside it that it needs."""
        return [path]

    @classmethod
    def bytes_of(cls, path: Path) -> dict[str, bytes]:
        """What is in the files, by their names."""
        return {file.name: file.read_bytes() for file in cls.files(path)}

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise pickle.PicklingError(f"a {type(self).__name__} that was not loaded from a file cannot be sent")
        files = self.bytes_of(self.path)
        if _joined(files) != self.digest:
            raise pickle.PicklingError(f"{self.path} has changed since it was loaded; load it again")
        return arrived, (type(self), self.path.name, files)


def _joined(files: dict[str, bytes]) -> bytes:
    """The SHA-256 of files in their order."""
    return hashlib.sha256(b"".join(files.values())).digest()


def arrived(kind: type[FromFile], name: str, files: dict[str, bytes]) -> Any:
    """The model of files that came as bytes; they are kept as long as it is, for runtimes that read them again."""
    folder = TemporaryDirectory()
    for file, content in files.items():
        (Path(folder.name) / file).write_bytes(content)
    model = kind.load(Path(folder.name) / name)
    model.folder = folder
    return model
