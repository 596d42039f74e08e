"""CIFAR-10: folder and archive, and pickles that want more than to be read."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smoothcert.data import load
from smoothcert.data.cifar10 import FOLDER, RestrictedUnpickler
from smoothcert.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)


def batch_bytes(shift: int = 0, keys: type = bytes, module: bytes = b"numpy.core.multiarray") -> bytes:
    """A batch as the official files are: protocol 2, with the rebuilder of arrays under the wanted module."""
    batch = {"batch_label": "testing batch", "data": PIXELS + np.uint8(shift), "labels": [shift, 9]}
    named = batch if keys is str else {key.encode(): value for key, value in batch.items()}
    content = pickle.dumps(named, protocol=2)
    for written in (b"numpy._core.multiarray", b"numpy.core.multiarray"):
        content = content.replace(written + b"\n", b"MODULE\n")
    return content.replace(b"MODULE\n", module + b"\n")


def write_folder(root: Path, files: dict[str, bytes]) -> None:
    """The folder of batches."""
    (root / FOLDER).mkdir()
    for name, content in files.items():
        (root / FOLDER / name).write_bytes(content)


def write_archive(root: Path, files: dict[str, bytes]) -> Path:
    """The archive of batches, members named in full."""
    path = root / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("keys", [bytes, str])
@pytest.mark.parametrize("module", [b"numpy.core.multiarray", b"numpy._core.multiarray"])
def test_the_test_split_is_read(tmp_path: Path, keys: type, module: bytes) -> None:
    content = batch_bytes(keys=keys, module=module)
    assert module + b"\n" in content
    write_folder(tmp_path, {"test_batch": content})
    data = load("cifar10", root=tmp_path)
    assert (data.name, len(data), data.shape, data.classes, data.grid) == ("cifar10", 2, (3, 32, 32), 10, 1 / 255)
    assert np.array_equal(data.inputs([1])[0].ravel(), PIXELS[1].astype(np.float32) / np.float32(255))
    assert data.truths([0, 1]) == [0, 9]


def test_the_pickles_of_python_2_are_read(tmp_path: Path) -> None:
    # By hand, as Python 2 wrote it: texts and the bytes of the array are 'str', opcodes U (short) and T (long).
    raw = PIXELS.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
        b"(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    )
    content = b"\x80\x02}(U\x04data" + array + b"U\x06labels](K\x03K\x04eu."
    write_folder(tmp_path, {"test_batch": content})
    data = load("cifar10", root=tmp_path)
    assert data.truths([0, 1]) == [3, 4]
    assert np.array_equal(np.rint(data.inputs([0, 1]) * 255).reshape(2, -1), PIXELS)


@pytest.mark.parametrize("packed", [True, False])
def test_the_training_batches_come_in_order(tmp_path: Path, packed: bool) -> None:
    files = {f"data_batch_{number}": batch_bytes(shift=number) for number in (3, 1, 5, 2, 4)}
    if packed:
        write_archive(tmp_path, {f"{FOLDER}/{name}": content for name, content in files.items()})
    else:
        write_folder(tmp_path, files)
    data = load("cifar10", root=tmp_path, split="train")
    assert data.truths(range(0, 10, 2)) == [1, 2, 3, 4, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cifar-10-python.tar.gz" if packed else FOLDER]


def test_folder_and_archive_are_the_same_data(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write_folder(tmp_path / "folder", {"test_batch": batch_bytes()})
    write_archive(tmp_path, {"../escape": b"x", "test_batch": b"x", f"{FOLDER}/test_batch": batch_bytes()})
    assert load("cifar10", root=tmp_path).fingerprint() == load("cifar10", root=tmp_path / "folder").fingerprint()
    assert not (tmp_path.parent / "escape").exists()


class Malice:
    """What a pickle should never be able to do."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "ran"
    content = pickle.dumps({b"data": Malice(os.system, f"touch {marker}"), b"labels": []}, protocol=protocol)
    write_folder(tmp_path, {"test_batch": content})
    with pytest.raises(DataError, match=r"test_batch: refused to call (posix|nt|os)\.system"):
        load("cifar10", root=tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("function", [eval, getattr, __import__, np.load, os.popen])
def test_other_names_are_refused_too(function: Any) -> None:
    with pytest.raises(DataError, match="refused to call"):
        RestrictedUnpickler(io.BytesIO(pickle.dumps(Malice(function, "1")))).load()


def test_dotted_names_do_not_reach_through_an_allowed_one() -> None:
    content = b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."
    with pytest.raises(DataError, match=r"refused to call numpy\.ndarray\.tofile"):
        RestrictedUnpickler(io.BytesIO(content)).load()


def test_only_latin1_is_encoded() -> None:
    content = b"c_codecs\nencode\n(Vabc\nV%s\ntR."
    assert RestrictedUnpickler(io.BytesIO(content % b"latin1")).load() == b"abc"
    with pytest.raises(DataError, match="refused the codec 'bz2'"):
        RestrictedUnpickler(io.BytesIO(content % b"bz2")).load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as a pickle: EOFError"),
        (b"not a pickle", "cannot be read as a pickle"),
        (batch_bytes()[:-100], "cannot be read as a pickle"),
        (pickle.dumps([1, 2]), "its keys are: none, it is a list"),
        (pickle.dumps({b"images": 1}), "it has no 'data'; its keys are: b'images'"),
        (pickle.dumps({b"data": PIXELS}, protocol=2), "it has no 'labels'"),
        (pickle.dumps({b"data": 1, b"labels": [1]}), "'data' is int; expected uint8"),
        (pickle.dumps({b"data": PIXELS[:, :9], b"labels": [1, 2]}, protocol=2), r"uint8 \(2, 9\); expected"),
        (pickle.dumps({b"data": PIXELS, b"labels": [1]}, protocol=2), "must be a list of 2 integers"),
        (pickle.dumps({b"data": PIXELS, b"labels": [1, "2"]}, protocol=2), "must be a list of 2 integers"),
        (pickle.dumps({b"data": PIXELS, b"labels": [1, 10]}, protocol=2), "allowed are 0 to 9"),
    ],
)
def test_what_is_no_batch_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    write_folder(tmp_path, {"test_batch": content})
    with pytest.raises(DataError, match=message):
        load("cifar10", root=tmp_path)


def test_a_missing_set_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no cifar-10-batches-py with test_batch, and no cifar-10-python\.tar\.gz"):
        load("cifar10", root=tmp_path)


def test_an_archive_without_the_batch_is_refused(tmp_path: Path) -> None:
    write_archive(tmp_path, {f"{FOLDER}/readme.html": b"hello"})
    with pytest.raises(DataError, match="holds no usable test_batch"):
        load("cifar10", root=tmp_path)


def test_a_link_in_the_archive_is_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo(f"{FOLDER}/test_batch")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(DataError, match="holds no usable test_batch"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize("cut", [0, 10, 2000])
def test_a_damaged_archive_is_refused(tmp_path: Path, cut: int) -> None:
    path = write_archive(tmp_path, {f"{FOLDER}/test_batch": batch_bytes()})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"tar\.gz cannot be read"):
        load("cifar10", root=tmp_path)
