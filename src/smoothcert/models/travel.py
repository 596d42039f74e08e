"""Models of files on their way to another process: what was made of a file does not pickle, so its bytes travel."""

from __future__ import annotations

import hashlib
import pickle
from abc import abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from torch import nn

from smoothcert.identity import Kept


class FromFile(nn.Module, Kept):
    """A model that was loaded from a file, which is read once more when the model is sent.

    It has one mode, that of its file. digest: SHA-256 of the files, in order, since not all they hold shows among weights.
    path: None if it was made otherwise, and cannot be sent.
    """

    folder: TemporaryDirectory[str]  # of one that was sent: where its files are

    def __init__(self, digest: bytes, path: Path | None) -> None:
        super().__init__()
        self.digest, self.path = digest, path
        self.training = False

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> Self:
        """The model of a file."""

    def content(self) -> object:
        return self.digest

    def train(self, mode: bool = True) -> Self:
        """Do nothing: there is one mode."""
        return self

    @staticmethod
    def files(path: Path) -> list[Path]:
        """The file, and those beside it that it needs."""
        return [path]

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise pickle.PicklingError(f"a {type(self).__name__} that was not loaded from a file cannot be sent")
        files = {file.name: file.read_bytes() for file in self.files(self.path)}
        if hashlib.sha256(b"".join(files.values())).digest() != self.digest:
            raise pickle.PicklingError(f"{self.path} has changed since it was loaded; load it again")
        return arrived, (type(self), self.path.name, files)


def arrived(kind: type[FromFile], name: str, files: dict[str, bytes]) -> Any:
    """The model of files that came as bytes; they are kept as long as it is, for runtimes that read them again."""
    folder = TemporaryDirectory()
    for file, content in files.items():
        (Path(folder.name) / file).write_bytes(content)
    model = kind.load(Path(folder.name) / name)
    model.folder = folder
    return model
