"""Models of files on their way to another process: what was made of a file does not pickle, so its bytes travel."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


class FromFile:
    """A model that was loaded from a file, which is read once more when the model is sent.

    digest: SHA-256 of the files, in order.
    """

    digest: bytes
    path: Any = None  # None: it was made otherwise, and cannot be sent

    @staticmethod
    def load(path: Path) -> Any:
        """The model of a file."""
        raise NotImplementedError

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
