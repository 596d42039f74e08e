"""Writing a file whole or not at all, and where computed numbers are kept."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``; after a crash it holds either all of the old or all of the new.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "note"
    >>> write_atomically(target, b"whole")
    >>> target.read_bytes(), [file.name for file in target.parent.iterdir()]
    (b'whole', ['note'])
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a crash; Windows cannot open a folder and does without."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Where numbers that cost time to compute are kept: SMOOTHCERT_CACHE, else ~/.cache/smoothcert."""
    return Path(os.environ.get("SMOOTHCERT_CACHE") or "~/.cache/smoothcert").expanduser()


def keep_arrays(path: Path, arrays: Mapping[str, ArrayLike]) -> None:
    """Write arrays to an .npz file of a cache, whole or not at all; a cache that cannot be written is done without."""
    content = io.BytesIO()
    np.savez(content, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())
