"""Downloads that end with the right file or with none: streamed aside, verified by SHA-256, then moved into place."""

from __future__ import annotations

import hashlib
import http.client
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from smoothcert.data.base import Progress
from smoothcert.errors import DataError

CHUNK = 1 << 18
SILENCE = 60.0
"""Seconds without a byte after which a server counts as gone."""


@dataclass(frozen=True)
class Resource:
    """A file to download: where it is, the SHA-256 of its content in hexadecimal, and its name on disk."""

    url: str
    sha256: str
    file_name: str
    mirrors: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address to try, the official one first."""
        return (self.url, *self.mirrors)


def retrieve(resource: Resource, folder: Path, progress: Progress | None = None) -> Path:
    """The path of the verified file in the folder, from the first address that serves it whole and unchanged."""
    failures = []
    for url in resource.addresses:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return _retrieve_from(url, resource, folder, progress)
        except DataError as failure:  # this address did not serve the file; the next may
            failures.append(str(failure))
        except OSError as error:  # the disk: another address would not help
            raise DataError(
                f"cannot write to {folder}: {error}; free some space, or name a folder that can be written by root=... "
                f"or the environment variable SMOOTHCERT_DATA"
            ) from error
    raise DataError(
        f"cannot download {resource.file_name}: {'; '.join(failures)}. Try again later, or put the file, of SHA-256 "
        f"{resource.sha256}, into {folder} by hand"
    )


def missing(name: str, folder: Path, what: str, resource: Resource) -> DataError:
    """The error for a file that is not there when no download was asked for."""
    return DataError(
        f"data set {name!r} is not complete: {folder} holds no {what}; load it with download=True, or name the folder "
        f"that holds it by root=... or the environment variable SMOOTHCERT_DATA, or put {resource.url} there by hand"
    )


def _retrieve_from(url: str, resource: Resource, folder: Path, progress: Progress | None) -> Path:
    """Stream one address into a file aside, verify it, and move it to its place; remove it if anything fails."""
    target = folder / resource.file_name
    # A name of its own: two processes may download at once, and each moves a whole file into place.
    aside = folder / f".{resource.file_name}.{secrets.token_hex(8)}.part"
    try:
        with open(aside, "xb") as file:
            got = _stream(url, file, progress)
            if got != resource.sha256:
                raise DataError(f"{url} has the wrong checksum: got SHA-256 {got}, expected {resource.sha256}")
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    return target


def _stream(url: str, file: BinaryIO, progress: Progress | None) -> str:
    """Write the body at the address to the file; the SHA-256 of what was written, in hexadecimal."""
    digest = hashlib.sha256()
    done = 0
    for chunk, total in _chunks(url):
        file.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, total)
    return digest.hexdigest()


def _chunks(url: str) -> Iterator[tuple[bytes, int | None]]:
    """The body at the address in pieces, each with the promised length; whatever the network does is a DataError."""
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url} is not an address of the web; allowed are https:// and http://")
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=SILENCE) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while chunk := response.read(CHUNK):
                done += len(chunk)
                yield chunk, total
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataError(f"{url} cannot be reached or broke off after {done} bytes ({reason})") from error
    if total is not None and done != total:
        raise DataError(f"{url} broke off: got {done} of {total} bytes")
