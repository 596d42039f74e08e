"""Paths here and behind URLs, writing a file whole or not at all, and where computed numbers are kept."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothcert.errors import MissingExtra, SettingError, without_passwords
from smoothcert.extras import import_extra

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def is_url(place: str | Path) -> bool:
    """Does it lie behind a protocol, rather than among the files of this machine?"""
    return "://" in str(place)


def path_of(place: str) -> Path:
    """The path of a file or folder; behind a URL (s3://…) one of universal_pathlib, which is used like any other.

    >>> path_of("images/x.npz").name
    'x.npz'
    """
    if not is_url(place):
        return Path(place).expanduser()
    library = import_extra("upath", "paths with a protocol", "remote")
    try:
        path = library.UPath(place)
        _ = path.fs
    except ImportError as problem:
        raise MissingExtra(f"{without_passwords(place)} needs another library: {problem}") from problem
    except ValueError as problem:
        raise SettingError(
            f"{without_passwords(place)} cannot be reached: {problem}; give s3://…, file://…, or a path"
        ) from problem
    return cast(Path, path)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``; after a crash it holds either all of the old or all of the new.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "note"
    >>> write_atomically(target, b"whole")
    >>> target.read_bytes(), [file.name for file in target.parent.iterdir()]
    (b'whole', ['note'])
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as problem:
        problem.filename = str(path)  # a full disk names no file, and others the temporary one
        raise
    finally:
        with contextlib.suppress(OSError):  # there may be nothing to clean up, and nowhere either
            temporary.unlink()


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
    """Write arrays to a file of a cache, whole or not at all; a cache that cannot be written is done without."""
    import numpy as np

    content = io.BytesIO()
    np.savez(content, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    packed = content.getvalue()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _digest(path, packed) + packed)


def kept_arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays that were kept in this file; None, to be computed again, if it is missing or a single bit was altered.

    A file belongs to its name, which says what the numbers are of.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "numbers"
    >>> keep_arrays(file, {"radii": [1.0, 2.0]})
    >>> kept_arrays(file)
    {'radii': array([1., 2.])}
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, packed = content[:32], content[32:]
    if _digest(path, packed) != digest:
        warnings.warn(f"{path} is damaged or was renamed; what it held is computed again and replaced", stacklevel=2)
        return None
    import numpy as np

    with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def forget_all_but(number: int, files: Iterable[Path]) -> None:
    """Remove files of a cache but for those that were written last; what another process removes or locks is left to it."""
    with contextlib.suppress(OSError):
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[:-number]:
            path.unlink()


def _digest(path: Path, packed: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\0" + packed).digest()
